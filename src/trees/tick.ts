import { systemClock } from '../base/clock.ts';

/** Milliseconds within which a system may give two changes of a file one time. */
const tick = 12;
/** The same for a file system that keeps whole seconds, or two. */
const coarse = 2500;

const bell = new Int32Array(new SharedArrayBuffer(4));

/** Has this thread wait. */
export function pause(milliseconds: number): void {
  Atomics.wait(bell, 0, 0, milliseconds);
}

/** Whether any change from `now` on gets another time than this one. Both are milliseconds since 1970. */
export function isSettled(time: number, now: number): boolean {
  return now - time >= (time % 1000 === 0 ? coarse : tick);
}

/**
 * Waits until a file's time is settled, so that what comes later is seen, both while the file is read and at the next snapshot.
 * False when that takes too long: when the file system keeps no finer times, or the clock was turned back.
 */
export function waitForTick(time: number): boolean {
  const now = systemClock.now();
  if (isSettled(time, now)) return true;
  const left = time + tick - now;
  if (left > 2 * tick || time % 1000 === 0) return false;
  pause(left);
  return true;
}
