import { expect } from 'vitest';
import type { ErrorCode } from '../../src/api/error.ts';

/** An id that nothing has. */
export const nowhere = '01900000-0000-7000-8000-000000000000';

/** What is there before the scenarios, none of which changes it. */
export interface Facts {
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

export interface Scenario {
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
  details?: object | ((facts: Facts) => object);
  /** Headers that the answer must have. */
  answers?: Record<string, RegExp | string>;
  message?: RegExp;
}

const deep = (levels: number) => `{"name":"x","metadata":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`;
const json = { 'content-type': 'application/json' };
const newProject = { method: 'POST', path: '/v1/projects' };
const newRun = { method: 'POST', path: '/v1/runs' };
const newWorkspace = { method: 'POST', path: '/v1/projects/{project}/workspaces' };
const answerInput = { method: 'POST', path: '/v1/runs/{running}/input' };
const run = (more: object) => ({ prompt: 'x', harness: 'missing', sandbox: 'none', ...more });

/** One row for each way to fail. */
export const scenarios: Scenario[] = [
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
  ).map(([name, body]) => ({
    ...newProject,
    name: `a body that ${name}`,
    body,
    headers: json,
    status: 400,
    code: 'invalid_json' as const,
  })),
  { ...newProject, name: 'no body where one is needed', status: 400, code: 'invalid_json' },
  {
    method: 'POST',
    path: '/v1/runs/{running}/cancel',
    name: 'no body where an empty object is needed',
    status: 400,
    code: 'invalid_json',
  },
  ...[
    'text/plain',
    'application/x-www-form-urlencoded',
    'application/jsonx',
    'text/json',
    'application/octet-stream',
  ].map((type) => ({
    ...newProject,
    name: `a body of type ${type}`,
    body: '{"name":"x"}',
    headers: { 'content-type': type },
    status: 415,
    code: 'unsupported_media_type' as const,
  })),
  {
    ...newProject,
    name: 'an unknown field',
    body: { name: 'x', nmae: 'y' },
    status: 400,
    code: 'invalid_request',
    details: { errors: [{ message: 'there is no field "nmae"' }] },
  },
  {
    ...newProject,
    name: 'a field that only the daemon sets',
    body: { name: 'x', archived: true },
    status: 400,
    code: 'invalid_request',
  },
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
  ...[[], 'text', 7, null, true].map((body) => ({
    ...newProject,
    name: `the body ${JSON.stringify(body)}`,
    body: JSON.stringify(body),
    headers: json,
    status: 400,
    code: 'invalid_request' as const,
  })),
  ...(
    [
      ['17 pairs', Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`k${i}`, 'v']))],
      ['a value of 513 characters', { key: 'v'.repeat(513) }],
      ['a value that is no text', { key: 1 }],
      ['a key of 65 characters', { ['k'.repeat(65)]: 'v' }],
      ['an empty key', { '': 'v' }],
      ['an object under a key with a line end', { 'a\nb': { deep: 1 } }],
    ] as const
  ).map(([name, metadata]) => ({
    ...newProject,
    name: `metadata with ${name}`,
    body: { name: 'x', metadata },
    status: 400,
    code: 'invalid_request' as const,
  })),
  {
    name: 'archived: true in a patch',
    method: 'PATCH',
    path: '/v1/projects/{project}',
    body: { archived: true },
    status: 400,
    code: 'invalid_request',
    param: 'archived',
  },
  {
    name: 'a field in a body that must be empty',
    method: 'POST',
    path: '/v1/runs/{running}/cancel',
    body: { now: true },
    status: 400,
    code: 'invalid_request',
  },
  {
    name: 'a body where none is taken',
    method: 'DELETE',
    path: '/v1/projects/{project}',
    body: { force: true },
    status: 400,
    code: 'invalid_request',
  },
  {
    ...newRun,
    name: 'a run of nothing',
    body: { prompt: 'x', harness: 'shell' },
    status: 400,
    code: 'invalid_request',
  },
  {
    ...newRun,
    name: 'a run of two things',
    body: run({ project_id: '{project}', workspace_id: '{workspace}' }),
    status: 400,
    code: 'invalid_request',
  },
  {
    ...newRun,
    name: 'a run without a prompt',
    body: { project_id: '{project}', harness: 'shell' },
    status: 400,
    code: 'invalid_request',
  },
  {
    ...newRun,
    name: 'a run with an empty prompt',
    body: run({ project_id: '{project}', prompt: '' }),
    status: 400,
    code: 'invalid_request',
    param: 'prompt',
  },
  {
    ...newRun,
    name: 'a run with an unknown harness',
    body: run({ project_id: '{project}', harness: 'none-such' }),
    status: 400,
    code: 'invalid_request',
    param: 'harness',
    message: /shell/,
  },
  {
    ...newRun,
    name: 'a run without a harness where none is configured',
    body: { project_id: '{project}', prompt: 'x' },
    status: 400,
    code: 'invalid_request',
    param: 'harness',
  },
  {
    ...newRun,
    name: 'a run of a session with another harness',
    body: run({ session_id: '{session}' }),
    status: 400,
    code: 'invalid_request',
    param: 'harness',
  },
  ...(['-1', '1.5', '1e3', '٣', '01', '', '9'.repeat(19), 5] as const).map((max_cost_micro_usd) => ({
    ...newRun,
    name: `money that reads ${JSON.stringify(max_cost_micro_usd)}`,
    body: run({ project_id: '{project}', harness: 'shell', limits: { max_cost_micro_usd } }),
    status: 400,
    code: 'invalid_request' as const,
  })),
  {
    ...newRun,
    name: 'a cost limit for a harness that does not say its cost',
    body: run({ project_id: '{project}', limits: { max_cost_micro_usd: '5' } }),
    status: 400,
    code: 'invalid_request',
  },
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
  {
    ...newWorkspace,
    name: 'a directory that is not there',
    body: { source: { type: 'directory', path: '/nonexistent/folder', mode: 'in_place' } },
    status: 400,
    code: 'invalid_request',
    param: 'source.path',
  },
  {
    ...newWorkspace,
    name: 'a directory that is a file',
    body: { source: { type: 'directory', path: '/etc/passwd', mode: 'in_place' } },
    status: 400,
    code: 'invalid_request',
    param: 'source.path',
  },
  {
    ...newWorkspace,
    name: 'a directory that holds agentctl’s own data',
    body: { source: { type: 'directory', path: '/', mode: 'in_place' } },
    status: 400,
    code: 'invalid_request',
    param: 'source.path',
  },
  {
    ...newWorkspace,
    name: 'an unknown kind of source',
    body: { source: { type: 'cloud' } },
    status: 400,
    code: 'invalid_request',
  },

  // Query parameters
  ...['0', '-1', '201', '1e2', '1.5', '', 'x', '0x10', '+5', '5&limit=5', '999999999999999999999'].map((limit) => ({
    name: `limit=${limit}`,
    path: `/v1/projects?limit=${limit}`,
    status: 400,
    code: 'invalid_parameter' as const,
    param: 'limit',
  })),
  {
    name: 'a limit of 1001 for events',
    path: '/v1/runs/{finished}/events?limit=1001',
    status: 400,
    code: 'invalid_parameter',
    param: 'limit',
  },
  ...['sleeping', '', 'failed,', 'failed,%20queued', 'FAILED'].map((word) => ({
    name: `status=${word}`,
    path: `/v1/runs?status=${word}`,
    status: 400,
    code: 'invalid_parameter' as const,
    param: 'status',
  })),
  {
    name: 'a status of operations that is none',
    path: '/v1/operations?status=completed',
    status: 400,
    code: 'invalid_parameter',
    param: 'status',
    message: /succeeded/,
  },
  {
    name: 'a type of operations that is none',
    path: '/v1/operations?type=project.make',
    status: 400,
    code: 'invalid_parameter',
    param: 'type',
  },
  {
    name: 'a status of input requests that is none',
    path: '/v1/input-requests?status=open',
    status: 400,
    code: 'invalid_parameter',
    param: 'status',
  },
  ...['yesterday', '2026-01-02', '2026-01-02T03:04:05', '2026-13-02T03:04:05Z', '2026-01-02T03:04:60Z', ''].map(
    (from) => ({
      name: `from=${from}`,
      path: `/v1/runs?from=${from}`,
      status: 400,
      code: 'invalid_parameter' as const,
      param: 'from',
    }),
  ),
  ...['TRUE', '1', 'yes', '', 'true&archived=false'].map((archived) => ({
    name: `archived=${archived}`,
    path: `/v1/projects?archived=${archived}`,
    status: 400,
    code: 'invalid_parameter' as const,
    param: 'archived',
  })),
  {
    name: 'a query of 121 characters',
    path: `/v1/projects?query=${'x'.repeat(121)}`,
    status: 400,
    code: 'invalid_parameter',
    param: 'query',
  },
  ...['x', 'urn:uuid:{project}', '', '{project}0'].map((id) => ({
    name: `project_id=${id}`,
    path: `/v1/runs?project_id=${id}`,
    status: 400,
    code: 'invalid_parameter' as const,
    param: 'project_id',
  })),
  {
    name: 'an idempotency_key with a space',
    path: '/v1/runs?idempotency_key=a%20b',
    status: 400,
    code: 'invalid_parameter',
    param: 'idempotency_key',
  },
  ...['51', '-1', '1.5', 'x'].map((wait) => ({
    name: `wait=${wait}`,
    path: `/v1/operations/{operation}?wait=${wait}`,
    status: 400,
    code: 'invalid_parameter' as const,
    param: 'wait',
  })),
  {
    name: 'after_seconds of more than a year',
    method: 'DELETE',
    path: '/v1/workspaces/{workspace}?after_seconds=31536001',
    status: 400,
    code: 'invalid_parameter',
    param: 'after_seconds',
  },

  // Cursors
  ...['', 'x', 'MQ', '1', '../..'].map((cursor) => ({
    name: `cursor=${cursor}`,
    path: `/v1/projects?cursor=${cursor}`,
    status: 400,
    code: 'invalid_cursor' as const,
    param: 'cursor',
  })),
  {
    name: 'a cursor of another list',
    path: '/v1/runs?cursor={cursor}',
    status: 400,
    code: 'invalid_cursor',
    param: 'cursor',
  },
  {
    name: 'a cursor of the same list with another filter',
    path: '/v1/projects?archived=true&cursor={cursor}',
    status: 400,
    code: 'invalid_cursor',
    param: 'cursor',
  },
  {
    name: 'a cursor of the same list with another query',
    path: '/v1/projects?query=o&cursor={cursor}',
    status: 400,
    code: 'invalid_cursor',
    param: 'cursor',
  },
  ...['events', 'stream'].flatMap((what) =>
    ['-1', '1e9', '', '1.0', '%201', '1%20', '٣', '0x1', '1&after=2', 'latest'].map((after) => ({
      name: `${what}?after=${after}`,
      path: `/v1/runs/{running}/${what}?after=${after}`,
      status: 400,
      code: 'invalid_cursor' as const,
      param: 'after',
    })),
  ),
  ...['-1', '1e9', '', 'x'].map((id) => ({
    name: `Last-Event-ID: ${id}`,
    path: '/v1/runs/{running}/stream?after=0',
    headers: { 'last-event-id': id },
    status: 400,
    code: 'invalid_cursor' as const,
    param: 'Last-Event-ID',
  })),

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
  {
    name: 'the credential comes before the syntax',
    ...newProject,
    body: 'no json',
    headers: { ...json, authorization: '' },
    status: 401,
    code: 'unauthenticated',
  },
  ...[nowhere, 'x'].map((id) => ({
    name: `an organization that is not the caller’s: ${id}`,
    path: '/v1/projects',
    headers: { 'x-organization-id': id },
    status: 403,
    code: 'organization_forbidden' as const,
  })),

  // Where it comes from
  ...[
    'example.org',
    'localhost.example.org',
    '127.0.0.1.nip.io',
    '10.0.0.1',
    '0.0.0.0',
    '127.0.0.1:80:80',
    'localhost:',
    '[::2]',
    'user@localhost',
  ].map((host) => ({
    name: `the host "${host}"`,
    path: '/v1/projects',
    headers: { host },
    status: 421,
    code: 'host_not_allowed' as const,
  })),
  ...['/healthz', '/readyz', '/v1/openapi.json', '/docs', '/nothing'].map((path) => ({
    name: `a foreign host at ${path}`,
    path,
    headers: { host: 'example.org' },
    status: 421,
    code: 'host_not_allowed' as const,
  })),
  ...[
    'https://example.org',
    'null',
    'http://localhost.example.org',
    'http://127.0.0.1:1',
    'https://127.0.0.1',
    'file://',
    '',
  ].map((origin) => ({
    name: `the origin "${origin}"`,
    path: '/v1/projects',
    headers: { origin },
    status: 403,
    code: 'origin_not_allowed' as const,
  })),
  {
    name: 'a preflight of a foreign origin',
    method: 'OPTIONS',
    path: '/v1/projects',
    headers: { origin: 'https://example.org', 'access-control-request-method': 'POST' },
    status: 403,
    code: 'origin_not_allowed',
  },
  ...['cross-site', 'same-site'].map((site) => ({
    name: `Sec-Fetch-Site: ${site}`,
    path: '/healthz',
    headers: { 'sec-fetch-site': site },
    status: 403,
    code: 'origin_not_allowed' as const,
  })),
  {
    name: 'a foreign origin comes before the credential',
    path: '/v1/projects',
    headers: { origin: 'null', authorization: '' },
    status: 403,
    code: 'origin_not_allowed',
  },

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
  {
    name: 'an id longer than any router expects',
    path: `/v1/projects/${'a'.repeat(300)}`,
    status: 404,
    code: 'not_found',
  },
  ...['result', 'events', 'stream'].map((what) => ({
    name: `${what} of an unknown run`,
    path: `/v1/runs/${nowhere}/${what}`,
    status: 404,
    code: 'not_found' as const,
  })),
  {
    name: 'cancelling an unknown run',
    method: 'POST',
    path: `/v1/runs/${nowhere}/cancel`,
    body: {},
    status: 404,
    code: 'not_found',
  },
  {
    name: 'a workspace in an unknown project',
    method: 'POST',
    path: `/v1/projects/${nowhere}/workspaces`,
    body: {},
    status: 404,
    code: 'not_found',
  },
  {
    name: 'the workspaces of an unknown project',
    path: `/v1/projects/${nowhere}/workspaces`,
    status: 404,
    code: 'not_found',
  },
  ...['project_id', 'workspace_id', 'session_id'].map((name) => ({
    ...newRun,
    name: `a run with an unknown ${name}`,
    body: run({ [name]: nowhere }),
    status: 404,
    code: 'not_found' as const,
  })),
  { name: 'a project’s id as a workspace’s', path: '/v1/workspaces/{project}', status: 404, code: 'not_found' },
  ...[
    '/',
    '/v1',
    '/v1/',
    '/v2/projects',
    '/v1/project',
    '/v1/projects/{project}/',
    '/v1/projects/{project}/runs',
    '/V1/projects',
    '//v1/projects',
    '/v1//projects',
    '/v1/../healthz',
    '/metrics',
  ].map((path) => ({ name: `the route ${path}`, path, status: 404, code: 'route_not_found' as const })),
  ...['%ZZ', '%', '%c3%28'].map((end) => ({
    name: `a path that cannot be decoded: ${end}`,
    path: `/v1/projects/${end}`,
    status: 404,
    code: 'route_not_found' as const,
  })),
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
  ).map(([method, path, allow]) => ({
    name: `${method} ${path}`,
    method,
    path,
    status: 405,
    code: 'method_not_allowed' as const,
    answers: { allow: new RegExp(`^(?=.*\\b${allow.replaceAll(', ', '\\b)(?=.*\\b')}\\b)[A-Z, ]+$`) },
  })),

  // What the state forbids
  {
    ...newRun,
    name: 'a run in an archived project',
    body: run({ project_id: '{archived}' }),
    status: 409,
    code: 'project_archived',
  },
  {
    name: 'a workspace in an archived project',
    method: 'POST',
    path: '/v1/projects/{archived}/workspaces',
    body: {},
    status: 409,
    code: 'project_archived',
  },
  {
    ...newRun,
    name: 'a run of a busy session that would rather not wait',
    body: { session_id: '{session}', prompt: 'x', on_busy: 'reject' },
    status: 409,
    code: 'session_busy',
    details: ({ running }) => ({ run_id: running }),
  },
  {
    name: 'the removal of a project that is not archived',
    method: 'POST',
    path: '/v1/projects/{project}/deletion',
    body: {},
    status: 409,
    code: 'invalid_state',
    details: { state: 'active' },
  },
  {
    name: 'taking back a removal of a project that nobody scheduled',
    method: 'DELETE',
    path: '/v1/projects/{archived}/deletion',
    status: 409,
    code: 'invalid_state',
    details: { state: 'archived' },
  },
  {
    name: 'taking back a removal of a workspace that nobody scheduled',
    method: 'DELETE',
    path: '/v1/workspaces/{workspace}/deletion',
    status: 409,
    code: 'invalid_state',
    details: { state: 'ready' },
  },
  {
    ...newWorkspace,
    name: 'a second workspace in the same directory',
    body: { source: { type: 'directory', path: '{directory}', mode: 'in_place' } },
    status: 409,
    code: 'invalid_state',
    details: ({ inPlace }) => ({ workspace_id: inPlace }),
  },
  ...(['auto', 'required', undefined] as const).map((sandbox) => ({
    ...newRun,
    name: `an agent without a sandbox on this machine: sandbox ${sandbox}`,
    body: { project_id: '{project}', prompt: 'x', harness: 'missing', ...(sandbox ? { sandbox } : {}) },
    status: 409,
    code: 'sandbox_unavailable' as const,
    details: { remedy: sandbox === 'required' ? expect.any(String) : expect.stringMatching(/sandbox "none"/) },
  })),
  {
    ...newRun,
    name: 'a script that requires a sandbox',
    body: { project_id: '{project}', prompt: 'x', harness: 'shell', sandbox: 'required' },
    status: 409,
    code: 'sandbox_unavailable',
  },

  // Answers to questions
  {
    ...answerInput,
    name: 'an answer that names none of two requests',
    body: { option_id: 'yes' },
    status: 409,
    code: 'ambiguous_input_request',
    details: ({ pending }) => ({ request_ids: pending }),
  },
  {
    ...answerInput,
    name: 'an answer to an unknown request',
    body: { request_id: nowhere, option_id: 'yes' },
    status: 404,
    code: 'not_found',
  },
  {
    ...answerInput,
    name: 'an answer with no form',
    body: { request_id: '{pending.0}' },
    status: 400,
    code: 'invalid_request',
  },
  {
    ...answerInput,
    name: 'an answer with two forms',
    body: { request_id: '{pending.0}', option_id: 'yes', cancel: true },
    status: 400,
    code: 'invalid_request',
  },
  {
    ...answerInput,
    name: 'an option that is not offered',
    body: { request_id: '{pending.0}', option_id: 'maybe' },
    status: 400,
    code: 'invalid_request',
    message: /yes, no/,
  },
  {
    ...answerInput,
    name: 'a text where none is taken',
    body: { request_id: '{pending.0}', text: 'maybe' },
    status: 400,
    code: 'invalid_request',
  },
  {
    ...answerInput,
    name: 'content that does not fit',
    body: { request_id: '{pending.0}', content: { port: 'x' } },
    status: 400,
    code: 'invalid_request',
    details: { errors: [{ path: '/content/port' }] },
  },
  {
    ...answerInput,
    name: 'cancel: false',
    body: { request_id: '{pending.0}', cancel: false },
    status: 400,
    code: 'invalid_request',
  },
  {
    ...answerInput,
    name: 'another answer than the first',
    body: { request_id: '{answered}', option_id: 'no' },
    status: 409,
    code: 'input_already_resolved',
  },
  {
    ...answerInput,
    name: 'an answer to a request that has expired',
    body: { request_id: '{expired}', option_id: 'yes' },
    status: 409,
    code: 'invalid_state',
    details: { state: 'expired' },
  },
  {
    name: 'an answer to a run that asks nothing',
    method: 'POST',
    path: '/v1/runs/{finished}/input',
    body: { option_id: 'yes' },
    status: 409,
    code: 'invalid_state',
  },
  {
    name: 'an answer to another run’s request',
    method: 'POST',
    path: '/v1/runs/{finished}/input',
    body: { request_id: '{pending.0}', option_id: 'yes' },
    status: 404,
    code: 'not_found',
  },

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
  {
    ...newProject,
    name: 'a body of more than 1 MiB',
    body: JSON.stringify({ name: 'x'.repeat(1_048_576) }),
    headers: json,
    status: 413,
    code: 'payload_too_large',
    details: { max_bytes: 1_048_576 },
  },
  {
    ...newRun,
    name: 'a run with a body of more than 8 MiB',
    body: JSON.stringify({ prompt: 'x'.repeat(8_388_608) }),
    headers: json,
    status: 413,
    code: 'payload_too_large',
    details: { max_bytes: 8_388_608 },
  },
  {
    ...newRun,
    name: 'a prompt of more than 1 Mi characters',
    body: run({ project_id: '{project}', prompt: 'x'.repeat(1_048_577) }),
    status: 400,
    code: 'invalid_request',
    param: 'prompt',
  },

  // Streams
  {
    name: 'a stream of an unknown run with a cursor',
    path: `/v1/runs/${nowhere}/stream?after=1`,
    status: 404,
    code: 'not_found',
  },
];
