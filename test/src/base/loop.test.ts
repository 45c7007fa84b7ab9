import { expect, test } from 'vitest';
import type { Logger } from '../../../src/base/log.ts';
import { silent } from '../../../src/base/log.ts';
import { createLoop } from '../../../src/base/loop.ts';
import { createTestClock } from '../../kit/clock.ts';

const named = (step: () => Promise<number | null> | number | null, log: Logger = silent) => {
  const clock = createTestClock();
  return { clock, loop: createLoop({ name: 'test', clock, log, step }) };
};

test('does nothing before the first wake-up', async () => {
  let steps = 0;
  const { loop } = named(() => (steps++, null));
  await loop.settle();
  expect(steps).toBe(0);
});

test('takes many wake-ups at once as one', async () => {
  let steps = 0;
  const { loop } = named(() => (steps++, null));
  for (let i = 0; i < 100; i++) loop.wake();
  await loop.settle();
  expect(steps).toBe(1);
});

test('runs one step at a time, and once more for what was asked for meanwhile', async () => {
  let open = () => {};
  let working = 0;
  let most = 0;
  let steps = 0;
  const { loop } = named(async () => {
    steps++;
    most = Math.max(most, ++working);
    if (steps === 1) await new Promise<void>((resolve) => (open = resolve));
    working--;
    return null;
  });
  loop.wake();
  await new Promise(setImmediate);
  await new Promise(setImmediate);
  expect(steps).toBe(1);
  for (let i = 0; i < 5; i++) loop.wake();
  open();
  await loop.settle();
  expect({ steps, most }).toEqual({ steps: 2, most: 1 });
});

test('comes back by itself when the next thing is due, not before', async () => {
  const at: number[] = [];
  const { clock, loop } = named(() => (at.push(clock.monotonic()), at.length < 3 ? 1_000 : null));
  loop.wake();
  await loop.settle();
  clock.advance(999);
  await loop.settle();
  expect(at).toEqual([0]);
  clock.advance(1);
  await loop.settle();
  clock.advance(1_000);
  await loop.settle();
  clock.advance(100_000);
  await loop.settle();
  expect(at).toEqual([0, 1_000, 2_000]);
});

test('forgets an old due time when a later step knows better', async () => {
  const due = [5_000, null];
  let steps = 0;
  const { clock, loop } = named(() => due[steps++] ?? null);
  loop.wake();
  await loop.settle();
  loop.wake();
  await loop.settle();
  clock.advance(60_000);
  await loop.settle();
  expect(steps).toBe(2);
});

test('logs a step that throws and tries again after a second', async () => {
  const errors: unknown[] = [];
  let steps = 0;
  const log = { ...silent, error: (...said: unknown[]) => void errors.push(said) } as Logger;
  const { clock, loop } = named(() => {
    if (++steps === 1) throw new Error('once');
    return null;
  }, log);
  loop.wake();
  await loop.settle();
  expect({ steps, errors: errors.length }).toEqual({ steps: 1, errors: 1 });
  clock.advance(1_000);
  await loop.settle();
  expect({ steps, errors: errors.length }).toEqual({ steps: 2, errors: 1 });
});

test('after stop no step begins, and stop waits for the one that runs', async () => {
  let open = () => {};
  let over = false;
  let steps = 0;
  const { clock, loop } = named(async () => {
    steps++;
    await new Promise<void>((resolve) => (open = resolve));
    over = true;
    return 10;
  });
  loop.wake();
  await new Promise(setImmediate);
  await new Promise(setImmediate);
  loop.wake();
  const stopped = loop.stop();
  open();
  await stopped;
  expect(over).toBe(true);
  loop.wake();
  clock.advance(10_000);
  await loop.settle();
  expect(steps).toBe(1);
});
