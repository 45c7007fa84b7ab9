import { iso } from '../base/clock.ts';
import type { Stage } from './half.ts';
import type { InputAnswer, InputDraft } from '../api/inputs.ts';

/** What came of a question. */
export type Reply = { answer: InputAnswer } | 'expired' | 'cancelled';

interface Open {
  settle: (reply: Reply) => void;
  cancelTimer: () => void;
}

/** The questions that wait for a person. The run's time stands still while there are any. */
export class Questions {
  readonly #stage: Stage;
  readonly #open = new Map<string, Open>();
  #closed = false;

  constructor(stage: Stage) {
    this.#stage = stage;
  }

  /** Asks, and waits for the answer, the end of the time for it, the end of the run, or `signal` (the agent takes it back). */
  ask(draft: Omit<InputDraft, 'id' | 'expires_at'>, signal: AbortSignal): Promise<Reply> {
    if (this.#closed) return Promise.resolve('cancelled');
    const { clock, journal, spec } = this.#stage;
    const id = clock.id();
    const now = clock.now();
    const ms = spec.input_timeout_seconds * 1000;
    const { promise, resolve } = Promise.withResolvers<Reply>();
    this.#open.set(id, { settle: resolve, cancelTimer: clock.timer(ms, () => this.#close(id, 'expired')) });
    if (this.#open.size === 1) this.#stage.waiting(true);
    journal.record({ record: 'input', at: iso(now), request: { id, ...draft, expires_at: iso(now + ms) } });
    void journal.flush();
    signal.addEventListener('abort', () => this.#close(id, 'cancelled'), { once: true });
    return promise;
  }

  #take(id: string): Open | undefined {
    const open = this.#open.get(id);
    if (!open) return undefined;
    this.#open.delete(id);
    open.cancelTimer();
    if (this.#open.size === 0) this.#stage.waiting(false);
    return open;
  }

  #close(id: string, status: 'expired' | 'cancelled'): void {
    const open = this.#take(id);
    if (!open) return;
    const { clock, journal } = this.#stage;
    journal.record({ record: 'input_closed', at: iso(clock.now()), request_id: id, status });
    open.settle(status);
    if (status === 'expired') this.#stage.stop({ kind: 'expired', request_id: id });
  }

  /** The answer of a person; one that comes twice, or too late, changes nothing. */
  answer(id: string, answer: InputAnswer): void {
    this.#take(id)?.settle({ answer });
  }

  /** Takes all questions back; none is asked any more. */
  end(): void {
    this.#closed = true;
    for (const id of this.#open.keys()) this.#close(id, 'cancelled');
  }
}
