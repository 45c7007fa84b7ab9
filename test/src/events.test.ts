import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Fault } from '../../src/api/error.ts';
import { draftText } from '../../src/api/draft.ts';
import { decode, encode, type SentEvent } from '../../src/api/sse.ts';
import { type Db, openDb } from '../../src/base/db.ts';
import { paging } from '../../src/base/page.ts';
import { packageRoot } from '../../src/base/root.ts';
import { createEvents, type Events, type RunRef } from '../../src/events/events.ts';

let folder: string;
let db: Db;
let events: Events;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'agentctl-events-'));
  db = openDb(join(folder, 'test.db'), join(packageRoot, 'src/schema'));
  events = createEvents({ db });
});
afterEach(() => {
  db.close();
  rmSync(folder, { recursive: true });
});

const at = '2026-01-02T03:04:05.678Z';
const say = (text: string) =>
  draftText({ type: 'log', source: 'daemon', created_at: at, data: { level: 'info', stream: 'stdout', text } });
const last = () =>
  draftText({
    type: 'run.completed',
    source: 'daemon',
    created_at: at,
    data: { stop_reason: 'end_turn', error: null, usage: {} as never },
  });
const newRun = (key: number): RunRef => ({ key, id: `run-${key}`, session_id: `session-${key}`, last_sequence: 0 });
const append = (run: RunRef, texts: string[]) => db.write((tx) => (run.last_sequence = events.append(tx, run, texts)));
const all = (limit = 1000, after: number | null = null) => ({ ...paging(Buffer.alloc(32), [], { limit }), after });

async function read(text: string): Promise<SentEvent[]> {
  const found: SentEvent[] = [];
  async function* bytes() {
    yield Buffer.from(text);
  }
  for await (const event of decode(bytes())) found.push(event);
  return found;
}

test('events of a run are numbered from 1 without a gap, however they come in, and runs do not mix', async () => {
  let key = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(fc.boolean(), fc.array(fc.string({ unit: 'grapheme' }), { maxLength: 5 })), { maxLength: 20 }),
      async (batches) => {
        const runs = [newRun(++key), newRun(++key)];
        const expected: [string[], string[]] = [[], []];
        for (const [second, texts] of batches) {
          append(runs[second ? 1 : 0]!, texts.map(say));
          expected[second ? 1 : 0].push(...texts);
        }
        for (const [index, run] of runs.entries()) {
          const { data } = events.page(run, 0, all());
          expect(data.map((event) => event.sequence)).toEqual(expected[index]!.map((_, place) => place + 1));
          expect(data.map((event) => event.data.text)).toEqual(expected[index]);
          expect(data.every((event) => event.id === String(event.sequence) && event.run_id === run.id)).toBe(true);
          const block = events.block(run.key, 0, 1000);
          const sent = block ? await read(block.bytes.toString()) : [];
          expect(sent.map((event) => JSON.parse(event.data))).toEqual(data);
          expect(sent.map(({ id, event }) => ({ id, event }))).toEqual(
            data.map(({ id, type }) => ({ id, event: type })),
          );
          expect(block?.bytes.toString() ?? '').toBe(sent.map(encode).join(''));
        }
      },
    ),
    { numRuns: 25 },
  );
});

test('an event has its nine fields, whatever its text holds', () => {
  const run = newRun(1);
  const text = 'line\nline\r\u2028"quoted" \\ id: 7\n\ndata: x \u0000 \u{1f600}';
  append(run, [say(text)]);
  expect(events.page(run, 0, all()).data).toEqual([
    {
      id: '1',
      sequence: 1,
      run_id: 'run-1',
      session_id: 'session-1',
      type: 'log',
      source: 'daemon',
      created_at: at,
      data: { level: 'info', stream: 'stdout', text },
    },
  ]);
});

test('blocks from any cursor join to the same stream', async () => {
  const run = newRun(1);
  append(run, [...Array.from({ length: 40 }, (_, index) => say(String(index))), last()]);
  const whole = await read(events.block(run.key, 0, 1000)!.bytes.toString());
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 50 }), fc.integer({ min: 0, max: 41 }), (limit, from) => {
      let text = '';
      let terminal = false;
      for (let cursor = from, block; (block = events.block(run.key, cursor, limit)); cursor = block.last) {
        text += block.bytes.toString();
        terminal = block.terminal;
        expect(block.last > cursor).toBe(true);
      }
      expect(text).toBe(whole.slice(from).map(encode).join(''));
      expect(terminal).toBe(from < 41);
    }),
  );
});

test('who follows is woken after the commit and never for what is rolled back', () => {
  const run = newRun(1);
  let woken = 0;
  let seen = 0;
  const stop = events.follow(run.key, () => {
    woken++;
    seen = events.block(run.key, 0, 10)?.last ?? 0;
  });
  events.follow(2, () => (woken += 100));
  expect(() =>
    db.write((tx) => {
      events.append(tx, run, [say('lost')]);
      throw new Error('no');
    }),
  ).toThrow('no');
  expect(woken).toBe(0);
  db.write((tx) => {
    run.last_sequence = events.append(tx, run, [say('a'), say('b')]);
    expect(woken).toBe(0);
  });
  expect({ woken, seen }).toEqual({ woken: 1, seen: 2 });
  append(run, []);
  expect(woken).toBe(1);
  stop();
  append(run, [say('c')]);
  expect(woken).toBe(1);
});

test('trimming takes the oldest, in steps; older cursors are told the bounds, newer ones go on', () => {
  const run = newRun(1);
  append(run, [...Array.from({ length: 9 }, (_, index) => say(String(index))), last()]);
  expect(events.trim(run.key, 7, 4)).toBe(4);
  expect(events.trim(run.key, 7, 4)).toBe(2);
  expect(events.trim(run.key, 7, 4)).toBe(0);
  for (const after of [0, 1, 5]) {
    let fault: unknown;
    try {
      events.page(run, after, all());
    } catch (error) {
      fault = error;
    }
    expect(fault).toBeInstanceOf(Fault);
    expect(fault).toMatchObject({ code: 'cursor_expired', details: { oldest_sequence: 7, newest_sequence: 10 } });
  }
  expect(events.page(run, 6, all()).data.map(({ sequence }) => sequence)).toEqual([7, 8, 9, 10]);
  expect(events.page(run, 10, all()).data).toEqual([]);
  append(run, [say('after')]);
  expect(events.page(run, 10, all()).data.map(({ sequence }) => sequence)).toEqual([11]);
});

test('pages of any size walk the whole history', () => {
  const run = newRun(1);
  append(
    run,
    Array.from({ length: 37 }, (_, index) => say(String(index))),
  );
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 50 }), (limit) => {
      const found: number[] = [];
      for (let after = 0; ; after = found.at(-1)!) {
        const { data, next_cursor } = events.page(run, after, all(limit));
        found.push(...data.map(({ sequence }) => sequence));
        expect(data.length <= limit).toBe(true);
        if (next_cursor === null) break;
      }
      expect(found).toEqual(Array.from({ length: 37 }, (_, index) => index + 1));
    }),
  );
});
