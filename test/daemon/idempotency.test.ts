import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createTestClock } from '../kit/clock.ts';
import { openApp, type TestApp } from '../kit/app.ts';
import {
  counts,
  createProject,
  createWorkspace,
  dump,
  ended,
  missingRun,
  untilRun,
  withMissingHarness,
} from './scene.ts';

const day = 86_400_000;
let scene: TestApp;
let key = 0;
const fresh = () => ({ 'idempotency-key': `key-${++key}` });

beforeAll(async () => {
  scene = await openApp({ config: withMissingHarness });
});
afterAll(() => scene.close());

/** What came into being since `before`, but for the records of keys themselves. */
const effect = (before: Record<string, number>) => {
  const now = counts(scene.app);
  return Object.fromEntries(
    Object.entries(now).flatMap(([name, n]) =>
      n > before[name]! && name !== 'idempotency' ? [[name, n - before[name]!]] : [],
    ),
  );
};

describe('fifty of the same request at once have one effect and get one answer:', () => {
  test.each([
    ['a project', () => ['POST', '/v1/projects', { name: 'Once' }] as const, { projects: 1 }],
    [
      'a workspace',
      async () => ['POST', `/v1/projects/${(await createProject(scene)).id}/workspaces`, {}] as const,
      { workspaces: 1, operations: 1 },
    ],
    [
      'a run',
      async () => ['POST', '/v1/runs', { ...missingRun, project_id: (await createProject(scene)).id }] as const,
      { workspaces: 1, operations: 1, run_figures: 1, runs: 1, sessions: 1, events: 2 },
    ],
    [
      'an archiving',
      async () => ['DELETE', `/v1/projects/${(await createProject(scene)).id}`, undefined] as const,
      { operations: 1 },
    ],
  ] as const)('%s', async (_name, prepare, expected) => {
    for (let round = 0; round < 3; round++) {
      const [method, path, body] = await prepare();
      await scene.app.settle();
      const before = counts(scene.app);
      const headers = fresh();
      const answers = await Promise.all(Array.from({ length: 50 }, () => scene.call(method, path, body, headers)));
      await scene.app.settle();
      if (path === '/v1/runs') await untilRun(scene, answers[0]!.body.id, ended);
      expect(effect(before)).toEqual(expected);
      expect(
        new Set(answers.map(({ status, text, headers: { location } }) => JSON.stringify([status, text, location])))
          .size,
      ).toBe(1);
      expect(answers[0]!.status).toBeLessThan(300);
      expect(answers.filter((answer) => answer.headers['idempotent-replayed'] === undefined)).toHaveLength(1);
      expect(answers.filter((answer) => answer.headers['idempotent-replayed'] === 'true')).toHaveLength(49);
      expect(new Set(answers.map((answer) => answer.headers['x-request-id'])).size).toBe(50);
    }
  });
});

test('fifty different keys have fifty effects', async () => {
  const before = counts(scene.app);
  const answers = await Promise.all(
    Array.from({ length: 50 }, () => scene.call('POST', '/v1/projects', { name: 'Same' }, fresh())),
  );
  expect(effect(before)).toEqual({ projects: 50 });
  expect(new Set(answers.map(({ body }) => body.id)).size).toBe(50);
});

test('no key, no record: the same request twice is two', async () => {
  const before = counts(scene.app);
  await createProject(scene);
  await createProject(scene);
  expect(effect(before)).toEqual({ projects: 2 });
  expect(counts(scene.app).idempotency).toBe(before.idempotency);
});

test('a replay shows what was, also when it has changed since', async () => {
  const headers = fresh();
  const first = await scene.call('POST', '/v1/projects', { name: 'Before' }, headers);
  await scene.call('PATCH', `/v1/projects/${first.body.id}`, { name: 'After' });
  const again = await scene.call('POST', '/v1/projects', { name: 'Before' }, headers);
  expect(again.text).toBe(first.text);
  expect((await scene.call('GET', `/v1/projects/${first.body.id}`)).body.name).toBe('After');
});

test('a replayed change is not made a second time', async () => {
  const { id } = await createProject(scene);
  const headers = fresh();
  await scene.call('PATCH', `/v1/projects/${id}`, { name: 'One' }, headers);
  await scene.call('PATCH', `/v1/projects/${id}`, { name: 'Two' });
  expect((await scene.call('PATCH', `/v1/projects/${id}`, { name: 'One' }, headers)).body.name).toBe('One');
  expect((await scene.call('GET', `/v1/projects/${id}`)).body.name).toBe('Two');
});

test('a key is read and not kept where nothing is changed', async () => {
  const headers = fresh();
  expect((await scene.call('GET', '/v1/projects', undefined, headers)).status).toBe(200);
  expect((await scene.call('POST', '/v1/projects', { name: 'x' }, headers)).status).toBe(201);
});

