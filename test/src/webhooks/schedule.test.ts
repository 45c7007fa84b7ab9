import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Outcome } from '../../../src/webhooks/exchange.ts';
import { delays, next } from '../../../src/webhooks/schedule.ts';

const status = fc.integer({ min: 100, max: 599 });
const outcome: fc.Arbitrary<Outcome> = fc.oneof(
  status.map((code) => ({ kind: 'answered' as const, status: code, excerpt: '' })),
  fc.record({ kind: fc.constant('failed' as const), code: fc.constant('timeout'), message: fc.string(), status }),
);
const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

test('the schedule is the specification’s: about 10 s, 1 min, 5 min, 30 min, 2 h, 8 h, 24 h', () => {
  expect(delays.map((ms) => ms / 1000)).toEqual([10, 60, 300, 1800, 7200, 28_800, 86_400]);
});

test('what follows on an attempt, whatever it came to', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 12 }), outcome, fc.nat(4e12), random, (attempt, came, now, chance) => {
      const { status: to, next: at } = next(attempt, came, now, chance);
      expect(at === null).toBe(to !== 'retrying');
      const good = came.kind === 'answered' && came.status >= 200 && came.status < 300;
      expect(to === 'succeeded').toBe(good);
      const gone = came.kind === 'answered' && came.status === 410;
      expect(to === 'cancelled').toBe(gone);
      if (good || gone) return;
      // The first attempt and seven retries, then no more.
      expect(to).toBe(attempt <= 7 ? 'retrying' : 'exhausted');
      if (at === null) return;
      const delay = delays[attempt - 1]!;
      expect(at - now).toBeGreaterThanOrEqual(Math.floor(delay * 0.8));
      expect(at - now).toBeLessThanOrEqual(Math.ceil(delay * 1.2));
    }),
    { numRuns: 1_000 },
  );
});

test('the jitter uses all of its range, and more chance is never an earlier time', () => {
  const failed: Outcome = { kind: 'failed', code: 'timeout', message: '' };
  expect(next(1, failed, 0, 0).next).toBe(8_000);
  expect(next(1, failed, 0, 0.5).next).toBe(10_000);
  expect(next(1, failed, 0, 1 - 1e-9).next).toBe(12_000);
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 7 }), random, random, (attempt, a, b) => {
      const [low, high] = a < b ? [a, b] : [b, a];
      expect(next(attempt, failed, 0, low).next!).toBeLessThanOrEqual(next(attempt, failed, 0, high).next!);
    }),
  );
});

test('a chain of failures is eight attempts', () => {
  let attempts = 0;
  let now = 0;
  for (let at: number | null = 0; at !== null; attempts++) {
    now = at;
    at = next(attempts + 1, { kind: 'answered', status: 500, excerpt: '' }, now, 0.5).next;
  }
  expect(attempts).toBe(8);
  expect(now).toBe(delays.reduce((sum, ms) => sum + ms, 0));
});
