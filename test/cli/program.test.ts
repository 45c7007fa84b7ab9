import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { locate } from '../../src/api/home.ts';
import { encode } from '../../src/api/sse.ts';
import { completed, events, permission, runId, started, type Step, tool, usage } from './events.ts';
import { bundle, open } from './terminal.ts';

let program = '';
beforeAll(async () => {
  program = await bundle(join(import.meta.dirname, '../../cli/main.ts'));
});

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

type Asked = { route: string; body: string; headers: Record<string, unknown> };
interface Fake {
  env: Record<string, string>;
  asked: Asked[];
}

const json = (response: ServerResponse, status: number, body: unknown) =>
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
const fault = (code: string, details: object = {}, param: string | null = null) => ({
  error: { code, type: 'x', message: `It is ${code}.`, param, details, retryable: false, request_id: 'req_7' },
});
const page = (...data: object[]) => ({ data, next_cursor: null });

const run = {
  id: runId,
  run_id: runId,
  session_id: runId,
  workspace_id: runId,
  project_id: runId,
  harness: 'shell',
  model: null,
  prompt: 'x',
  limits: {},
  status: 'running',
  usage: usage(),
  metadata: {},
};

/** A daemon that answers as told; its daemon.json and token lie in a home of its own. */
async function fake(
  routes: Record<string, (response: ServerResponse, asked: Asked) => void>,
  { version = '0.0.0-test' } = {},
): Promise<Fake> {
  const home = mkdtempSync(join(tmpdir(), 'agentctl-home-'));
  const place = locate({ AGENTCTL_HOME: home });
  mkdirSync(place.state, { recursive: true });
  mkdirSync(place.runtime, { recursive: true });
  const asked: Asked[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => (body += chunk.toString()));
    request.on('end', () => {
      const path = (request.url ?? '').split('?')[0] ?? '';
      const route = `${request.method} ${path}`;
      if (path === '/healthz') return void json(response, 200, { status: 'ok', version, pid: process.pid });
      const one = { route, body, headers: request.headers };
      asked.push(one);
      const answer = routes[route];
      if (answer) answer(response, one);
      else json(response, 404, fault('route_not_found'));
    });
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  writeFileSync(place.info, JSON.stringify({ url, socket: null, pid: process.pid, version, home }));
  writeFileSync(place.token, 'ags_test\n');
  return { env: { AGENTCTL_HOME: home }, asked };
}

const agentctl = (
  args: string[],
  env: Record<string, string>,
  stdin = '',
): Promise<{ code: number; stdout: string; stderr: string }> =>
  new Promise((resolve) => {
    const base = { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '' };
    const child = spawn(process.execPath, [program, ...args], { env: { ...base, ...env } });
    let stdout = '';
    let stderr = '';
    child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
    child.stdin.end(stdin);
    child.on('close', (code) => resolve({ code: code ?? -1, stdout, stderr }));
  });

const streaming =
  (steps: Step[], keepOpen = false) =>
  (response: ServerResponse) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const one of events(steps)) response.write(encode({ id: one.id, event: one.type, data: JSON.stringify(one) }));
    if (!keepOpen) response.end();
  };

const running = (steps: Step[], result: object = {}, keepOpen = false) => ({
  'POST /v1/runs': (response: ServerResponse) => void json(response, 202, run),
  [`GET /v1/runs/${runId}`]: (response: ServerResponse) => void json(response, 200, run),
  [`GET /v1/runs/${runId}/stream`]: streaming(steps, keepOpen),
  [`GET /v1/runs/${runId}/result`]: (response: ServerResponse) =>
    void json(response, 200, { run_id: runId, text: null, ...result }),
});

const shell: Step[] = [
  ...started('shell', null),
  [
    'tool.started',
    {
      tool_call_id: 's',
      name: 'shell',
      title: 'x',
      category: 'execute',
      input: {},
      locations: [],
      connection_id: null,
    },
  ],
  ['tool.output', { tool_call_id: 's', stream: 'stdout', text: 'hi\n', truncated: false }],
  ['tool.output', { tool_call_id: 's', stream: 'stderr', text: 'careful\n', truncated: false }],
];

