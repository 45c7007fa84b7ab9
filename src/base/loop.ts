import type { Clock } from './clock.ts';
import type { Logger } from './log.ts';

/** Work that is done in steps: after a wake-up, and when its own next due time has come. */
export interface Loop {
  /** Something may be due. Carries no data: the step looks for itself. */
  wake(): void;
  /** Resolves when no step is running and none has been asked for. */
  settle(): Promise<void>;
  /** No further step begins; resolves when the running one has ended. */
  stop(): Promise<void>;
}

interface LoopOptions {
  name: string;
  clock: Clock;
  log: Logger;
  /** Does what is due and answers in how many milliseconds the next thing is, or null when only a wake-up brings more. */
  step(): Promise<number | null> | number | null;
}

const retryAfter = 1_000;

/** Runs `step` one at a time. A step that throws is logged and tried again after a second. */
export function createLoop({ name, clock, log, step }: LoopOptions): Loop {
  let asked = false;
  let stopped = false;
  let running: Promise<void> | undefined;
  let cancelTimer = () => {};

  const run = async () => {
    await new Promise(setImmediate);
    while (asked && !stopped) {
      asked = false;
      cancelTimer();
      let next: number | null;
      try {
        next = await step();
      } catch (error) {
        log.error({ loop: name, err: error }, 'A loop failed and will be tried again.');
        next = retryAfter;
      }
      if (next !== null && !stopped) cancelTimer = clock.timer(next, wake);
    }
    running = undefined;
  };

  function wake() {
    if (stopped) return;
    asked = true;
    running ??= run();
  }

  return {
    wake,
    async settle() {
      while (running) await running;
    },
    async stop() {
      stopped = true;
      cancelTimer();
      await running;
    },
  };
}
