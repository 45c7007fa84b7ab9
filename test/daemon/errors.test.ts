import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { failures } from '../../src/api/error.ts';
import { systemClock } from '../../src/base/clock.ts';
import { type Facts, nowhere, type Scenario, scenarios } from './failures.ts';
import { type Answer, openApp, type TestApp, until } from '../kit/app.ts';
import {
  counts,
  createGate,
  createProject,
  createRun,
  createWorkspace,
  dump,
  ended,
  missingRun,
  talk,
  untilRun,
  withMissingHarness,
} from './scene.ts';

let scene: TestApp;
let facts: Facts;
const gate = createGate();

beforeAll(async () => {
  scene = await openApp({ config: withMissingHarness });
  const { app, call } = scene;
  const archived = await createProject(scene, { name: 'Archived' });
  await call('DELETE', `/v1/projects/${archived.id}`);
  const { id: project } = await createProject(scene, { name: 'Open' });
  const { id: workspace } = await createWorkspace(scene, project);
  const directory = mkdtempSync(join(realpathSync(tmpdir()), 'agentctl-directory-'));
  const { id: inPlace } = await createWorkspace(scene, project, {
    source: { type: 'directory', path: directory, mode: 'in_place' },
  });
  const run = await createRun(scene, { project_id: project, harness: 'shell', prompt: gate.script });
  const failed = await createRun(scene, { ...missingRun, project_id: project });
  const { last_sequence: lastSequence } = await untilRun(scene, failed.run_id, ended);
  const row = await untilRun(scene, run.run_id, ['running']);
  // A second after its start come its first figures; then nothing happens in it any more.
  await until('the figures', async () => {
    const { body } = await call('GET', `/v1/runs/${run.run_id}/events`);
    return (body.data as { type: string }[]).some(({ type }) => type === 'usage.updated');
  });
  const ask = (status: 'pending' | 'answered' | 'expired') =>
    app.db.write((tx) => {
      const id = app.clock.id();
      app.inputs.add(tx, row, {
        id,
        kind: 'question',
        title: 'Which?',
        message: null,
        tool_call_id: null,
        options: [
          { id: 'yes', label: 'Yes', kind: 'choice' },
          { id: 'no', label: 'No', kind: 'choice' },
        ],
        allow_text: false,
        schema: { type: 'object', properties: { port: { type: 'integer' } }, required: ['port'] },
        grant: null,
        expires_at: '2030-01-01T00:00:00.000Z',
      });
      if (status === 'answered') app.inputs.answer(tx, row.id, { request_id: id, option_id: 'yes' }, 'me');
      if (status === 'expired') app.inputs.close(tx, id, 'expired');
      return id;
    });
  const answered = ask('answered');
  const expired = ask('expired');
  const pending: [string, string] = [ask('pending'), ask('pending')];
  const { body: operations } = await call('GET', '/v1/operations?limit=1');
  const { body: projects } = await call('GET', '/v1/projects?limit=1');
  facts = {
    project,
    archived: archived.id,
    workspace,
    directory,
    inPlace,
    running: run.run_id,
    session: run.session_id,
    finished: failed.run_id,
    lastSequence,
    pending,
    answered,
    expired,
    operation: operations.data[0].id,
    cursor: projects.next_cursor,
  };
  // A second after its start the runner tells what was used, once: what is compared from here on must be at rest.
  await until('the run to be at rest', async () => {
    const { body } = await call('GET', `/v1/runs/${run.run_id}/events`);
    return body.data.some(({ type }: { type: string }) => type === 'usage.updated');
  });
  await app.settle();
});

afterAll(async () => {
  gate.open();
  await untilRun(scene, facts.running, ended);
  await scene.close();
  gate.remove();
  rmSync(facts.directory, { recursive: true });
});

/** Puts facts in for `{name}` and `{name.0}`, in texts and in all of an object. */
function fill<T>(value: T): T {
  const text = JSON.stringify(value).replace(/\{(\w+)(?:\.(\d))?\}/g, (whole, name: string, index?: string) => {
    const fact = (facts as unknown as Record<string, string | string[]>)[name];
    return fact === undefined ? whole : index === undefined ? String(fact) : fact[Number(index)]!;
  });
  return JSON.parse(text) as T;
}