describe('without a daemon', () => {
  it('prints its version and its help, and knows what it does not know', async () => {
    const home = { AGENTCTL_HOME: mkdtempSync(join(tmpdir(), 'agentctl-home-')) };
    expect(await agentctl(['--version'], home)).toEqual({ code: 0, stdout: '0.0.0-test\n', stderr: '' });
    expect(await agentctl([], home)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('agentctl run') as string,
    });
    expect(await agentctl(['run', '--help'], home)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('--max-cost') as string,
    });
    expect(await agentctl(['frobnicate'], home)).toMatchObject({ code: 2, stdout: '' });
    expect(await agentctl(['run', '--max-cost', 'much', 'x'], home)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('such as 0.50') as string,
    });
    expect(await agentctl(['ps', '--no-start'], home)).toMatchObject({
      code: 8,
      stdout: '',
      stderr: expect.stringContaining('agentctl up') as string,
    });
    expect(await agentctl(['status'], home)).toMatchObject({ code: 8 });
    expect(await agentctl(['config', 'path'], home)).toMatchObject({
      code: 0,
      stdout: `${home.AGENTCTL_HOME}/config.toml\n`,
    });
  });

  it('does not send this machine’s token to another one', async () => {
    const { env, asked } = await fake({});
    const other = await fake({});
    const url = JSON.parse((await agentctl(['status', '--json'], other.env)).stdout) as { url: string };
    expect(await agentctl(['ps', '--url', url.url], env)).toMatchObject({
      code: 4,
      stderr: expect.stringContaining('AGENTCTL_TOKEN') as string,
    });
    expect(asked).toEqual([]);
  });
});

describe('a daemon of another version', () => {
  it('is refused with the remedy, but for what mends it', async () => {
    const { env } = await fake({}, { version: '9.9.9' });
    expect(await agentctl(['ps'], env)).toMatchObject({
      code: 8,
      stderr: expect.stringMatching(/9\.9\.9[\s\S]*agentctl restart/) as string,
    });
    expect(await agentctl(['version'], env)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('9.9.9') as string,
    });
  });
});