test.each([
  ['another body', (id: string) => ['PATCH', `/v1/projects/${id}`, { name: 'Two' }] as const],
  ['the same body written otherwise', (id: string) => ['PATCH', `/v1/projects/${id}`, '{ "name": "One" }'] as const],
  ['another resource', (_id: string, other: string) => ['PATCH', `/v1/projects/${other}`, { name: 'One' }] as const],
  ['another query', (id: string) => ['PATCH', `/v1/projects/${id}?x=1`, { name: 'One' }] as const],
  ['another method', (id: string) => ['DELETE', `/v1/projects/${id}`, undefined] as const],
])('the same key with %s is refused, and the first answer stays', async (_name, other) => {
  const { id } = await createProject(scene);
  const { id: second } = await createProject(scene);
  const headers = fresh();
  const first = await scene.call('PATCH', `/v1/projects/${id}`, { name: 'One' }, headers);
  const before = dump(scene.app);
  const [method, path, body] = other(id, second);
  const answer = await scene.call(method, path, body, headers);
  expect(answer).toMatchObject({ status: 422, body: { error: { code: 'idempotency_key_reused' } } });
  expect(dump(scene.app)).toBe(before);
  expect((await scene.call('PATCH', `/v1/projects/${id}`, { name: 'One' }, headers)).text).toBe(first.text);
});

test('a key with another precondition is another request', async () => {
  const { id } = await createProject(scene);
  const headers = fresh();
  await scene.call('PATCH', `/v1/projects/${id}`, { name: 'One' }, headers);
  expect(
    (await scene.call('PATCH', `/v1/projects/${id}`, { name: 'One' }, { ...headers, 'if-match': '"1"' })).status,
  ).toBe(422);
});

test('a request that failed leaves its key free', async () => {
  const { id } = await createProject(scene);
  const headers = fresh();
  const run = { ...missingRun, project_id: id };
  await scene.call('DELETE', `/v1/projects/${id}`);
  await scene.app.settle();
  expect((await scene.call('POST', '/v1/runs', run, headers)).status).toBe(409);
  expect((await scene.call('POST', '/v1/runs', { prompt: 7 }, headers)).status).toBe(400);
  expect((await scene.call('POST', '/v1/runs', '{', headers)).status).toBe(400);
  expect((await scene.call('POST', '/v1/runs', run, { ...headers, authorization: '' })).status).toBe(401);
  await scene.call('PATCH', `/v1/projects/${id}`, { archived: false });
  const accepted = await scene.call('POST', '/v1/runs', run, headers);
  expect(accepted.status).toBe(202);
  expect(accepted.headers['idempotent-replayed']).toBeUndefined();
  await untilRun(scene, accepted.body.run_id, ended);
});

test('any key of visible ASCII is taken as it is', async () => {
  const visible = fc.string({
    unit: fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code)),
    minLength: 1,
    maxLength: 255,
  });
  await fc.assert(
    fc.asyncProperty(visible, async (text) => {
      const headers = { 'idempotency-key': `${text.slice(0, 240)}/${++key}` };
      const [one, two] = [
        await scene.call('POST', '/v1/projects', { name: 'x' }, headers),
        await scene.call('POST', '/v1/projects', { name: 'x' }, headers),
      ];
      expect(one.status).toBe(201);
      expect(two.text).toBe(one.text);
    }),
    { numRuns: 30 },
  );
});

test('the record survives a restart', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'agentctl-test-'));
  const one = await openApp({ folder, config: withMissingHarness });
  const { id } = await createProject(one);
  const ready = await createWorkspace(one, id);
  const headers = fresh();
  const run = { ...missingRun, workspace_id: ready.id };
  const first = await one.call('POST', '/v1/runs', run, headers);
  await untilRun(one, first.body.run_id, ended);
  await one.leave();
  const two = await openApp({ folder, config: withMissingHarness });
  const before = dump(two.app);
  const again = await two.call('POST', '/v1/runs', run, headers);
  expect(again).toMatchObject({
    status: 202,
    text: first.text,
    headers: { 'idempotent-replayed': 'true', location: first.headers.location },
  });
  const found = await two.call('GET', `/v1/runs?idempotency_key=${headers['idempotency-key']}`);
  expect(found.body.data.map((item: { id: string }) => item.id)).toEqual([first.body.run_id]);
  expect(dump(two.app)).toBe(before);
  await two.close();
  rmSync(folder, { recursive: true, force: true });
});

test('the record is kept for seven days and then the key is free', async () => {
  const clock = createTestClock();
  const open = await openApp({ clock });
  const headers = { 'idempotency-key': 'week' };
  const post = () => open.call('POST', '/v1/projects', { name: 'Weekly' }, headers);
  const first = await post();
  clock.advance(7 * day - 1);
  expect((await post()).text).toBe(first.text);
  clock.advance(1);
  const next = await post();
  expect(next.status).toBe(201);
  expect(next.body.id).not.toBe(first.body.id);
  expect((await post()).text).toBe(next.text);
  clock.advance(8 * day);
  await open.app.settle();
  expect(counts(open.app).idempotency).toBe(0);
  await open.close();
});