/** What every failure has in common (contract section 1). */
function check(answer: Answer, expected: Pick<Scenario, 'status' | 'code'> & Partial<Scenario>, sent = '') {
  const { status, headers, text, body } = answer;
  expect({ status, code: body?.error?.code, text }).toEqual({ status: expected.status, code: expected.code, text });
  const { type, retryable } = failures[expected.code];
  expect(Object.keys(body)).toEqual(['error']);
  const { error } = body;
  expect(Object.keys(error).sort()).toEqual(['code', 'details', 'message', 'param', 'request_id', 'retryable', 'type']);
  const { param, details = {}, message = /^\S.+\S$/s } = expected;
  expect(error).toMatchObject({
    type,
    retryable,
    details: typeof details === 'function' ? details(facts) : details,
    ...(param === undefined ? {} : { param }),
  });
  expect(error.message).toMatch(message);
  expect(headers['content-type']).toBe('application/json; charset=utf-8');
  expect(error.request_id).toMatch(/^[0-9a-f-]{36}$/);
  expect(headers['x-request-id']).toBe(error.request_id);
  for (const [name, value] of Object.entries(expected.answers ?? {})) expect(headers[name]).toMatch(value);
  expect(text).not.toMatch(/\bat \S+ \(|\n\s+at |node_modules|\.[tj]s:\d|SQLITE|FST_ERR/);
  // What the caller has said may be said back.
  const secrets = [scene.token, scene.home.home].filter((secret) => !sent.includes(secret));
  expect(secrets.filter((secret) => text.includes(secret))).toEqual([]);
  return error as { message: string };
}

describe('a failure says what is wrong and changes nothing:', () => {
  test.each(scenarios)('$name → $status $code', async (scenario) => {
    const { method = 'GET', path, body, headers = {}, ...expected } = scenario;
    const payload = typeof body === 'string' || body === undefined ? body : JSON.stringify(fill(body));
    const before = dump(scene.app);
    const address = fill(path);
    const answer = await scene.call(method, encodeURI(address).replaceAll('%25', '%'), payload, headers);
    check(answer, expected, `${address} ${payload ?? ''}`);
    expect(dump(scene.app)).toBe(before);
  });
});

describe('a request as no client library would send it:', () => {
  const head = (lines: string[], first = 'GET /v1/projects HTTP/1.1') =>
    `${[first, ...lines, 'Connection: close'].join('\r\n')}\r\n\r\n`;
  const auth = () => `Authorization: Bearer ${scene.token}`;

  test.each([
    ['no host', () => head([auth()]), 421, 'host_not_allowed'],
    ['an empty host', () => head([auth(), 'Host: ']), 421, 'host_not_allowed'],
    ['the host twice', () => head([auth(), 'Host: 127.0.0.1', 'Host: 127.0.0.1']), 421, 'host_not_allowed'],
    [
      'a good and a foreign host',
      () => head([auth(), 'Host: 127.0.0.1', 'Host: example.org']),
      421,
      'host_not_allowed',
    ],
    [
      'its target in absolute form',
      () => head([auth(), 'Host: 127.0.0.1'], 'GET http://127.0.0.1/v1/projects HTTP/1.1'),
      421,
      'host_not_allowed',
    ],
    [
      'a foreign target in absolute form',
      () => head([auth(), 'Host: 127.0.0.1'], 'GET http://example.org/v1/projects HTTP/1.1'),
      421,
      'host_not_allowed',
    ],
    ['HTTP/1.0 and no host', () => head([auth()], 'GET /v1/projects HTTP/1.0'), 421, 'host_not_allowed'],
    [
      'the origin twice',
      () => head([auth(), 'Host: 127.0.0.1', 'Origin: http://127.0.0.1', 'Origin: http://127.0.0.1']),
      403,
      'origin_not_allowed',
    ],
    [
      'X-Forwarded-Host',
      () => head([auth(), 'Host: example.org', 'X-Forwarded-Host: 127.0.0.1']),
      421,
      'host_not_allowed',
    ],
    [
      'the Idempotency-Key twice',
      () =>
        head(
          [
            auth(),
            'Host: 127.0.0.1',
            'Idempotency-Key: a',
            'Idempotency-Key: a',
            'Content-Type: application/json',
            'Content-Length: 12',
          ],
          'POST /v1/projects HTTP/1.1',
        ) + '{"name":"x"}',
      400,
      'invalid_idempotency_key',
    ],
    [
      'a cursor twice',
      () =>
        head(
          [auth(), 'Host: 127.0.0.1', 'Last-Event-ID: 1', 'Last-Event-ID: 1'],
          `GET /v1/runs/${facts.running}/stream HTTP/1.1`,
        ),
      400,
      'invalid_cursor',
    ],
    [
      'bytes that are not UTF-8',
      () =>
        Buffer.concat([
          Buffer.from(
            head(
              [auth(), 'Host: 127.0.0.1', 'Content-Type: application/json', 'Content-Length: 13'],
              'POST /v1/projects HTTP/1.1',
            ),
          ),
          Buffer.from('{"name":"\xc3("}', 'latin1'),
        ]),
      400,
      'invalid_json',
    ],
  ] as const)('with %s', async (_name, request, status, code) => {
    const before = dump(scene.app);
    const text = request();
    check(await talk(scene.port, text), { status, code });
    expect(dump(scene.app)).toBe(before);
  });

  test('what is not HTTP at all gets an Error body too, with its X-Request-Id', async () => {
    for (const text of [
      'hello\r\n\r\n',
      head(['Host: 127.0.0.1', 'Content-Length: 1', 'Content-Length: 2']),
      head(['Host: 127.0.0.1', 'Content-Length: 1', 'Transfer-Encoding: chunked']),
    ])
      expect(check(await talk(scene.port, text), { status: 400, code: 'invalid_request' }).message).toMatch(/HTTP/);
  });

  test('the daemon’s own page and clients without an Origin come in, by every loopback name', async () => {
    for (const host of [
      '127.0.0.1',
      'localhost',
      'LOCALHOST',
      'agentctl.localhost',
      '[::1]',
      `127.0.0.1:${scene.port}`,
    ])
      for (const origin of [undefined, `http://${host.toLowerCase()}`])
        expect(
          (await scene.call('GET', '/v1/projects', undefined, { host, ...(origin ? { origin } : {}) })).status,
        ).toBe(200);
    const { headers } = await scene.call('GET', '/v1/projects', undefined, { 'sec-fetch-site': 'same-origin' });
    expect(Object.keys(headers).filter((name) => name.startsWith('access-control-'))).toEqual([]);
  });
});

describe('idempotency keys', () => {
  test('the same request again is replayed and says so; another one under the key is refused', async () => {
    const key = { 'idempotency-key': 'errors-1' };
    const first = await scene.call('POST', '/v1/projects', { name: 'Once' }, key);
    expect(first.headers['idempotent-replayed']).toBeUndefined();
    const before = dump(scene.app);
    const again = await scene.call('POST', '/v1/projects', { name: 'Once' }, key);
    expect(again).toMatchObject({
      status: 201,
      text: first.text,
      headers: { 'idempotent-replayed': 'true', location: first.headers.location },
    });
    check(await scene.call('POST', '/v1/projects', { name: 'Twice' }, key), {
      status: 422,
      code: 'idempotency_key_reused',
    });
    check(await scene.call('POST', '/v1/projects?x=1', { name: 'Once' }, key), {
      status: 422,
      code: 'idempotency_key_reused',
    });
    check(await scene.call('DELETE', `/v1/projects/${facts.project}`, undefined, key), {
      status: 422,
      code: 'idempotency_key_reused',
    });
    expect(dump(scene.app)).toBe(before);
  });

  test('the key’s record comes before the state: a retry of what took effect is no conflict', async () => {
    const { id } = await createProject(scene);
    const key = { 'idempotency-key': 'errors-2' };
    const body = { ...missingRun, project_id: id };
    const first = await scene.call('POST', '/v1/runs', body, key);
    await untilRun(scene, first.body.run_id, ended);
    await scene.call('DELETE', `/v1/projects/${id}`);
    await scene.app.settle();
    check(await scene.call('POST', '/v1/runs', body), { status: 409, code: 'project_archived' });
    expect(await scene.call('POST', '/v1/runs', body, key)).toMatchObject({ status: 202, text: first.text });
  });

  test('the syntax comes before the key’s record', async () => {
    const key = { 'idempotency-key': 'errors-3' };
    await scene.call('POST', '/v1/projects', { name: 'x' }, key);
    const answer = await scene.call('POST', '/v1/projects', { name: '' }, key);
    expect(check(answer, { status: 400, code: 'invalid_request' }).message).toMatch(/name/);
  });
});

describe('failures that need a daemon of their own', () => {
  test('cursor_expired: a cursor older than the retained history is told the bounds, by events and stream', async () => {
    const first = await openApp({ config: withMissingHarness });
    const { id } = await createProject(first);
    const run = await createRun(first, { project_id: id, harness: 'shell', prompt: 'echo one; echo two' });
    const { last_sequence: last } = await untilRun(first, run.run_id, ended);
    await first.leave();
    const clock = { ...systemClock, now: () => Date.now() + 31 * 86_400_000 };
    const later = await openApp({ folder: first.home.home, clock });
    await later.app.settle();
    const stored = later.app.db.get<{ n: number }>('SELECT count(*) AS n FROM events')!.n;
    expect(stored).toBe(1);
    const before = counts(later.app);
    for (const [path, headers] of [
      ['events?after=1', {}],
      ['stream?after=1', {}],
      ['stream', { 'last-event-id': '1' }],
    ] as const) {
      const answer = await later.call('GET', `/v1/runs/${run.run_id}/${path}`, undefined, headers);
      check(answer, { status: 410, code: 'cursor_expired', details: { oldest_sequence: last, newest_sequence: last } });
    }
    const { body } = await later.call('GET', `/v1/runs/${run.run_id}/events?after=${last - 1}`);
    expect(body.data).toMatchObject([{ sequence: last, type: 'run.completed' }]);
    expect((await later.call('GET', `/v1/runs/${run.run_id}/result`)).body).toMatchObject({
      final: true,
      text: 'one\ntwo\n',
    });
    expect(counts(later.app)).toEqual(before);
    await later.close();
  });

  test('cursor_expired: a run with more events than are kept loses its oldest, never its end', async () => {
    const open = await openApp({ config: { ...withMissingHarness, events: { max_per_run: 100 } } });
    const { app } = open;
    const { id } = await createProject(open);
    const held = createGate();
    const run = await createRun(open, { project_id: id, harness: 'shell', prompt: held.script });
    const { organization_id } = await untilRun(open, run.run_id, ['running']);
    for (let i = 0; i < 450; i++)
      app.db.write((tx) => {
        const entry = app.runs.open(app.runs.find(organization_id, run.run_id));
        app.runs.say(entry, 'log', 'daemon', { level: 'info', stream: 'daemon', text: String(i) });
        app.runs.close(tx, entry);
      });
    held.open();
    const { last_sequence: newest_sequence } = await untilRun(open, run.run_id, ended);
    const answer = await open.call('GET', `/v1/runs/${run.run_id}/events?after=0`);
    check(answer, { status: 410, code: 'cursor_expired', details: { newest_sequence } });
    const { oldest_sequence } = answer.body.error.details;
    const { body } = await open.call('GET', `/v1/runs/${run.run_id}/events?limit=1000&after=${oldest_sequence - 1}`);
    expect(body.data.map(({ sequence }: { sequence: number }) => sequence)).toEqual(
      Array.from({ length: newest_sequence - oldest_sequence + 1 }, (_, index) => oldest_sequence + index),
    );
    expect(body.data.length).toBeGreaterThanOrEqual(100);
    expect(body.data.length).toBeLessThanOrEqual(200);
    expect(body.data.at(-1).type).toBe('run.completed');
    held.remove();
    await open.close();
  });

  test('rate_limited: one stream more than server.max_streams, and one may come when one has gone', async () => {
    const open = await openApp({ config: { ...withMissingHarness, server: { max_streams: 1 } } });
    const { id } = await createProject(open);
    const held = createGate();
    const { run_id } = await createRun(open, { project_id: id, harness: 'shell', prompt: held.script });
    await untilRun(open, run_id, ['running']);
    const headers = { authorization: `Bearer ${open.token}` };
    const url = `http://127.0.0.1:${open.port}/v1/runs/${run_id}/stream`;
    const gone = new AbortController();
    const stream = await fetch(url, { headers, signal: gone.signal });
    expect(stream.status).toBe(200);
    const answer = await open.call('GET', `/v1/runs/${run_id}/stream`);
    check(answer, { status: 429, code: 'rate_limited', answers: { 'retry-after': /^\d+$/ } });
    gone.abort();
    await stream.text().catch(() => '');
    const next = await until('a place for a stream', async () => {
      const found = await fetch(url, { headers });
      return found.status === 200 ? found : void (await found.text());
    });
    held.open();
    expect(await next.text()).toContain('event: run.completed');
    held.remove();
    await open.close();
  });

  test('insufficient_storage: a full disk stops writing and nothing else, and writing goes on when there is room', async () => {
    const open = await openApp({ config: withMissingHarness });
    const { id } = await createProject(open);
    const { db } = open.app;
    const pages = db.get<{ page_count: number }>('PRAGMA page_count')!.page_count;
    db.get(`PRAGMA max_page_count = ${pages}`);
    const before = dump(open.app);
    const body = { ...missingRun, project_id: id, prompt: 'x'.repeat(500_000) };
    const key = { 'idempotency-key': 'full' };
    check(await open.call('POST', '/v1/runs', body, key), { status: 507, code: 'insufficient_storage' });
    expect(dump(open.app)).toBe(before);
    expect((await open.call('GET', '/v1/projects')).body.data).toHaveLength(1);
    db.get('PRAGMA max_page_count = 1073741823');
    const { status, body: accepted } = await open.call('POST', '/v1/runs', body, key);
    expect(status).toBe(202);
    await untilRun(open, accepted.run_id, ended);
    await open.close();
  });

  test('unavailable: while the daemon is drained no run is taken, and all else goes on', async () => {
    const open = await openApp({ config: withMissingHarness });
    const { id } = await createProject(open);
    expect((await open.call('GET', '/readyz')).status).toBe(200);
    open.app.supervisor.drain();
    const before = dump(open.app);
    const answer = await open.call(
      'POST',
      '/v1/runs',
      { ...missingRun, project_id: id },
      { 'idempotency-key': 'drained' },
    );
    check(answer, { status: 503, code: 'unavailable', answers: { 'retry-after': /^\d+$/ } });
    expect(dump(open.app)).toBe(before);
    expect((await open.call('GET', '/readyz')).status).toBe(503);
    expect((await open.call('GET', '/healthz')).status).toBe(200);
    expect((await open.call('PATCH', `/v1/projects/${id}`, { name: 'New' })).status).toBe(200);
    await open.close();
  });

  test('internal_error: a defect says nothing of its inside', async () => {
    const open = await openApp();
    open.app.db.run('DROP TABLE events');
    open.app.db.run('ALTER TABLE projects RENAME TO somewhere');
    const { message } = check(await open.call('GET', '/v1/projects'), { status: 500, code: 'internal_error' });
    expect(message).not.toMatch(/projects|table|column/i);
    await open.close();
  });

  test('organization_required: several memberships and no selector', async () => {
    const open = await openApp();
    const now = '2026-01-02T03:04:05.678Z';
    const [user] = open.app.db.all<{ id: string }>('SELECT id FROM users');
    open.app.db.run(
      'INSERT INTO organizations (id, name, credit_policy, created_at, updated_at) VALUES (?, ?, ?, ?, ?)',
      [nowhere, 'second', 'unlimited', now, now],
    );
    open.app.db.run('INSERT INTO memberships (user_id, organization_id, role) VALUES (?, ?, ?)', [
      user!.id,
      nowhere,
      'member',
    ]);
    check(await open.call('GET', '/v1/projects'), { status: 400, code: 'organization_required' });
    const headers = { 'x-organization-id': nowhere };
    const { body: mine } = await open.call('POST', '/v1/projects', { name: 'Second' }, headers);
    expect(mine.organization_id).toBe(nowhere);
    const { body: me } = await open.call('GET', '/v1/me', undefined, headers);
    const [first] = me.memberships.filter(
      ({ organization_id }: { organization_id: string }) => organization_id !== nowhere,
    );
    const other = { 'x-organization-id': first.organization_id.toUpperCase() };
    check(await open.call('GET', `/v1/projects/${mine.id}`, undefined, other), { status: 404, code: 'not_found' });
    expect((await open.call('GET', '/v1/projects', undefined, other)).body.data).toEqual([]);
    await open.close();
  });
});
