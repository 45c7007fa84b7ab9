import { expect, test } from 'vitest';
import { iso, systemClock } from '../../../src/base/clock.ts';
import { createTestClock } from '../../kit/clock.ts';
import { until } from '../../kit/app.ts';

test('a time is RFC 3339 in UTC with milliseconds', () => {
  expect(iso(0)).toBe('1970-01-01T00:00:00.000Z');
  expect(iso(1_767_323_045_678)).toBe('2026-01-02T03:04:05.678Z');
});

test('ids are lower-case UUIDs of version 7, in the order in which they were made', () => {
  const ids = Array.from({ length: 5_000 }, () => systemClock.id());
  for (const id of ids) expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  expect(new Set(ids).size).toBe(ids.length);
  expect(ids.toSorted()).toEqual(ids);
});

test('the monotonic clock never goes back', () => {
  let last = systemClock.monotonic();
  for (let i = 0; i < 10_000; i++) {
    const next = systemClock.monotonic();
    expect(next >= last).toBe(true);
    last = next;
  }
});

test('a timer calls once, and not at all when it was cancelled', async () => {
  let called = 0;
  let cancelled = 0;
  systemClock.timer(1, () => called++);
  systemClock.timer(1, () => cancelled++)();
  await until('the timer', () => called > 0);
  expect({ called, cancelled }).toEqual({ called: 1, cancelled: 0 });
});

test('a timer longer than setTimeout can count does not fire at once', async () => {
  let called = false;
  const cancel = systemClock.timer(2 ** 40, () => (called = true));
  systemClock.timer(5, () => {});
  await until(
    'some time to pass',
    (
      (end) => () =>
        performance.now() > end
    )(performance.now() + 20),
  );
  cancel();
  expect(called).toBe(false);
});

test('the test clock calls what is due on the way, in order, and at its own time', () => {
  const clock = createTestClock(0);
  const seen: [string, number][] = [];
  clock.timer(30, () => seen.push(['late', clock.now()]));
  clock.timer(10, () => {
    seen.push(['early', clock.now()]);
    clock.timer(10, () => seen.push(['again', clock.now()]));
  });
  clock.timer(20, () => seen.push(['never', clock.now()]))();
  clock.advance(100);
  expect(seen).toEqual([
    ['early', 10],
    ['again', 20],
    ['late', 30],
  ]);
  expect(clock.now()).toBe(100);
});