describe('run', () => {
  it('prints what a script prints, and nothing else, on standard output', async () => {
    const { env, asked } = await fake(running([...shell, completed()], { text: 'hi\n' }));
    const { code, stdout, stderr } = await agentctl(['run', '--harness', 'shell', '-w', runId, 'echo hi'], env);
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'hi\n' });
    expect(stderr).toContain('careful\n');
    const start = asked.find(({ route }) => route === 'POST /v1/runs');
    expect(JSON.parse(start?.body ?? '')).toEqual({ workspace_id: runId, harness: 'shell', prompt: 'echo hi' });
    expect(start?.headers['idempotency-key']).toMatch(/^[0-9a-f-]{36}$/);
    expect(start?.headers.authorization).toBe('Bearer ags_test');
  });

  it('prints an agent’s result on standard output and its progress on standard error', async () => {
    const said: Step = ['message.completed', { message_id: 'm', role: 'assistant', text: 'Done.' }];
    const { env } = await fake(
      running([...started(), ...tool('t', 'npm test', ''), said, completed()], { text: 'Done.' }),
    );
    const { code, stdout, stderr } = await agentctl(['run', '--harness', 'claude', '-w', runId, '-'], env, 'fix it');
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'Done.\n' });
    expect(stderr).toContain('▸ npm test');
    expect(stderr).toContain('✓ completed in 1m 03s · $0.12');
  });

  it('prints one event a line with --json', async () => {
    const steps = [...shell, completed()];
    const { env } = await fake(running(steps));
    const { stdout } = await agentctl(['--json', 'run', '--harness', 'shell', '-w', runId, 'echo hi'], env);
    expect(
      stdout
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as unknown),
    ).toEqual(events(steps));
  });

  it('ends as the run ended', async () => {
    const failed = (stop_reason: 'time_limit' | 'harness_failed'): Step => [
      'run.failed',
      { stop_reason, error: { code: 'x', message: 'It broke.', retryable: false, details: {} }, usage: usage() },
    ];
    const one = await fake(running([...shell, failed('time_limit')]));
    expect(await agentctl(['run', '--harness', 'shell', '-w', runId, 'x'], one.env)).toMatchObject({
      code: 6,
      stderr: expect.stringContaining('It broke.') as string,
    });
    const two = await fake(running([...shell, failed('harness_failed')]));
    expect(await agentctl(['run', '--harness', 'shell', '-w', runId, 'x'], two.env)).toMatchObject({ code: 1 });
  });

  it('ends with 5 when an answer is needed and may not be asked for', async () => {
    const { env } = await fake(running([...started(), ['input.requested', permission()]], {}, true));
    const { code, stderr } = await agentctl(['run', '--no-input', '--harness', 'claude', '-w', runId, 'x'], env);
    expect(code).toBe(5);
    expect(stderr).toContain('rm -rf build');
    expect(stderr).toContain('agentctl answer');
  });

  it('tells a server without a default the best agent, and never shell', async () => {
    const routes = running([...started(), completed()], { text: 'ok' });
    const { env, asked } = await fake({
      ...routes,
      'POST /v1/runs': (response, { body }) =>
        void (body.includes('harness')
          ? json(response, 202, run)
          : json(response, 400, fault('invalid_request', {}, 'harness'))),
      'GET /v1/harnesses': (response) =>
        void json(
          response,
          200,
          page(
            ...['shell', 'opencode', 'codex'].map((id) => ({
              id,
              name: id,
              status: 'available',
              version: '1',
              install_hint: null,
            })),
          ),
        ),
    });
    const { code, stderr } = await agentctl(['run', '-w', runId, 'x'], env);
    expect(code).toBe(0);
    expect(stderr).toContain('Using codex 1');
    const keys = asked
      .filter(({ route }) => route === 'POST /v1/runs')
      .map(({ headers }) => headers['idempotency-key']);
    expect(new Set(keys).size).toBe(1);
  });

  it('says what to do where there is no sandbox and nobody to ask', async () => {
    const { env } = await fake({
      'POST /v1/runs': (response) => void json(response, 409, fault('sandbox_unavailable')),
    });
    const { code, stderr } = await agentctl(['run', '--harness', 'claude', '-w', runId, 'x'], env);
    expect(code).toBe(4);
    expect(stderr).toMatch(/error: It is sandbox_unavailable\.\n {2}try: .*--sandbox none.*\n {2}request id: req_7/);
  });

  it('with -d prints the id alone', async () => {
    const { env } = await fake(running([]));
    expect(await agentctl(['run', '-d', '--harness', 'shell', '-w', runId, 'x'], env)).toEqual({
      code: 0,
      stdout: `${runId}\n`,
      stderr: '',
    });
  });

  it('asks for consent on a terminal, in plain words, and repeats without a sandbox', async () => {
    const routes = running([...shell, completed()]);
    const { env, asked } = await fake({
      ...routes,
      'POST /v1/runs': (response, { body }) =>
        void (body.includes('"sandbox":"none"')
          ? json(response, 202, run)
          : json(response, 409, fault('sandbox_unavailable'))),
      [`GET /v1/workspaces/${runId}`]: (response) => void json(response, 200, { name: 'shop' }),
    });
    const terminal = open(program, ['run', '--harness', 'claude', '-w', runId, 'x'], env);
    await terminal.until(/works as you[\s\S]*\[y\/N\]/);
    terminal.write('y\r');
    const text = await terminal.until(/✓ completed/);
    expect(text).toContain('hi');
    expect(await terminal.exited).toBe(0);
    expect(asked.filter(({ route }) => route === 'POST /v1/runs')).toHaveLength(2);
  });

  it('cancels at the first Ctrl-C and ends with 130', async () => {
    let cancelled = () => {};
    const { env } = await fake({
      ...running([]),
      [`GET /v1/runs/${runId}/stream`]: (response) => {
        streaming(shell, true)(response);
        const [last] = events([['run.cancelled', { stop_reason: 'cancelled', error: null, usage: usage() }]], 50);
        cancelled = () => response.end(encode({ id: '50', event: 'run.cancelled', data: JSON.stringify(last) }));
      },
      [`POST /v1/runs/${runId}/cancel`]: (response) => {
        json(response, 202, run);
        cancelled();
      },
    });
    const child = spawn(process.execPath, [program, 'run', '--harness', 'shell', '-w', runId, 'x'], {
      env: { PATH: process.env.PATH ?? '', ...env },
    });
    child.stdout.on('data', () => child.kill('SIGINT'));
    expect(await new Promise((resolve) => child.on('close', resolve))).toBe(130);
  });
});

