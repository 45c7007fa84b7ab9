import type { EventData } from '../api/events.ts';
import type { Stage } from './half.ts';
import { Joiner } from './joiner.ts';
import { mostInEvents, Tail } from './output.ts';

/** What an agent prints beside the protocol: `log` events, at most 1 MiB of them, and the end of it for an error. */
export class Chatter {
  readonly #stage: Stage;
  readonly #stream: EventData['log']['stream'];
  readonly #joiner: Joiner;
  readonly #decoder = new TextDecoder();
  readonly #tail = new Tail(4096);
  #size = 0;

  constructor(stage: Stage, stream: 'stdout' | 'stderr') {
    this.#stage = stage;
    this.#stream = stream;
    this.#joiner = new Joiner(stage.clock, (text) => stage.journal.event('log', { level: 'info', stream, text }));
  }

  push(bytes: Buffer): void {
    this.#tail.push(bytes);
    if (this.#size > mostInEvents) return;
    this.#size += bytes.length;
    this.#joiner.push(this.#decoder.decode(bytes, { stream: true }));
    if (this.#size <= mostInEvents) return;
    this.#joiner.flush();
    const text = `More than ${mostInEvents} bytes came on ${this.#stream}: the rest is not kept.`;
    this.#stage.journal.event('log', { level: 'warn', stream: 'daemon', text }, 'daemon');
  }

  /** Sends what is held back; the answer is the end of all that came. */
  end(): string {
    if (this.#size <= mostInEvents) this.#joiner.push(this.#decoder.decode());
    this.#joiner.flush();
    return this.#tail.text();
  }

  tail(): string {
    return this.#tail.text();
  }
}
