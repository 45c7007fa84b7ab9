import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type ErrorCode, failures } from '../../src/api/error.ts';
import { systemClock } from '../../src/base/clock.ts';
import { type Answer, until } from '../kit/app.ts';
import {
  closeKeeping,
  counts,
  createGate,
  createProject,
  createRun,
  createWorkspace,
  dump,
  ended,
  missingRun,
  openScene,
  type Scene,
  talk,
  untilRun,
  withMissingHarness,
} from './scene.ts';

const nowhere = '01900000-0000-7000-8000-000000000000';

/** What is there before the scenarios, none of which changes it. */
interface Facts {
  project: string;
  archived: string;
  workspace: string;
  /** An in-place workspace and its directory. */
  directory: string;
  inPlace: string;
  /** A run that waits for its gate, and its session. */
  running: string;
  session: string;
  /** A run that has failed, without a process. */
  finished: string;
  lastSequence: number;
  /** Input requests of the running run: two are pending, one is answered, one has expired. */
  pending: [string, string];
  answered: string;
  expired: string;
  operation: string;
  /** A `next_cursor` of all projects. */
  cursor: string;
}

interface Scenario {
  name: string;
  method?: string;
  /** The path; `{name}` stands for a fact. */
  path: string;
  body?: unknown;
  headers?: Record<string, string>;
  status: number;
  code: ErrorCode;
  param?: string;
  /** What `details` must hold. */
  details?: object;
  /** Headers that the answer must have. */
  answers?: Record<string, RegExp | string>;
  message?: RegExp;
}

let scene: Scene;
let facts: Facts;
const gate = createGate();

