import { expect, test } from 'vitest';
import { createLoad } from '../../daemon/load.ts';
import { Fault } from '../../src/api/error.ts';
import type { Clock } from '../../src/base/clock.ts';

const limits = { requests_per_minute: 0, streams: 1, waiting_requests: 2, delay_ms: 100 };

/** A clock whose timers can be late. */
function lateClock() {
  let now = 0;
  let due: { at: number; fn: () => void } | undefined;
  const clock = {
    monotonic: () => now,
    timer: (ms: number, fn: () => void) => ((due = { at: now + ms, fn }), () => {}),
  };
  return {
    clock: clock as unknown as Clock,
    /** Lets the timer fire this much too late. */
    fire(late: number) {
      const { at, fn } = due!;
      now = at + late;
      fn();
    },
  };
}
const code = (error: unknown) => (error instanceof Fault ? [error.code, error.headers['retry-after']] : error);

test('more requests than may be at work are sent away, and the place of one that has ended is free', async () => {
  const load = createLoad(lateClock().clock, limits);
  const ends: (() => void)[] = [];
  const begin = () => load.carry(() => new Promise<void>((resolve) => ends.push(resolve)));
  const running = [begin(), begin()];
  await expect(begin().catch(code)).resolves.toEqual(['unavailable', '1']);
  ends[0]!();
  await running[0];
  const third = begin();
  for (const end of ends) end();
  await Promise.all([third, running[1]]);
  await expect(load.carry(async () => Promise.reject(new Error('mine')))).rejects.toThrow('mine');
  await expect(load.carry(async () => 'done')).resolves.toBe('done');
});

test('a daemon that is late twice in a row takes nothing new until it has caught up', async () => {
  const { clock, fire } = lateClock();
  const load = createLoad(clock, limits);
  const ask = () => load.carry(async () => 'done').catch(code);
  fire(5_000);
  expect(await ask()).toBe('done');
  fire(101);
  expect(await ask()).toEqual(['unavailable', '1']);
  fire(100);
  expect(await ask()).toBe('done');
});
