import { randomBytes, randomFillSync } from 'node:crypto';
import { v7 } from 'uuid';

/** The only source of time and chance. Tests hand in one that they turn by hand. */
export interface Clock {
  /** Wall-clock milliseconds since 1970. */
  now(): number;
  /** Milliseconds that never go back. */
  monotonic(): number;
  /** Calls `fn` after `ms`; the answer cancels. Does not keep the process alive. */
  timer(ms: number, fn: () => void): () => void;
  random(bytes: number): Buffer;
  /** A fresh UUIDv7: for what is kept, in the order of its making. */
  id(): string;
  /** A UUIDv7 too, made at a fraction of the cost, in no order within a millisecond: for requests. */
  requestId(): string;
}

/** RFC 3339 in UTC with milliseconds: the API's way to write a time. */
export const iso = (ms: number): string => new Date(ms).toISOString();

const pool = Buffer.alloc(4_096);
let used = pool.length;
/** Sixteen random bytes out of a pool: asking the system for each costs a tenth of a small request. */
const pooled = (): Buffer => {
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  used += 16;
  return pool.subarray(used - 16, used);
};

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  timer(ms, fn) {
    const timer = setTimeout(fn, Math.min(ms, 2_147_483_647));
    timer.unref();
    return () => clearTimeout(timer);
  },
  random: (bytes) => randomBytes(bytes),
  id: () => v7(),
  requestId: () => v7({ random: pooled() }),
};