beforeAll(async () => {
  scene = await openScene({ config: withMissingHarness });
  const { app, call } = scene;
  const archived = await createProject(scene, { name: 'Archived' });
  await call('DELETE', `/v1/projects/${archived.id}`);
  const { id: project } = await createProject(scene, { name: 'Open' });
  const { id: workspace } = await createWorkspace(scene, project);
  const directory = mkdtempSync(join(realpathSync(tmpdir()), 'agentctl-directory-'));
  const { id: inPlace } = await createWorkspace(scene, project, { source: { type: 'directory', path: directory, mode: 'in_place' } });
  const run = await createRun(scene, { project_id: project, harness: 'shell', prompt: gate.script });
  const failed = await createRun(scene, { ...missingRun, project_id: project });
  const { last_sequence: lastSequence } = await untilRun(scene, failed.run_id, ended);
  const row = await untilRun(scene, run.run_id, ['running']);
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
  // The runner looks once more at its workspace and tells of it: what is compared from here on must be at rest.
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
  expect(error).toMatchObject({ type, retryable });
  expect(error.message).toMatch(/^\S.+\S$/s);
  expect(error.details).toBeTypeOf('object');
  expect(headers['content-type']).toBe('application/json; charset=utf-8');
  expect(error.request_id).toMatch(/^[0-9a-f-]{36}$/);
  expect(headers['x-request-id']).toBe(error.request_id);
  if (expected.param !== undefined) expect(error.param).toBe(expected.param);
  if (expected.details) expect(error.details).toMatchObject(expected.details);
  if (expected.message) expect(error.message).toMatch(expected.message);
  for (const [name, value] of Object.entries(expected.answers ?? {})) expect(headers[name]).toMatch(value);
  expect(text).not.toMatch(/\bat \S+ \(|\n\s+at |node_modules|\.[tj]s:\d|SQLITE|FST_ERR/);
  expect(text).not.toContain(scene.token);
  if (!sent.includes(scene.home.home)) expect(text).not.toContain(scene.home.home);
}

const deep = (levels: number) => `{"name":"x","metadata":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`;
const json = { 'content-type': 'application/json' };
const newProject = { method: 'POST', path: '/v1/projects' };
const newRun = { method: 'POST', path: '/v1/runs' };
const newWorkspace = { method: 'POST', path: '/v1/projects/{project}/workspaces' };
const answerInput = { method: 'POST', path: '/v1/runs/{running}/input' };
const run = (more: object) => ({ prompt: 'x', harness: 'missing', sandbox: 'none', ...more });

const scenarios: Scenario[] = [
  // Bodies
  ...(
    [
      ['is empty', ''],
      ['is only white space', ' \n'],
      ['is text', 'name=x'],
      ['is cut off', '{"name":"x"'],
      ['has something after its end', '{"name":"x"} {}'],
      ['has a comma at the end', '{"name":"x",}'],
      ['has single quotation marks', "{'name':'x'}"],
      ['has a number that JSON does not know', '{"name":NaN}'],
      ['has a control character in a text', '{"name":"a\u0001b"}'],
      ['is nested 33 deep', deep(33)],
      ['is nested 100,000 deep', deep(100_000)],
      ['names __proto__', '{"name":"x","__proto__":{"admin":true}}'],
      ['names __proto__ further inside', '{"name":"x","metadata":{"__proto__":"y"}}'],
      ['names __proto__ by an escape', '{"name":"x","\\u005f_proto__":{}}'],
      ['holds half of a surrogate pair', '{"name":"\\ud800"}'],
      ['holds half of a surrogate pair in a key', '{"name":"x","metadata":{"\\udc00":"y"}}'],
    ] as const
  ).map(([name, body]) => ({ ...newProject, name: `a body that ${name}`, body, headers: json, status: 400, code: 'invalid_json' as const })),
  { ...newProject, name: 'no body where one is needed', status: 400, code: 'invalid_json' },
  { method: 'POST', path: '/v1/runs/{running}/cancel', name: 'no body where an empty object is needed', status: 400, code: 'invalid_json' },
  ...['text/plain', 'application/x-www-form-urlencoded', 'application/jsonx', 'text/json', 'application/octet-stream'].map((type) => ({
    ...newProject,
    name: `a body of type ${type}`,
    body: '{"name":"x"}',
    headers: { 'content-type': type },
    status: 415,
    code: 'unsupported_media_type' as const,
  })),
  { ...newProject, name: 'an unknown field', body: { name: 'x', nmae: 'y' }, status: 400, code: 'invalid_request', details: { errors: [{ message: 'there is no field "nmae"' }] } },
  { ...newProject, name: 'a field that only the daemon sets', body: { name: 'x', archived: true }, status: 400, code: 'invalid_request' },
  {
    ...newProject,
    name: 'several errors at once',
    body: { name: '', persistence: 'eternal', description: 7, more: 1 },
    status: 400,
    code: 'invalid_request',
    details: {
      errors: expect.arrayContaining([
        { path: '', message: expect.any(String) },
        { path: '/name', message: expect.any(String) },
        { path: '/persistence', message: expect.stringContaining('"ephemeral"') },
        { path: '/description', message: expect.any(String) },
      ]),
    },
  },
  ...(
    [
      ['is missing', {}, ''],
      ['is a number', { name: 7 }, '/name'],
      ['is null', { name: null }, '/name'],
      ['is empty', { name: '' }, '/name'],
      ['is only white space', { name: ' \t ' }, '/name'],
      ['has 121 characters', { name: 'x'.repeat(121) }, '/name'],
      ['holds NUL', { name: 'a\u0000b' }, '/name'],
    ] as const
  ).map(([name, body, path]) => ({
    ...newProject,
    name: `a name that ${name}`,
    body,
    status: 400,
    code: 'invalid_request' as const,
    details: { errors: expect.arrayContaining([expect.objectContaining({ path })]) },
  })),
  ...[[], 'text', 7, null, true].map((body) => ({ ...newProject, name: `the body ${JSON.stringify(body)}`, body: JSON.stringify(body), headers: json, status: 400, code: 'invalid_request' as const })),
  ...(
    [
      ['17 pairs', Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`k${i}`, 'v']))],
      ['a value of 513 characters', { key: 'v'.repeat(513) }],
      ['a value that is no text', { key: 1 }],
      ['a key of 65 characters', { ['k'.repeat(65)]: 'v' }],
      ['an empty key', { '': 'v' }],
      ['an object under a key with a line end', { 'a\nb': { deep: 1 } }],
    ] as const
  ).map(([name, metadata]) => ({ ...newProject, name: `metadata with ${name}`, body: { name: 'x', metadata }, status: 400, code: 'invalid_request' as const })),
  { name: 'archived: true in a patch', method: 'PATCH', path: '/v1/projects/{project}', body: { archived: true }, status: 400, code: 'invalid_request', param: 'archived' },
  { name: 'a field in a body that must be empty', method: 'POST', path: '/v1/runs/{running}/cancel', body: { now: true }, status: 400, code: 'invalid_request' },
  { name: 'a body where none is taken', method: 'DELETE', path: '/v1/projects/{project}', body: { force: true }, status: 400, code: 'invalid_request' },
  { ...newRun, name: 'a run of nothing', body: { prompt: 'x', harness: 'shell' }, status: 400, code: 'invalid_request' },
  { ...newRun, name: 'a run of two things', body: run({ project_id: '{project}', workspace_id: '{workspace}' }), status: 400, code: 'invalid_request' },
  { ...newRun, name: 'a run without a prompt', body: { project_id: '{project}', harness: 'shell' }, status: 400, code: 'invalid_request' },
  { ...newRun, name: 'a run with an empty prompt', body: run({ project_id: '{project}', prompt: '' }), status: 400, code: 'invalid_request', param: 'prompt' },
  { ...newRun, name: 'a run with an unknown harness', body: run({ project_id: '{project}', harness: 'none-such' }), status: 400, code: 'invalid_request', param: 'harness', message: /shell/ },
  { ...newRun, name: 'a run without a harness where none is configured', body: { project_id: '{project}', prompt: 'x' }, status: 400, code: 'invalid_request', param: 'harness' },
  { ...newRun, name: 'a run of a session with another harness', body: run({ session_id: '{session}' }), status: 400, code: 'invalid_request', param: 'harness' },
  ...(['-1', '1.5', '1e3', '٣', '01', '', '9'.repeat(19), 5] as const).map((max_cost_micro_usd) => ({
    ...newRun,
    name: `money that reads ${JSON.stringify(max_cost_micro_usd)}`,
    body: run({ project_id: '{project}', harness: 'shell', limits: { max_cost_micro_usd } }),
    status: 400,
    code: 'invalid_request' as const,
  })),
  { ...newRun, name: 'a cost limit for a harness that does not say its cost', body: run({ project_id: '{project}', limits: { max_cost_micro_usd: '5' } }), status: 400, code: 'invalid_request' },
  ...([0, 604_801, 1.5, '60'] as const).map((timeout_seconds) => ({
    ...newRun,
    name: `a time limit of ${JSON.stringify(timeout_seconds)}`,
    body: run({ project_id: '{project}', limits: { timeout_seconds } }),
    status: 400,
    code: 'invalid_request' as const,
  })),
  ...(['{project}x', `{{project}}`, 'urn:uuid:{project}', '', 'x', 7, null] as const).map((project_id) => ({
    ...newRun,
    name: `an id in a body that reads ${JSON.stringify(project_id)}`,
    body: run({ project_id }),
    status: 400,
    code: 'invalid_request' as const,
    param: 'project_id',
  })),
  ...(['relative', '', '/a\u0000b', '../up'] as const).map((path) => ({
    ...newWorkspace,
    name: `a directory ${JSON.stringify(path)}`,
    body: { source: { type: 'directory', path, mode: 'in_place' } },
    status: 400,
    code: 'invalid_request' as const,
  })),
  { ...newWorkspace, name: 'a directory that is not there', body: { source: { type: 'directory', path: '/nonexistent/folder', mode: 'in_place' } }, status: 400, code: 'invalid_request', param: 'source.path' },
  { ...newWorkspace, name: 'a directory that is a file', body: { source: { type: 'directory', path: '/etc/passwd', mode: 'in_place' } }, status: 400, code: 'invalid_request', param: 'source.path' },
  { ...newWorkspace, name: 'a directory that holds agentctl’s own data', body: { source: { type: 'directory', path: '/', mode: 'in_place' } }, status: 400, code: 'invalid_request', param: 'source.path' },
  { ...newWorkspace, name: 'an unknown kind of source', body: { source: { type: 'cloud' } }, status: 400, code: 'invalid_request' },

  // Query parameters
  ...['0', '-1', '201', '1e2', '1.5', '', 'x', '0x10', '+5', '5&limit=5', '999999999999999999999'].map((limit) => ({
    name: `limit=${limit}`,
    path: `/v1/projects?limit=${limit}`,
    status: 400,
    code: 'invalid_parameter' as const,
    param: 'limit',
  })),
  { name: 'a limit of 1001 for events', path: '/v1/runs/{finished}/events?limit=1001', status: 400, code: 'invalid_parameter', param: 'limit' },
  ...['sleeping', '', 'failed,', 'failed,%20queued', 'FAILED'].map((word) => ({ name: `status=${word}`, path: `/v1/runs?status=${word}`, status: 400, code: 'invalid_parameter' as const, param: 'status' })),
  { name: 'a status of operations that is none', path: '/v1/operations?status=completed', status: 400, code: 'invalid_parameter', param: 'status', message: /succeeded/ },
  { name: 'a type of operations that is none', path: '/v1/operations?type=project.make', status: 400, code: 'invalid_parameter', param: 'type' },
  { name: 'a status of input requests that is none', path: '/v1/input-requests?status=open', status: 400, code: 'invalid_parameter', param: 'status' },
  ...['yesterday', '2026-01-02', '2026-01-02T03:04:05', '2026-13-02T03:04:05Z', '2026-01-02T03:04:60Z', ''].map((from) => ({ name: `from=${from}`, path: `/v1/runs?from=${from}`, status: 400, code: 'invalid_parameter' as const, param: 'from' })),
  ...['TRUE', '1', 'yes', '', 'true&archived=false'].map((archived) => ({ name: `archived=${archived}`, path: `/v1/projects?archived=${archived}`, status: 400, code: 'invalid_parameter' as const, param: 'archived' })),
  { name: 'a query of 121 characters', path: `/v1/projects?query=${'x'.repeat(121)}`, status: 400, code: 'invalid_parameter', param: 'query' },
  ...['x', 'urn:uuid:{project}', '', '{project}0'].map((id) => ({ name: `project_id=${id}`, path: `/v1/runs?project_id=${id}`, status: 400, code: 'invalid_parameter' as const, param: 'project_id' })),
  { name: 'an idempotency_key with a space', path: '/v1/runs?idempotency_key=a%20b', status: 400, code: 'invalid_parameter', param: 'idempotency_key' },
  ...['51', '-1', '1.5', 'x'].map((wait) => ({ name: `wait=${wait}`, path: `/v1/operations/{operation}?wait=${wait}`, status: 400, code: 'invalid_parameter' as const, param: 'wait' })),
  { name: 'after_seconds of more than a year', method: 'DELETE', path: '/v1/workspaces/{workspace}?after_seconds=31536001', status: 400, code: 'invalid_parameter', param: 'after_seconds' },

  // Cursors
  ...['', 'x', 'MQ', '1', '../..'].map((cursor) => ({ name: `cursor=${cursor}`, path: `/v1/projects?cursor=${cursor}`, status: 400, code: 'invalid_cursor' as const, param: 'cursor' })),
  { name: 'a cursor of another list', path: '/v1/runs?cursor={cursor}', status: 400, code: 'invalid_cursor', param: 'cursor' },
  { name: 'a cursor of the same list with another filter', path: '/v1/projects?archived=true&cursor={cursor}', status: 400, code: 'invalid_cursor', param: 'cursor' },
  { name: 'a cursor of the same list with another query', path: '/v1/projects?query=o&cursor={cursor}', status: 400, code: 'invalid_cursor', param: 'cursor' },
  ...['events', 'stream'].flatMap((what) =>
    ['-1', '1e9', '', '1.0', '%201', '1%20', '٣', '0x1', '1&after=2', 'latest'].map((after) => ({
      name: `${what}?after=${after}`,
      path: `/v1/runs/{running}/${what}?after=${after}`,
      status: 400,
      code: 'invalid_cursor' as const,
      param: 'after',
    })),
  ),
  ...['-1', '1e9', '', 'x'].map((id) => ({ name: `Last-Event-ID: ${id}`, path: '/v1/runs/{running}/stream?after=0', headers: { 'last-event-id': id }, status: 400, code: 'invalid_cursor' as const, param: 'Last-Event-ID' })),

  // Who calls
  ...(
    [
      ['missing', ''],
      ['malformed', 'Bearer'],
      ['malformed', 'Basic dXNlcjpwYXNz'],
      ['malformed', 'Bearer a b'],
      ['unknown', 'Bearer ags_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'],
      ['unknown', 'Bearer agk_x'],
      ['unknown', 'bearer x'],
    ] as const
  ).flatMap(([reason, authorization]) =>
    (['GET /v1/projects', 'POST /v1/runs', 'GET /v1/runs/{running}/stream', 'GET /v1/me'] as const).map((route) => ({
      name: `${route} with a credential that is ${reason}: "${authorization}"`,
      method: route.split(' ')[0]!,
      path: route.split(' ')[1]!,
      ...(route.startsWith('POST') ? { body: run({ project_id: '{project}' }) } : {}),
      headers: { authorization },
      status: 401,
      code: 'unauthenticated' as const,
      details: { reason },
      answers: { 'www-authenticate': /^Bearer/ },
    })),
  ),
  { name: 'the credential comes before the syntax', ...newProject, body: 'no json', headers: { ...json, authorization: '' }, status: 401, code: 'unauthenticated' },
  ...[nowhere, 'x'].map((id) => ({ name: `an organization that is not the caller’s: ${id}`, path: '/v1/projects', headers: { 'x-organization-id': id }, status: 403, code: 'organization_forbidden' as const })),

  // Where it comes from
  ...['example.org', 'localhost.example.org', '127.0.0.1.nip.io', '10.0.0.1', '0.0.0.0', '127.0.0.1:80:80', 'localhost:', '[::2]', 'user@localhost'].map((host) => ({
    name: `the host "${host}"`,
    path: '/v1/projects',
    headers: { host },
    status: 421,
    code: 'host_not_allowed' as const,
  })),
  ...['/healthz', '/readyz', '/v1/openapi.json', '/docs', '/nothing'].map((path) => ({ name: `a foreign host at ${path}`, path, headers: { host: 'example.org' }, status: 421, code: 'host_not_allowed' as const })),
  ...['https://example.org', 'null', 'http://localhost.example.org', 'http://127.0.0.1:1', 'https://127.0.0.1', 'file://', ''].map((origin) => ({ name: `the origin "${origin}"`, path: '/v1/projects', headers: { origin }, status: 403, code: 'origin_not_allowed' as const })),
  { name: 'a preflight of a foreign origin', method: 'OPTIONS', path: '/v1/projects', headers: { origin: 'https://example.org', 'access-control-request-method': 'POST' }, status: 403, code: 'origin_not_allowed' },
  ...['cross-site', 'same-site'].map((site) => ({ name: `Sec-Fetch-Site: ${site}`, path: '/healthz', headers: { 'sec-fetch-site': site }, status: 403, code: 'origin_not_allowed' as const })),
  { name: 'a foreign origin comes before the credential', path: '/v1/projects', headers: { origin: 'null', authorization: '' }, status: 403, code: 'origin_not_allowed' },

  // What is not there
  ...(
    [
      ['GET', '/v1/projects/'],
      ['PATCH', '/v1/projects/'],
      ['DELETE', '/v1/projects/'],
      ['GET', '/v1/workspaces/'],
      ['PATCH', '/v1/workspaces/'],
      ['DELETE', '/v1/workspaces/'],
      ['GET', '/v1/sessions/'],
      ['GET', '/v1/runs/'],
      ['GET', '/v1/operations/'],
    ] as const
  ).flatMap(([method, path]) =>
    [nowhere, 'x', '7', '{{project}}', 'urn:uuid:{project}', '%00', '..%2f..', 'a'.repeat(100)].map((id) => ({
      name: `${method} ${path}${id}`,
      method,
      path: `${path}${id}`,
      ...(method === 'PATCH' ? { body: { name: 'x' } } : {}),
      status: 404,
      code: 'not_found' as const,
    })),
  ),
  { name: 'an id longer than any router expects', path: `/v1/projects/${'a'.repeat(300)}`, status: 404, code: 'not_found' },
  ...['result', 'events', 'stream'].map((what) => ({ name: `${what} of an unknown run`, path: `/v1/runs/${nowhere}/${what}`, status: 404, code: 'not_found' as const })),
  { name: 'cancelling an unknown run', method: 'POST', path: `/v1/runs/${nowhere}/cancel`, body: {}, status: 404, code: 'not_found' },
  { name: 'a workspace in an unknown project', method: 'POST', path: `/v1/projects/${nowhere}/workspaces`, body: {}, status: 404, code: 'not_found' },
  { name: 'the workspaces of an unknown project', path: `/v1/projects/${nowhere}/workspaces`, status: 404, code: 'not_found' },
  ...['project_id', 'workspace_id', 'session_id'].map((name) => ({ ...newRun, name: `a run with an unknown ${name}`, body: run({ [name]: nowhere }), status: 404, code: 'not_found' as const })),
  { name: 'a project’s id as a workspace’s', path: '/v1/workspaces/{project}', status: 404, code: 'not_found' },
  ...['/', '/v1', '/v1/', '/v2/projects', '/v1/project', '/v1/projects/{project}/', '/v1/projects/{project}/runs', '/V1/projects', '//v1/projects', '/v1//projects', '/v1/../healthz', '/metrics'].map((path) => ({ name: `the route ${path}`, path, status: 404, code: 'route_not_found' as const })),
  ...['%ZZ', '%', '%c3%28'].map((end) => ({ name: `a path that cannot be decoded: ${end}`, path: `/v1/projects/${end}`, status: 404, code: 'route_not_found' as const })),
  ...(
    [
      ['PUT', '/v1/projects', 'GET, POST'],
      ['DELETE', '/v1/projects', 'GET, POST'],
      ['POST', '/v1/projects/{project}', 'DELETE, GET, PATCH'],
      ['GET', '/v1/runs/{running}/cancel', 'POST'],
      ['POST', '/v1/runs/{running}/stream', 'GET'],
      ['PATCH', '/v1/operations/{operation}', 'GET'],
      ['OPTIONS', '/v1/me', 'GET'],
      ['DELETE', '/healthz', 'GET'],
      ['POST', '/v1/openapi.json', 'GET'],
    ] as const
  ).map(([method, path, allow]) => ({ name: `${method} ${path}`, method, path, status: 405, code: 'method_not_allowed' as const, answers: { allow: new RegExp(`^(?=.*\\b${allow.replaceAll(', ', '\\b)(?=.*\\b')}\\b)[A-Z, ]+$`) } })),

  // What the state forbids
  { ...newRun, name: 'a run in an archived project', body: run({ project_id: '{archived}' }), status: 409, code: 'project_archived' },
  { name: 'a workspace in an archived project', method: 'POST', path: '/v1/projects/{archived}/workspaces', body: {}, status: 409, code: 'project_archived' },
  { ...newRun, name: 'a run of a busy session that would rather not wait', body: { session_id: '{session}', prompt: 'x', on_busy: 'reject' }, status: 409, code: 'session_busy', details: { run_id: '{running}' } },
  { name: 'the removal of a project that is not archived', method: 'POST', path: '/v1/projects/{project}/deletion', body: {}, status: 409, code: 'invalid_state', details: { state: 'active' } },
  { name: 'taking back a removal of a project that nobody scheduled', method: 'DELETE', path: '/v1/projects/{archived}/deletion', status: 409, code: 'invalid_state', details: { state: 'archived' } },
  { name: 'taking back a removal of a workspace that nobody scheduled', method: 'DELETE', path: '/v1/workspaces/{workspace}/deletion', status: 409, code: 'invalid_state', details: { state: 'ready' } },
  { ...newWorkspace, name: 'a second workspace in the same directory', body: { source: { type: 'directory', path: '{directory}', mode: 'in_place' } }, status: 409, code: 'invalid_state', details: { workspace_id: '{inPlace}' } },
  ...(['auto', 'required', undefined] as const).map((sandbox) => ({
    ...newRun,
    name: `an agent without a sandbox on this machine: sandbox ${sandbox}`,
    body: { project_id: '{project}', prompt: 'x', harness: 'missing', ...(sandbox ? { sandbox } : {}) },
    status: 409,
    code: 'sandbox_unavailable' as const,
    details: { remedy: expect.stringMatching(/sandbox "none"/) },
  })),
  { ...newRun, name: 'a script that requires a sandbox', body: { project_id: '{project}', prompt: 'x', harness: 'shell', sandbox: 'required' }, status: 409, code: 'sandbox_unavailable' },

  // Answers to questions
  { ...answerInput, name: 'an answer that names none of two requests', body: { option_id: 'yes' }, status: 409, code: 'ambiguous_input_request', details: { request_ids: expect.arrayContaining(['{pending.0}', '{pending.1}']) } },
  { ...answerInput, name: 'an answer to an unknown request', body: { request_id: nowhere, option_id: 'yes' }, status: 404, code: 'not_found' },
  { ...answerInput, name: 'an answer with no form', body: { request_id: '{pending.0}' }, status: 400, code: 'invalid_request' },
  { ...answerInput, name: 'an answer with two forms', body: { request_id: '{pending.0}', option_id: 'yes', cancel: true }, status: 400, code: 'invalid_request' },
  { ...answerInput, name: 'an option that is not offered', body: { request_id: '{pending.0}', option_id: 'maybe' }, status: 400, code: 'invalid_request', message: /yes, no/ },
  { ...answerInput, name: 'a text where none is taken', body: { request_id: '{pending.0}', text: 'maybe' }, status: 400, code: 'invalid_request' },
  { ...answerInput, name: 'content that does not fit', body: { request_id: '{pending.0}', content: { port: 'x' } }, status: 400, code: 'invalid_request', details: { errors: [{ path: '/content/port' }] } },
  { ...answerInput, name: 'cancel: false', body: { request_id: '{pending.0}', cancel: false }, status: 400, code: 'invalid_request' },
  { ...answerInput, name: 'another answer than the first', body: { request_id: '{answered}', option_id: 'no' }, status: 409, code: 'input_already_resolved' },
  { ...answerInput, name: 'an answer to a request that has expired', body: { request_id: '{expired}', option_id: 'yes' }, status: 409, code: 'invalid_state', details: { state: 'expired' } },
  { name: 'an answer to a run that asks nothing', method: 'POST', path: '/v1/runs/{finished}/input', body: { option_id: 'yes' }, status: 409, code: 'invalid_state' },
  { name: 'an answer to another run’s request', method: 'POST', path: '/v1/runs/{finished}/input', body: { request_id: '{pending.0}', option_id: 'yes' }, status: 404, code: 'not_found' },

  // Idempotency keys
  ...['', ' ', 'a b', 'ä', 'a\tb', 'x'.repeat(256)].map((key) => ({
    ...newProject,
    name: `the Idempotency-Key ${JSON.stringify(key.slice(0, 20))}`,
    body: { name: 'x' },
    headers: { 'idempotency-key': Buffer.from(key).toString('latin1') },
    status: 400,
    code: 'invalid_idempotency_key' as const,
    param: 'Idempotency-Key',
  })),

  // Sizes
  { ...newProject, name: 'a body of more than 1 MiB', body: JSON.stringify({ name: 'x'.repeat(1_048_576) }), headers: json, status: 413, code: 'payload_too_large', details: { max_bytes: 1_048_576 } },
  { ...newRun, name: 'a run with a body of more than 8 MiB', body: JSON.stringify({ prompt: 'x'.repeat(8_388_608) }), headers: json, status: 413, code: 'payload_too_large', details: { max_bytes: 8_388_608 } },
  { ...newRun, name: 'a prompt of more than 1 Mi characters', body: run({ project_id: '{project}', prompt: 'x'.repeat(1_048_577) }), status: 400, code: 'invalid_request', param: 'prompt' },

  // Streams
  { name: 'a stream of an unknown run with a cursor', path: `/v1/runs/${nowhere}/stream?after=1`, status: 404, code: 'not_found' },
];

