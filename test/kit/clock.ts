import { randomBytes } from 'node:crypto';
import { v7 } from 'uuid';
import type { Clock } from '../../src/base/clock.ts';

/** A clock that stands still until it is turned. */
export interface TestClock extends Clock {
  /** Moves on by so many milliseconds; what is due on the way is called in order. */
  advance(ms: number): void;
}

export function createTestClock(start = Date.parse('2026-01-02T03:04:05.678Z')): TestClock {
  let now = start;
  const timers = new Map<symbol, { due: number; fn: () => void }>();
  return {
    now: () => now,
    monotonic: () => now - start,
    timer(ms, fn) {
      const key = Symbol();
      timers.set(key, { due: now + ms, fn });
      return () => timers.delete(key);
    },
    random: randomBytes,
    id: () => v7(),
    requestId: () => v7(),
    advance(ms) {
      const end = now + ms;
      for (;;) {
        const next = [...timers].filter(([, { due }]) => due <= end).sort(([, a], [, b]) => a.due - b.due)[0];
        if (!next) break;
        const [key, { due, fn }] = next;
        timers.delete(key);
        now = Math.max(now, due);
        fn();
      }
      now = end;
    },
  };
}
