import { appendFileSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { draftText } from '../../../src/api/draft.ts';
import { systemClock } from '../../../src/base/clock.ts';
import { Journal } from '../../../src/runner/journal.ts';
import { decodeFrames, encodeFrame, maxFrame, readSpool, SpoolDamaged, spoolMagic } from '../../../src/runner/spool.ts';
import { until } from '../../kit/runner.ts';

const folder = mkdtempSync(join(tmpdir(), 'agentctl-spool-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let files = 0;
const fresh = (): string => {
  files += 1;
  return join(folder, String(files));
};

const frame = fc.record({
  kind: fc.constantFrom('e' as const, 'c' as const),
  text: fc.string({ unit: 'binary', maxLength: 300 }),
});
/** What a text is after it was written as UTF-8. */
const written = (text: string): string => Buffer.from(text).toString();

test('what was written is read, whatever the steps', () => {
  fc.assert(
    fc.property(fc.array(frame, { maxLength: 30 }), fc.integer({ min: 1, max: 400 }), (frames, budget) => {
      const path = fresh();
      writeFileSync(path, Buffer.concat([spoolMagic, ...frames.map(({ kind, text }) => encodeFrame(kind, text))]));
      const read = [];
      let offset = 0;
      for (let more = readSpool(path, offset, budget); more.length > 0; more = readSpool(path, offset, budget)) {
        read.push(...more);
        offset = more.at(-1)?.end ?? offset;
      }
      expect(read.map(({ kind, text }) => ({ kind, text }))).toEqual(
        frames.map(({ kind, text }) => ({ kind, text: written(text) })),
      );
      expect(frames.length === 0 || offset === statSync(path).size).toBe(true);
    }),
    { numRuns: 100 },
  );
});

test('a torn end is left for later, and nothing before it is lost', () => {
  fc.assert(
    fc.property(fc.array(frame, { minLength: 1, maxLength: 10 }), fc.nat(), (frames, cut) => {
      const bytes = Buffer.concat([spoolMagic, ...frames.map(({ kind, text }) => encodeFrame(kind, text))]);
      const path = fresh();
      const at = cut % bytes.length;
      writeFileSync(path, bytes.subarray(0, at));
      const first = readSpool(path, 0);
      expect(first.every(({ end }) => end <= at)).toBe(true);
      appendFileSync(path, bytes.subarray(at));
      const offset = first.at(-1)?.end ?? 0;
      expect([...first, ...readSpool(path, offset)]).toHaveLength(frames.length);
    }),
    { numRuns: 100 },
  );
});

test('a changed byte is noticed, and what stands before it is still read', () => {
  fc.assert(
    fc.property(
      fc.array(frame, { minLength: 1, maxLength: 6 }),
      fc.nat(),
      fc.integer({ min: 1, max: 255 }),
      (frames, where, by) => {
        const bytes = Buffer.concat([spoolMagic, ...frames.map(({ kind, text }) => encodeFrame(kind, text))]);
        const at = where % bytes.length;
        bytes[at] = (bytes[at] as number) ^ by;
        // A length that has become larger looks like a frame that is still being written: then the rest is missing.
        const noticed = (): boolean => {
          try {
            return decodeFrames(bytes, 0).length < frames.length;
          } catch (error) {
            return error instanceof SpoolDamaged;
          }
        };
        expect(noticed()).toBe(true);
      },
    ),
    { numRuns: 200 },
  );
});

test('a frame over the bound is refused', () => {
  expect(() => encodeFrame('e', 'x'.repeat(maxFrame))).toThrow(RangeError);
});

test('a journal writes what a turn brought at once, and tells the size', async () => {
  const path = fresh();
  const sizes: number[] = [];
  const journal = new Journal(path, { clock: systemClock, grown: (size) => sizes.push(size) });
  for (let n = 0; n < 100; n++) journal.event('log', { level: 'info', stream: 'stdout', text: String(n) });
  await journal.flush();
  expect(sizes).toEqual([8, statSync(path).size]);
  const [first] = readSpool(path, 0);
  expect(first?.text).toBe(draftText(JSON.parse(first?.text ?? '')));
  expect(readSpool(path, 0)).toHaveLength(100);
  journal.close();
  expect(() => new Journal(path, { clock: systemClock })).toThrow(/EEXIST/);
});

test('an event that is too long is replaced by a note', async () => {
  const path = fresh();
  const journal = new Journal(path, { clock: systemClock });
  journal.event('log', { level: 'info', stream: 'stdout', text: 'x'.repeat(maxFrame) });
  await journal.flush();
  expect(readSpool(path, 0).map(({ text }) => text)).toEqual([expect.stringContaining('was too long to be kept')]);
  journal.close();
});

test('a full disk holds the journal up, and costs nothing once it has space again', async () => {
  const path = fresh();
  let space = 50;
  const { writeSync } = await import('node:fs');
  const journal = new Journal(path, {
    clock: systemClock,
    write(file, bytes) {
      if (space === 0) throw Object.assign(new Error('no space left'), { code: 'ENOSPC' });
      const count = writeSync(file, bytes, 0, Math.min(bytes.length, space));
      space -= count;
      return count;
    },
  });
  for (let n = 0; n < 3000; n++) journal.event('log', { level: 'info', stream: 'stdout', text: 'y'.repeat(500) });
  expect(journal.full).toBe(true);
  let relieved = false;
  void journal.relieved().then(() => (relieved = true));
  await until(() => statSync(path).size === 50, 'first bytes');
  expect(relieved).toBe(false);
  space = Infinity;
  await journal.flush();
  expect(relieved).toBe(true);
  expect(journal.full).toBe(false);
  let count = 0;
  for (let offset = 0, more = readSpool(path, 0); more.length > 0; more = readSpool(path, offset)) {
    count += more.length;
    offset = more.at(-1)?.end ?? 0;
  }
  expect(count).toBe(3000);
  journal.close();
});

test('a disk that stays full is given up after a minute', async () => {
  let now = 0;
  let stuck = '';
  let full = true;
  const { writeSync } = await import('node:fs');
  const journal = new Journal(fresh(), {
    clock: { ...systemClock, monotonic: () => now },
    stuck: (error) => (stuck = error.message),
    write(file, bytes) {
      if (full && bytes.length > 8) throw new Error('no space left');
      return writeSync(file, bytes);
    },
  });
  journal.event('log', { level: 'info', stream: 'stdout', text: 'z' });
  await new Promise((resolve) => setTimeout(resolve, 30));
  expect(stuck).toBe('');
  now = 61_000;
  await until(() => stuck === 'no space left', 'surrender');
  full = false;
  await journal.flush();
  journal.close();
});
