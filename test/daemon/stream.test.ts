import { connect, type Socket } from 'node:net';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Principal } from '../../src/access/access.ts';
import { draftText } from '../../src/api/draft.ts';
import { createTestClock, type TestClock } from '../kit/clock.ts';
import { openApp, type TestApp, until } from '../kit/app.ts';

let clock: TestClock;
let open: TestApp;
let run: string;
const sockets: Socket[] = [];

beforeEach(async () => {
  clock = createTestClock();
  open = await openApp({ clock, config: { server: { max_streams: 3 } } });
  const project = await open.call('POST', '/v1/projects', { name: 'stream' });
  const { body: operation } = await open.call('POST', `/v1/projects/${project.body.id}/workspaces`, {});
  await open.app.settle();
  // Somebody else writes in the workspace, so the run waits and its history grows only by this test's hand.
  const writer = { kind: 'file' as const, id: operation.id, since: new Date(clock.now()).toISOString() };
  open.app.db.write((tx) => open.app.workspaces.claim(tx, operation.resource.id, writer));
  const accepted = await open.call('POST', '/v1/runs', {
    workspace_id: operation.resource.id,
    harness: 'shell',
    prompt: 'x',
  });
  run = accepted.body.run_id;
});
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await open.close();
});

/** A stream as bytes, so that comments, framing and the end are seen as they are. */
function read(headers: Record<string, string> = {}, query = '') {
  const { port } = open;
  const seen = { text: '', ended: false };
  const lines = Object.entries({ host: '127.0.0.1', authorization: `Bearer ${open.token}`, ...headers });
  const socket = connect(port, '127.0.0.1', () =>
    socket.write(
      `GET /v1/runs/${run}/stream${query} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}`).join('\r\n')}\r\n\r\n`,
    ),
  );
  sockets.push(socket);
  socket.setEncoding('utf8').on('data', (text: string) => (seen.text += text));
  socket.on('close', () => (seen.ended = true));
  socket.on('error', () => {});
  return Object.assign(seen, { socket });
}

const append = (text: string) =>
  open.app.db.write((tx) => {
    const row = open.app.runs.find(open.app.access.describe(principal()).organization.id, run);
    const entry = open.app.runs.open(row);
    open.app.runs.say(entry, 'log', 'daemon', { level: 'info', stream: 'daemon', text });
    open.app.runs.close(tx, entry);
  });
const principal = () => open.app.access.authenticate(`Bearer ${open.token}`, undefined) as Principal;
const ids = (text: string) => [...text.matchAll(/^id: (\d+)$/gm)].map(([, id]) => Number(id));

test('events come with id, type and the whole event on one line; new ones as they are stored', async () => {
  const stream = read();
  await until('the backlog', () => ids(stream.text).length === 1);
  expect(stream.text).toContain('content-type: text/event-stream');
  expect(stream.text).toContain('retry: 1000\n');
  append('two\nlines');
  await until('the new one', () => ids(stream.text).length === 2);
  expect(ids(stream.text)).toEqual([1, 2]);
  const [, type, data] = stream.text.slice(stream.text.indexOf('id: 2')).split('\n');
  expect(type).toBe('event: log');
  expect(JSON.parse(data!.slice('data: '.length))).toMatchObject({
    id: '2',
    sequence: 2,
    type: 'log',
    data: { text: 'two\nlines' },
  });
});

test('Last-Event-ID beats `after`; a cursor past the newest event waits for more', async () => {
  append('second');
  const resumed = read({ 'last-event-id': '1' }, '?after=0');
  const ahead = read({}, '?after=99999999999999999999');
  await until('the rest', () => ids(resumed.text).length === 1);
  expect(ids(resumed.text)).toEqual([2]);
  await until('the headers', () => ahead.text.includes('retry:'));
  expect(ids(ahead.text)).toEqual([]);
  expect(ahead.ended).toBe(false);
});

test('where the beginning is no longer kept, who names no cursor gets what there is, and who names an older one gets 410', async () => {
  for (const text of ['two', 'three', 'four']) append(text);
  const { key } = open.app.runs.find(principal().organization_id, run);
  open.app.db.write(() => open.app.events.trim(key, 3, 10));
  const stream = read();
  await until('what is kept', () => ids(stream.text).length === 2);
  expect(ids(stream.text)).toEqual([3, 4]);
  const page = await open.call('GET', `/v1/runs/${run}/events`);
  expect(page.body.data.map(({ sequence }: { sequence: number }) => sequence)).toEqual([3, 4]);
  for (const path of ['stream', 'events'])
    expect(await open.call('GET', `/v1/runs/${run}/${path}?after=1`)).toMatchObject({
      status: 410,
      body: { error: { code: 'cursor_expired', details: { oldest_sequence: 3, newest_sequence: 4 } } },
    });
});

test('a heartbeat comment every 15 seconds, and the end after 55 seconds between events', async () => {
  const stream = read();
  await until('the backlog', () => ids(stream.text).length === 1);
  clock.advance(15_000);
  await until('a heartbeat', () => stream.text.includes(': heartbeat\n\n'));
  clock.advance(36_000);
  await until('three heartbeats', () => stream.text.split(': heartbeat').length === 4);
  expect(stream.ended).toBe(false);
  clock.advance(8_000);
  await until('the rotation', () => stream.text.endsWith('0\r\n\r\n'));
});

test('after the terminal event the stream ends; a cursor at or past it gets 204', async () => {
  const stream = read();
  await until('the backlog', () => ids(stream.text).length === 1);
  await open.call('POST', `/v1/runs/${run}/cancel`, {});
  await until('the end', () => stream.text.endsWith('0\r\n\r\n'));
  expect(stream.text).toContain('event: run.cancelled');
  for (const after of ['2', '77'])
    expect((await open.call('GET', `/v1/runs/${run}/stream?after=${after}`)).status).toBe(204);
});

test('a reader that does not read is cut off, and nobody waits for it', async () => {
  const stuck = read();
  await until('the backlog', () => ids(stuck.text).length === 1);
  stuck.socket.pause();
  const reader = read();
  const text = 'x'.repeat(1_000_000);
  for (let n = 0; n < 24; n++) append(text);
  await until('all of it', () => ids(reader.text).length === 25);
  expect(stuck.ended).toBe(false);
  clock.advance(15_000);
  stuck.socket.resume();
  await until('the cut', () => stuck.ended);
  expect(ids(stuck.text).length).toBeLessThan(25);
});

test('only so many streams may be open at once; one that is closed makes room', async () => {
  const streams = [read(), read(), read()];
  await until('all open', () => streams.every(({ text }) => text.includes('retry:')));
  const refused = await open.call('GET', `/v1/runs/${run}/stream`);
  expect(refused).toMatchObject({ status: 429, body: { error: { code: 'rate_limited' } } });
  expect(refused.headers['retry-after']).toBe('5');
  streams[0]!.socket.destroy();
  await until('room', async () => {
    const next = read();
    return until('an answer', () => next.text.includes('HTTP/1.1')).then(() => next.text.includes('200 OK'));
  });
});

test('events are appended with their type first, which is how it is read off', () => {
  const text = draftText({
    type: 'log',
    source: 'daemon',
    created_at: 'x',
    data: { level: 'info', stream: 'daemon', text: '' },
  });
  expect(text.startsWith('{"type":"log",')).toBe(true);
});