describe('a failure says what is wrong and changes nothing:', () => {
  test.each(scenarios)('$name → $status $code', async (scenario) => {
    const { method = 'GET', path, body, headers = {}, ...expected } = scenario;
    const payload = typeof body === 'string' || body === undefined ? body : JSON.stringify(fill(body));
    const before = dump(scene.app);
    const address = fill(path);
    const answer = await scene.call(method, encodeURI(address).replaceAll('%25', '%'), payload, headers);
    const details = expected.details && fillMatchers(expected.details);
    check(answer, { ...expected, ...(details ? { details } : {}) }, `${address} ${payload ?? ''}`);
    expect(dump(scene.app)).toBe(before);
  });
});

/** Facts in expected details, of which some are matchers and not JSON. */
function fillMatchers(value: object): object {
  if (JSON.stringify(value).includes('request_ids')) return { request_ids: expect.arrayContaining([...facts.pending]) };
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, typeof inner === 'string' ? fill(inner) : inner]));
}

describe('a request as no client library would send it:', () => {
  const head = (lines: string[], first = 'GET /v1/projects HTTP/1.1') => `${[first, ...lines, 'Connection: close'].join('\r\n')}\r\n\r\n`;
  const auth = () => `Authorization: Bearer ${scene.token}`;

  test.each([
    ['no host', () => head([auth()]), 421, 'host_not_allowed'],
    ['an empty host', () => head([auth(), 'Host: ']), 421, 'host_not_allowed'],
    ['the host twice', () => head([auth(), 'Host: 127.0.0.1', 'Host: 127.0.0.1']), 421, 'host_not_allowed'],
    ['a good and a foreign host', () => head([auth(), 'Host: 127.0.0.1', 'Host: example.org']), 421, 'host_not_allowed'],
    ['its target in absolute form', () => head([auth(), 'Host: 127.0.0.1'], 'GET http://127.0.0.1/v1/projects HTTP/1.1'), 421, 'host_not_allowed'],
    ['a foreign target in absolute form', () => head([auth(), 'Host: 127.0.0.1'], 'GET http://example.org/v1/projects HTTP/1.1'), 421, 'host_not_allowed'],
    ['HTTP/1.0 and no host', () => head([auth()], 'GET /v1/projects HTTP/1.0'), 421, 'host_not_allowed'],
    ['the origin twice', () => head([auth(), 'Host: 127.0.0.1', 'Origin: http://127.0.0.1', 'Origin: http://127.0.0.1']), 403, 'origin_not_allowed'],
    ['X-Forwarded-Host', () => head([auth(), 'Host: example.org', 'X-Forwarded-Host: 127.0.0.1']), 421, 'host_not_allowed'],
    ['the Idempotency-Key twice', () => head([auth(), 'Host: 127.0.0.1', 'Idempotency-Key: a', 'Idempotency-Key: a', 'Content-Type: application/json', 'Content-Length: 12'], 'POST /v1/projects HTTP/1.1') + '{"name":"x"}', 400, 'invalid_idempotency_key'],
    ['a cursor twice', () => head([auth(), 'Host: 127.0.0.1', 'Last-Event-ID: 1', 'Last-Event-ID: 1'], `GET /v1/runs/${facts.running}/stream HTTP/1.1`), 400, 'invalid_cursor'],
    ['bytes that are not UTF-8', () => Buffer.concat([Buffer.from(head([auth(), 'Host: 127.0.0.1', 'Content-Type: application/json', 'Content-Length: 13'], 'POST /v1/projects HTTP/1.1')), Buffer.from('{"name":"\xc3("}', 'latin1')]), 400, 'invalid_json'],
  ] as const)('with %s', async (_name, request, status, code) => {
    const before = dump(scene.app);
    const text = request();
    check(await talk(scene.port, text), { status, code });
    expect(dump(scene.app)).toBe(before);
  });

  test('what is not HTTP at all gets an Error body too, with its X-Request-Id', async () => {
    for (const text of ['hello\r\n\r\n', head(['Host: 127.0.0.1', 'Content-Length: 1', 'Content-Length: 2']), head(['Host: 127.0.0.1', 'Content-Length: 1', 'Transfer-Encoding: chunked'])])
      check(await talk(scene.port, text), { status: 400, code: 'invalid_request' });
  });

  test('the daemon’s own page and clients without an Origin come in, by every loopback name', async () => {
    for (const host of ['127.0.0.1', 'localhost', 'LOCALHOST', 'agentctl.localhost', '[::1]', `127.0.0.1:${scene.port}`])
      for (const origin of [undefined, `http://${host.toLowerCase()}`])
        expect((await scene.call('GET', '/v1/projects', undefined, { host, ...(origin ? { origin } : {}) })).status).toBe(200);
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
    expect(again).toMatchObject({ status: 201, text: first.text, headers: { 'idempotent-replayed': 'true', location: first.headers.location } });
    check(await scene.call('POST', '/v1/projects', { name: 'Twice' }, key), { status: 422, code: 'idempotency_key_reused' });
    check(await scene.call('POST', '/v1/projects?x=1', { name: 'Once' }, key), { status: 422, code: 'idempotency_key_reused' });
    check(await scene.call('DELETE', `/v1/projects/${facts.project}`, undefined, key), { status: 422, code: 'idempotency_key_reused' });
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
    check(await scene.call('POST', '/v1/projects', { name: '' }, key), { status: 400, code: 'invalid_request' });
  });
});

