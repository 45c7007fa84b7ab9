import { describe, expect, it } from 'vitest';
import { ago, clock, count, duration, microOf, money, runLook, secondsOf } from '../../cli/words.ts';
import { runStatuses } from '../../src/api/runs.ts';

describe('words', () => {
  it.each([
    [null, '–'],
    ['0', '$0.00'],
    ['12', '<$0.0001'],
    ['4200', '$0.0042'],
    ['420000', '$0.42'],
    ['12345678', '$12.35'],
  ])('money %s is %s', (micro, text) => {
    expect(money(micro)).toBe(text);
  });

  it.each([
    ['0.50', '500000'],
    ['1', '1000000'],
    ['$2.000001', '2000001'],
    ['0.1', '100000'],
    ['-1', undefined],
    ['1.0000001', undefined],
    ['one', undefined],
    ['', undefined],
  ])('%s dollars are %s micro-dollars', (text, micro) => {
    expect(microOf(text)).toBe(micro);
  });

  it.each([
    ['90', 90],
    ['20m', 1200],
    ['1h30m', 5400],
    ['2d', 172_800],
    ['0s', 0],
    ['', undefined],
    ['m', undefined],
    ['1x', undefined],
  ])('%s is %s seconds', (text, seconds) => {
    expect(secondsOf(text)).toBe(seconds);
  });

  it.each([
    [0, '0ms'],
    [850, '850ms'],
    [4200, '4.2s'],
    [9990, '10s'],
    [63_000, '1m 03s'],
    [7_500_000, '2h 05m'],
    [270_000_000, '3d 03h'],
  ])('%s ms is %s', (ms, text) => {
    expect(duration(ms)).toBe(text);
  });

  it('shows limits and running time without empty parts', () => {
    expect([clock(0.9), clock(59.9), clock(1200), clock(1201), clock(3600)]).toEqual([
      '0s',
      '59s',
      '20m',
      '20m 01s',
      '1h',
    ]);
  });

  it('says when', () => {
    const now = Date.parse('2026-01-02T00:00:00Z');
    const at = (s: number) => ago(new Date(now - s * 1000).toISOString(), now);
    expect([at(0), at(30), at(150), at(7200), at(200_000), at(-90), ago(null, now)]).toEqual([
      'just now',
      '30s ago',
      '2m ago',
      '2h ago',
      '2d ago',
      'in 1m',
      '–',
    ]);
  });

  it('counts', () => {
    expect([count(999), count(12_345), count(123_456), count(4_500_000)]).toEqual(['999', '12.3k', '123k', '4.5M']);
  });

  it('tells every status by symbol and word, not by colour alone', () => {
    expect(new Set(runStatuses.map((status) => runLook[status].symbol)).size).toBe(runStatuses.length);
    expect(new Set(runStatuses.map((status) => runLook[status].word)).size).toBe(runStatuses.length);
  });
});
