import fc from 'fast-check';
import { expect, test } from 'vitest';
import { zoneOf } from '../../../src/usage/zone.ts';

const at = (text: string) => Date.parse(text);
const text = (time: number) => new Date(time).toISOString().replace(':00.000Z', 'Z');
const buckets = (zone: string, from: string, bucket: 'hour' | 'day' | 'month', count: number) => {
  const found = zoneOf(zone)!;
  const starts = [found.floor(at(from), bucket)];
  while (starts.length < count) starts.push(found.next(starts.at(-1)!, bucket));
  return starts.map(text);
};

test('days begin at midnight on the wall, also where a day has 23 or 25 hours', () => {
  expect(buckets('Europe/Berlin', '2026-03-28T12:00:00Z', 'day', 3)).toEqual([
    '2026-03-27T23:00Z',
    '2026-03-28T23:00Z',
    '2026-03-29T22:00Z',
  ]);
  expect(buckets('Europe/Berlin', '2026-10-24T12:00:00Z', 'day', 3)).toEqual([
    '2026-10-23T22:00Z',
    '2026-10-24T22:00Z',
    '2026-10-25T23:00Z',
  ]);
  expect(buckets('America/New_York', '2026-01-01T04:59:59.999Z', 'month', 2)).toEqual([
    '2025-12-01T05:00Z',
    '2026-01-01T05:00Z',
  ]);
});

test('a day whose midnight is jumped over begins after the jump', () => {
  // In Beirut clocks go from 0:00 to 1:00.
  expect(buckets('Asia/Beirut', '2026-03-28T12:00:00Z', 'day', 3)).toEqual([
    '2026-03-27T22:00Z',
    '2026-03-28T22:00Z',
    '2026-03-29T21:00Z',
  ]);
});

test('hours are those of the zone, which begin at a quarter to in Nepal', () => {
  expect(buckets('Asia/Kathmandu', '2026-05-05T05:05:00Z', 'hour', 2)).toEqual([
    '2026-05-05T04:15Z',
    '2026-05-05T05:15Z',
  ]);
});

test('buckets of any zone tile the time: each moment is in one, and where one ends the next begins', () => {
  const zones = fc.constantFrom(
    'UTC',
    'Europe/Berlin',
    'America/New_York',
    'Asia/Kathmandu',
    'Asia/Beirut',
    'Australia/Lord_Howe',
    'Pacific/Apia',
  );
  const times = fc.integer({ min: at('2005-01-01T00:00:00Z'), max: at('2030-01-01T00:00:00Z') });
  fc.assert(
    fc.property(zones, times, fc.constantFrom('hour', 'day', 'month'), (name, time, bucket) => {
      const zone = zoneOf(name)!;
      const start = zone.floor(time, bucket);
      const next = zone.next(start, bucket);
      expect(start).toBeLessThanOrEqual(time);
      expect(next).toBeGreaterThan(time);
      expect(zone.floor(start, bucket)).toBe(start);
      expect(zone.floor(next, bucket)).toBe(next);
      expect(zone.floor(next - 1, bucket)).toBe(start);
    }),
    { numRuns: 300 },
  );
});

test('what is no zone is none', () => {
  expect(['', 'Mars/Olympus', 'x'.repeat(64)].map(zoneOf)).toEqual([undefined, undefined, undefined]);
});