describe('failures that need a daemon of their own', () => {
  test('cursor_expired: a cursor older than the retained history is told the bounds, by events and stream', async () => {
    const first = await openScene({ config: withMissingHarness });
    const { id } = await createProject(first);
    const run = await createRun(first, { project_id: id, harness: 'shell', prompt: 'echo one; echo two' });
    const { last_sequence: last } = await untilRun(first, run.run_id, ended);
    await closeKeeping(first);
    const clock = { ...systemClock, now: () => Date.now() + 31 * 86_400_000 };
    const later = await openScene({ folder: first.home.home, clock });
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
    expect((await later.call('GET', `/v1/runs/${run.run_id}/result`)).body).toMatchObject({ final: true, text: 'one\ntwo\n' });
    expect(counts(later.app)).toEqual(before);
    await later.close();
  });

  test('cursor_expired: a run with more events than are kept loses its oldest, never its end', async () => {
    const open = await openScene({ config: { ...withMissingHarness, events: { max_per_run: 100 } } });
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
    const open = await openScene({ config: { ...withMissingHarness, server: { max_streams: 1 } } });
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
    const open = await openScene({ config: withMissingHarness });
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
    const open = await openScene({ config: withMissingHarness });
    const { id } = await createProject(open);
    expect((await open.call('GET', '/readyz')).status).toBe(200);
    open.app.supervisor.drain();
    const before = dump(open.app);
    const answer = await open.call('POST', '/v1/runs', { ...missingRun, project_id: id }, { 'idempotency-key': 'drained' });
    check(answer, { status: 503, code: 'unavailable', answers: { 'retry-after': /^\d+$/ } });
    expect(dump(open.app)).toBe(before);
    expect((await open.call('GET', '/readyz')).status).toBe(503);
    expect((await open.call('GET', '/healthz')).status).toBe(200);
    expect((await open.call('PATCH', `/v1/projects/${id}`, { name: 'New' })).status).toBe(200);
    await open.close();
  });

  test('internal_error: a defect says nothing of its inside', async () => {
    const open = await openScene();
    open.app.db.run('DROP TABLE events');
    open.app.db.run('ALTER TABLE projects RENAME TO somewhere');
    check(await open.call('GET', '/v1/projects'), { status: 500, code: 'internal_error' });
    await open.close();
  });

  test('organization_required: several memberships and no selector', async () => {
    const open = await openScene();
    const now = '2026-01-02T03:04:05.678Z';
    const [user] = open.app.db.all<{ id: string }>('SELECT id FROM users');
    open.app.db.run('INSERT INTO organizations (id, name, credit_policy, created_at, updated_at) VALUES (?, ?, ?, ?, ?)', [nowhere, 'second', 'unlimited', now, now]);
    open.app.db.run('INSERT INTO memberships (user_id, organization_id, role) VALUES (?, ?, ?)', [user!.id, nowhere, 'member']);
    check(await open.call('GET', '/v1/projects'), { status: 400, code: 'organization_required' });
    const headers = { 'x-organization-id': nowhere };
    const { body: mine } = await open.call('POST', '/v1/projects', { name: 'Second' }, headers);
    expect(mine.organization_id).toBe(nowhere);
    const { body: me } = await open.call('GET', '/v1/me', undefined, headers);
    const [first] = me.memberships.filter(({ organization_id }: { organization_id: string }) => organization_id !== nowhere);
    const other = { 'x-organization-id': first.organization_id.toUpperCase() };
    check(await open.call('GET', `/v1/projects/${mine.id}`, undefined, other), { status: 404, code: 'not_found' });
    expect((await open.call('GET', '/v1/projects', undefined, other)).body.data).toEqual([]);
    await open.close();
  });
});