describe('lists and raw requests', () => {
  it('keep the body, say what to do when empty, and page', async () => {
    const { env } = await fake({
      'GET /v1/runs': (response) => void json(response, 200, page()),
      'GET /v1/input-requests': (response) => void json(response, 200, page(permission())),
    });
    expect(await agentctl(['ps', '--json'], env)).toEqual({
      code: 0,
      stdout: '{"data":[],"next_cursor":null}\n',
      stderr: '',
    });
    expect(await agentctl(['ps'], env)).toMatchObject({
      code: 0,
      stdout: '',
      stderr: expect.stringContaining('ps -a') as string,
    });
    expect((await agentctl(['inbox', '-q'], env)).stdout).toBe(`${permission().id}\n`);
    expect((await agentctl(['api', 'GET', '/v1/runs', '--paginate'], env)).stdout).toBe(
      '{"data":[],"next_cursor":null}\n',
    );
    expect(await agentctl(['api', 'GET', '/v1/nothing'], env)).toMatchObject({
      code: 3,
      stdout: expect.stringContaining('route_not_found') as string,
    });
  });

  it('answer by what is offered', async () => {
    const { env, asked } = await fake({
      'GET /v1/input-requests': (response) =>
        void json(
          response,
          200,
          page(permission({ grant: { kind: 'command', tool: 'Bash', pattern: 'rm -rf build' } })),
        ),
      [`POST /v1/runs/${runId}/input`]: (response) => void json(response, 202, run),
    });
    expect(await agentctl(['answer', permission().id, '--always'], env)).toMatchObject({
      code: 0,
      stderr: expect.stringContaining('just this: Bash: rm -rf build\n') as string,
    });
    expect(JSON.parse(asked.at(-1)?.body ?? '')).toEqual({ request_id: permission().id, option_id: 'always' });
    expect(await agentctl(['answer', permission().id], env)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('rm -rf build') as string,
    });
    expect(await agentctl(['answer', permission().id, '--allow', '--reject'], env)).toMatchObject({ code: 2 });
  });

  it('stop waiting with 124', async () => {
    const { env } = await fake(running(shell, {}, true));
    expect(await agentctl(['wait', runId, '--timeout', '0s'], env)).toMatchObject({ code: 124 });
  });
});

describe('workspaces', () => {
  const workspace = {
    id: runId,
    project_id: runId,
    name: 'thing',
    status: 'ready',
    source: { type: 'git', url: 'https://example.org/thing', ref: 'v1', depth: 2 },
    path: '/tree',
    revision: 3,
    watch: { mode: 'scanning', reason: 'It is large.' },
    writer: null,
    git: null,
    delete_after: null,
    error: null,
    created_at: new Date().toISOString(),
  };
  const done = {
    id: runId,
    status: 'succeeded',
    resource: { type: 'workspace', id: runId },
    progress: null,
    result: null,
  };

  it('clones what --git names, of the ref behind #, and says how it is watched', async () => {
    const { env, asked } = await fake({
      [`POST /v1/projects/${runId}/workspaces`]: (response) => void json(response, 202, done),
      [`GET /v1/workspaces/${runId}`]: (response) => void json(response, 200, workspace),
    });
    const args = ['workspaces', 'new', runId, '--git', 'https://example.org/thing#v1', '--depth', '2'];
    const { code, stdout } = await agentctl(args, env);
    expect(code).toBe(0);
    expect(JSON.parse(asked[0]?.body ?? '')).toEqual({ source: workspace.source });
    expect(stdout).toContain('git, https://example.org/thing at v1');
    expect(stdout).toContain('scanning: It is large.');
    const both = await agentctl(['workspaces', 'new', runId, '--git', 'x', '--copy'], env);
    expect(both).toMatchObject({ code: 2, stderr: expect.stringContaining('--copy and --git do not go together') });
  });

  it('says what goes with a workspace, and takes a removal back', async () => {
    const result = {
      keeps_directory: false,
      entries: 4,
      uncommitted_files: 1,
      unpushed_commits: 2,
      checkpoint_id: runId,
    };
    const { env, asked } = await fake({
      [`GET /v1/workspaces/${runId}`]: (response) => void json(response, 200, workspace),
      [`DELETE /v1/workspaces/${runId}`]: (response) =>
        void json(response, 202, { ...done, status: 'queued', finished_at: null }),
      [`GET /v1/operations/${runId}`]: (response) =>
        void json(response, 200, { ...done, status: 'running', finished_at: null, result }),
      [`DELETE /v1/workspaces/${runId}/deletion`]: (response) => void json(response, 200, workspace),
    });
    const { code, stderr } = await agentctl(['workspaces', 'rm', runId, '-y'], env);
    expect(code).toBe(0);
    expect(stderr).toContain(
      'With it go 1 uncommitted file and 2 commits that no remote has. Until then its tree is in',
    );
    const undone = await agentctl(['workspaces', 'rm', runId, '--undo'], env);
    expect(undone).toMatchObject({ code: 0, stderr: 'thing stays.\n' });
    expect(asked.at(-1)?.route).toBe(`DELETE /v1/workspaces/${runId}/deletion`);
  });
});
