import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { type Clock, systemClock } from '../../../src/base/clock.ts';
import { cut, Joiner } from '../../../src/runner/joiner.ts';
import { fileName, mostInEvents, Tail, ToolOutput } from '../../../src/runner/output.ts';

const folder = mkdtempSync(join(tmpdir(), 'agentctl-output-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A clock that is turned by hand. */
function handClock(): Clock & { turn(ms: number): void } {
  let now = 0;
  const timers = new Set<{ at: number; fn: () => void }>();
  return {
    ...systemClock,
    monotonic: () => now,
    timer(ms, fn) {
      const timer = { at: now + ms, fn };
      timers.add(timer);
      return () => timers.delete(timer);
    },
    turn(ms) {
      now += ms;
      for (const timer of timers) {
        if (timer.at > now || !timers.delete(timer)) continue;
        timer.fn();
      }
    },
  };
}

const words = fc.string({ unit: 'grapheme', maxLength: 200 });

test('a cut keeps all, stays in bounds and never splits a character', () => {
  fc.assert(
    fc.property(words, fc.integer({ min: 4, max: 50 }), (text, bytes) => {
      const pieces: string[] = [];
      for (let left = text; left !== '';) {
        const [piece, remainder] = cut(left, bytes);
        expect(piece).not.toBe('');
        pieces.push(piece);
        left = remainder;
      }
      expect(pieces.join('')).toBe(text);
      for (const piece of pieces) {
        expect(Buffer.byteLength(piece)).toBeLessThanOrEqual(bytes);
        expect(piece.isWellFormed()).toBe(text.isWellFormed());
      }
    }),
  );
});

test('the first piece goes at once, later ones together', () => {
  const clock = handClock();
  const pieces: string[] = [];
  const joiner = new Joiner(clock, (text) => pieces.push(text));
  joiner.push('a');
  joiner.push('b');
  joiner.push('c');
  expect(pieces).toEqual(['a']);
  clock.turn(99);
  expect(pieces).toEqual(['a']);
  clock.turn(1);
  expect(pieces).toEqual(['a', 'bc']);
  clock.turn(500);
  joiner.push('d');
  expect(pieces).toEqual(['a', 'bc', 'd']);
  joiner.push('e');
  joiner.flush();
  expect(pieces).toEqual(['a', 'bc', 'd', 'e']);
  clock.turn(1000);
  expect(pieces).toHaveLength(4);
});

test('a thousand pieces in a second are about ten events', () => {
  const clock = handClock();
  const pieces: string[] = [];
  const joiner = new Joiner(clock, (text) => pieces.push(text));
  for (let n = 0; n < 1000; n++) {
    joiner.push(`${n};`);
    clock.turn(1);
  }
  joiner.flush();
  expect(pieces.length).toBeLessThanOrEqual(12);
  expect(pieces.join('')).toBe(Array.from({ length: 1000 }, (_, n) => `${n};`).join(''));
});

test('a tail is the end, whatever the pieces', () => {
  fc.assert(
    fc.property(
      fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 20 }),
      fc.integer({ min: 1, max: 64 }),
      (parts, bound) => {
        const ascii = parts.map((part) => Buffer.from(part.map((byte) => 32 + (byte % 90))));
        const tail = new Tail(bound);
        for (const part of ascii) tail.push(part);
        expect(tail.text()).toBe(Buffer.concat(ascii).toString().slice(-bound));
      },
    ),
  );
});

test('a tail does not begin within a character', () => {
  const tail = new Tail(4);
  tail.push(Buffer.from('ééé'));
  expect(tail.text()).toBe('éé');
  tail.push(Buffer.from('x'));
  expect(tail.text()).toBe('éx');
});

test('bytes cut anywhere make the same text', () => {
  fc.assert(
    fc.property(words, fc.array(fc.nat(), { maxLength: 10 }), (text, cuts) => {
      let shown = '';
      const output = new ToolOutput({ id: 'x', folder, clock: systemClock, emit: (data) => (shown += data.text) });
      const bytes = Buffer.from(text);
      const places = [0, ...cuts.map((one) => one % (bytes.length + 1)), bytes.length].toSorted(
        (one, other) => one - other,
      );
      for (let n = 1; n < places.length; n++) output.push('stdout', bytes.subarray(places[n - 1], places[n]));
      output.end();
      expect(shown).toBe(bytes.toString());
    }),
  );
});

test('at most 1 MiB in events, the whole in a file; raw bytes stay raw', () => {
  const events: { text: string; truncated: boolean }[] = [];
  const output = new ToolOutput({ id: '../a b', folder, clock: systemClock, emit: (data) => events.push(data) });
  const block = Buffer.alloc(100_000, 0xff);
  for (let n = 0; n < 8; n++) output.push('stdout', block);
  expect(output.end()).toBe('\uFFFD'.repeat(16_384));
  const shown = events.map(({ text }) => Buffer.byteLength(text));
  expect(shown.reduce((sum, one) => sum + one, 0)).toBeLessThanOrEqual(mostInEvents);
  expect(shown.every((one) => one <= 65_536)).toBe(true);
  expect(events.filter(({ truncated }) => truncated)).toEqual([events.at(-1)]);
  expect(readFileSync(join(folder, 'output', fileName('../a b'))).equals(Buffer.alloc(800_000, 0xff))).toBe(true);
});

test('a call’s id is no path', () => {
  for (const id of ['../../etc/passwd', '/', '..', '', 'a/b', '\0', 'x'.repeat(500)]) {
    const name = fileName(id);
    expect(name).toMatch(/^[A-Za-z0-9_-][A-Za-z0-9._-]{0,119}$/);
  }
  expect(existsSync(join(folder, 'output', 'x'))).toBe(false);
});
