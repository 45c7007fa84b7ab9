import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createTestClock, type TestClock } from '../kit/clock.ts';
import { openApp, type TestApp } from '../kit/app.ts';
import {
  createGate,
  createProject,
  createRun,
  createWorkspace,
  ended,
  missingRun,
  untilRun,
  withMissingHarness,
} from './scene.ts';

const day = 86_400_000;
let scene: TestApp;
let clock: TestClock;
let project: string;
/** A folder of the user's, for directories and repositories. */
let home: string;

beforeEach(async () => {
  home = mkdtempSync(join(realpathSync(tmpdir()), 'agentctl-user-'));
  clock = createTestClock();
  scene = await openApp({ clock, config: withMissingHarness });
  ({ id: project } = await createProject(scene));
});
afterEach(async () => {
  await scene.close();
  rmSync(home, { recursive: true, force: true });
});

const get = async (id: string) => (await scene.call('GET', `/v1/workspaces/${id}`)).body;
const operation = async (id: string) => (await scene.call('GET', `/v1/operations/${id}`)).body;
const create = (source?: object, name?: string) =>
  createWorkspace(scene, project, { ...(source ? { source } : {}), ...(name ? { name } : {}) });
const remove = async (id: string, query = '') => {
  const { status, body } = await scene.call('DELETE', `/v1/workspaces/${id}${query}`);
  expect(status).toBe(202);
  await scene.app.settle();
  return body.id as string;
};
const pass = async (ms: number) => {
  clock.advance(ms);
  await scene.app.settle();
};
const folder = (name: string): string => {
  const path = join(home, name);
  mkdirSync(path, { recursive: true });
  return path;
};
const git = (cwd: string, ...args: string[]): string =>
  execFileSync(
    'git',
    ['-c', 'user.name=Test', '-c', 'user.email=test@example.org', '-c', 'init.defaultBranch=main', ...args],
    {
      cwd,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  ).trim();
const repository = (name = 'repository'): string => {
  const path = folder(name);
  git(path, 'init', '-q');
  writeFileSync(join(path, 'readme'), 'one\n');
  git(path, 'add', '.');
  git(path, 'commit', '-qm', 'one');
  return path;
};

test('an empty workspace is an empty folder of the daemon’s own, for the user alone', async () => {
  const workspace = await create();
  expect(workspace).toMatchObject({
    status: 'ready',
    name: 'workspace',
    source: { type: 'empty' },
    revision: 0,
    writer: null,
    git: null,
    error: null,
  });
  expect(workspace.path.startsWith(scene.home.data)).toBe(true);
  expect(readdirSync(workspace.path)).toEqual([]);
});

test('in place a run works on the user’s own directory, which is never removed', async () => {
  const path = folder('mine');
  writeFileSync(join(path, 'precious'), 'x');
  const workspace = await create({ type: 'directory', path, mode: 'in_place' });
  expect(workspace).toMatchObject({ status: 'ready', path, name: 'mine' });
  const { run_id } = await createRun(scene, {
    workspace_id: workspace.id,
    harness: 'shell',
    prompt: 'pwd; echo new > made',
  });
  await untilRun(scene, run_id, ended, () => clock.advance(25));
  expect((await scene.call('GET', `/v1/runs/${run_id}/result`)).body.text).toBe(`${path}\n`);
  expect((await scene.call('GET', `/v1/runs/${run_id}/result`)).body.changes.files).toMatchObject([
    { path: 'made', change: 'added' },
  ]);
  expect((await get(workspace.id)).revision).toBeGreaterThan(0);
  const id = await remove(workspace.id, '?after_seconds=0');
  await pass(1);
  expect(await operation(id)).toMatchObject({ status: 'succeeded', result: { keeps_directory: true } });
  expect((await get(workspace.id)).status).toBe('deleted');
  expect(readdirSync(path).toSorted()).toEqual(['made', 'precious']);
  // The place is free again.
  expect((await create({ type: 'directory', path, mode: 'in_place' })).status).toBe('ready');
});

test('the removal of the whole project leaves an in_place directory, too', async () => {
  const path = folder('mine');
  writeFileSync(join(path, 'precious'), 'x');
  await create({ type: 'directory', path, mode: 'in_place' });
  await scene.call('DELETE', `/v1/projects/${project}`);
  await scene.app.settle();
  await scene.call('POST', `/v1/projects/${project}/deletion`, { after_seconds: 0 });
  await scene.app.settle();
  expect((await scene.call('GET', `/v1/projects/${project}`)).status).toBe(404);
  expect(readFileSync(join(path, 'precious'), 'utf8')).toBe('x');
});

test('renaming a workspace renames no directory', async () => {
  const path = folder('mine');
  const workspace = await create({ type: 'directory', path, mode: 'in_place' });
  const { body } = await scene.call('PATCH', `/v1/workspaces/${workspace.id}`, { name: 'Other', metadata: { a: 'b' } });
  expect(body).toMatchObject({ name: 'Other', metadata: { a: 'b' }, path });
  expect(existsSync(path)).toBe(true);
});

test('two workspaces never share a directory, by whatever name it is given', async () => {
  const path = folder('mine');
  symlinkSync(path, join(home, 'link'));
  const first = await create({ type: 'directory', path, mode: 'in_place' });
  for (const other of [path, `${path}/`, join(home, 'link'), `${home}/./mine`, `${home}/mine/../mine`]) {
    const answer = await scene.call('POST', `/v1/projects/${project}/workspaces`, {
      source: { type: 'directory', path: other, mode: 'in_place' },
    });
    expect(answer).toMatchObject({
      status: 409,
      body: { error: { code: 'invalid_state', details: { workspace_id: first.id } } },
    });
  }
  await remove(first.id);
  const answer = await scene.call('POST', `/v1/projects/${project}/workspaces`, {
    source: { type: 'directory', path, mode: 'in_place' },
  });
  expect(answer.status, 'while it can still be taken back').toBe(409);
});

test('a directory that holds agentctl’s own data, or lies in it, is refused', async () => {
  const { data, state, home: own } = scene.home;
  symlinkSync(data, join(home, 'link'));
  for (const path of ['/', own, data, state, join(data, 'workspaces'), join(home, 'link')]) {
    mkdirSync(join(data, 'workspaces'), { recursive: true });
    const answer = await scene.call('POST', `/v1/projects/${project}/workspaces`, {
      source: { type: 'directory', path, mode: 'in_place' },
    });
    expect({ path, status: answer.status, code: answer.body.error?.code, param: answer.body.error?.param }).toEqual({
      path,
      status: 400,
      code: 'invalid_request',
      param: 'source.path',
    });
  }
  expect((await scene.call('GET', `/v1/projects/${project}/workspaces`)).body.data).toEqual([]);
});

test('a worktree has a branch of its own; the repository stays as it is', async () => {
  const path = repository();
  writeFileSync(join(path, 'uncommitted'), 'x');
  const before = git(path, 'status', '--porcelain');
  const workspace = await create({ type: 'directory', path, mode: 'worktree' }, 'Fix the Bug!');
  expect(workspace).toMatchObject({
    status: 'ready',
    source: { mode: 'worktree', path },
    git: { base_branch: 'main', remote_url: null },
  });
  expect(workspace.git.branch).toMatch(/^agentctl\/fix-the-bug-[0-9a-f]{8}$/);
  expect(workspace.path.startsWith(scene.home.data)).toBe(true);
  expect(git(workspace.path, 'branch', '--show-current')).toBe(workspace.git.branch);
  expect(readdirSync(workspace.path).toSorted()).toEqual(['.git', 'readme']);
  expect(git(path, 'branch', '--show-current')).toBe('main');
  expect(git(path, 'status', '--porcelain')).toBe(before);
  const second = await create({ type: 'directory', path, mode: 'worktree' }, 'Fix the Bug!');
  expect(second.status).toBe('ready');
  expect(second.git.branch).not.toBe(workspace.git.branch);
});

test('the user’s hooks do not run for us', async () => {
  const path = repository();
  const hook = join(path, '.git/hooks/post-checkout');
  writeFileSync(hook, `#!/bin/sh\ntouch ${join(home, 'ran')}\n`, { mode: 0o755 });
  expect((await create({ type: 'directory', path, mode: 'worktree' })).status).toBe('ready');
  expect(existsSync(join(home, 'ran'))).toBe(false);
});

test('a worktree is removed when it is due, and git forgets it; its branch and the repository stay', async () => {
  const path = repository();
  const workspace = await create({ type: 'directory', path, mode: 'worktree' });
  const id = await remove(workspace.id, '?after_seconds=3600');
  await pass(3_600_000);
  expect((await operation(id)).status).toBe('succeeded');
  expect((await get(workspace.id)).status).toBe('deleted');
  expect(existsSync(workspace.path)).toBe(false);
  expect(git(path, 'worktree', 'list', '--porcelain')).not.toContain(workspace.path);
  expect(git(path, 'branch', '--list', workspace.git.branch)).not.toBe('');
  expect(readFileSync(join(path, 'readme'), 'utf8')).toBe('one\n');
});

test.each([
  ['a folder that is no repository', () => folder('plain')],
  ['a repository without a commit', () => (git(folder('bare'), 'init', '-q'), join(home, 'bare'))],
])('a worktree of %s fails, and workspace, operation and runs say so', async (_name, make) => {
  const path = make();
  const workspace = await create({ type: 'directory', path, mode: 'worktree' });
  expect(workspace).toMatchObject({
    status: 'failed',
    error: { code: 'invalid_state', message: expect.stringContaining(path) },
  });
  const { body } = await scene.call('GET', `/v1/operations?resource_id=${workspace.id}`);
  expect(body.data).toMatchObject([{ type: 'workspace.create', status: 'failed', error: { code: 'invalid_state' } }]);
  expect(JSON.stringify([workspace.error, body])).not.toContain(scene.home.data);
  const run = await scene.call('POST', '/v1/runs', { ...missingRun, workspace_id: workspace.id });
  expect(run).toMatchObject({ status: 409, body: { error: { code: 'invalid_state', details: { state: 'failed' } } } });
});

test('a removal is scheduled for a day, says what goes, and then the tree is gone', async () => {
  const workspace = await create();
  writeFileSync(join(workspace.path, 'file'), 'x');
  const id = await remove(workspace.id);
  const due = new Date(clock.now() + day).toISOString();
  expect(await get(workspace.id)).toMatchObject({ status: 'deleting', delete_after: due });
  expect(await operation(id)).toMatchObject({
    type: 'workspace.delete',
    result: { entries: 1 },
    resource: { type: 'workspace', id: workspace.id },
  });
  expect(
    (await scene.call('POST', '/v1/runs', { ...missingRun, workspace_id: workspace.id })).body.error,
  ).toMatchObject({ code: 'invalid_state', details: { state: 'deleting' } });
  await pass(day - 1);
  expect(existsSync(join(workspace.path, 'file'))).toBe(true);
  await pass(1);
  expect(await operation(id)).toMatchObject({ status: 'succeeded', result: { entries: 1 } });
  expect(await get(workspace.id)).toMatchObject({ status: 'deleted', delete_after: null });
  expect(existsSync(workspace.path)).toBe(false);
  expect((await scene.call('GET', `/v1/projects/${project}/workspaces`)).body.data).toEqual([]);
  expect((await scene.call('DELETE', `/v1/workspaces/${workspace.id}`)).body.error).toMatchObject({
    code: 'invalid_state',
    details: { state: 'deleted' },
  });
});

test('a removal is taken back with all that is in the tree, also at the last moment', async () => {
  const workspace = await create();
  writeFileSync(join(workspace.path, 'file'), 'x');
  const id = await remove(workspace.id);
  clock.advance(day - 1);
  const { status, body } = await scene.call('DELETE', `/v1/workspaces/${workspace.id}/deletion`);
  expect({ status, body }).toMatchObject({ status: 200, body: { delete_after: null } });
  await scene.app.settle();
  expect((await operation(id)).status).toBe('cancelled');
  expect((await get(workspace.id)).status).toBe('ready');
  await pass(10 * day);
  expect(readFileSync(join(workspace.path, 'file'), 'utf8')).toBe('x');
  const { run_id } = await createRun(scene, { workspace_id: workspace.id, harness: 'shell', prompt: 'cat file' });
  expect(await untilRun(scene, run_id, ended, () => clock.advance(25))).toMatchObject({ status: 'completed' });
});

test('asking for the removal again changes its time', async () => {
  const workspace = await create();
  const first = await remove(workspace.id, '?after_seconds=60');
  const second = await remove(workspace.id, '?after_seconds=7200');
  expect((await operation(first)).status).toBe('cancelled');
  await pass(3_600_000);
  expect((await get(workspace.id)).status).toBe('deleting');
  await pass(3_600_000);
  expect((await operation(second)).status).toBe('succeeded');
});

test('a workspace that a run works in is removed when the run has ended', async () => {
  const workspace = await create();
  const gate = createGate();
  const { run_id } = await createRun(scene, {
    workspace_id: workspace.id,
    harness: 'shell',
    prompt: `${gate.script} && pwd`,
  });
  const turn = () => clock.advance(25);
  await untilRun(scene, run_id, ['running'], turn);
  const id = await remove(workspace.id, '?after_seconds=0');
  await pass(1_000);
  expect(existsSync(workspace.path)).toBe(true);
  expect((await operation(id)).finished_at).toBeNull();
  gate.open();
  expect(await untilRun(scene, run_id, ended, turn)).toMatchObject({ status: 'completed' });
  await pass(1_000);
  expect((await operation(id)).status).toBe('succeeded');
  expect(existsSync(workspace.path)).toBe(false);
  gate.remove();
});

test('one writer at a time: the second run waits in the queue and says for whom', async () => {
  const workspace = await create();
  const gate = createGate();
  const turn = () => clock.advance(25);
  const first = await createRun(scene, { workspace_id: workspace.id, harness: 'shell', prompt: gate.script });
  await untilRun(scene, first.run_id, ['running'], turn);
  const second = await createRun(scene, { workspace_id: workspace.id, harness: 'shell', prompt: 'true' });
  await scene.app.settle();
  expect((await get(workspace.id)).writer).toMatchObject({ kind: 'run', id: first.run_id });
  const { body } = await scene.call('GET', `/v1/runs/${second.run_id}/events`);
  expect(body.data).toMatchObject([{ type: 'run.queued', data: { blocked_by: { kind: 'run', id: first.run_id } } }]);
  gate.open();
  await untilRun(scene, second.run_id, ended, turn);
  const log = scene.app.db.all<{ type: string; body: string }>(
    `SELECT type, body FROM events WHERE type LIKE 'run.%' ORDER BY key`,
  );
  const order = log.map(({ type, body: text }) => [
    type,
    (JSON.parse(text) as { run_id: string }).run_id === first.run_id ? 1 : 2,
  ]);
  expect(order).toEqual([
    ['run.queued', 1],
    ['run.started', 1],
    ['run.queued', 2],
    ['run.completed', 1],
    ['run.started', 2],
    ['run.completed', 2],
  ]);
  expect((await get(workspace.id)).writer).toBeNull();
  gate.remove();
});

test('directories that lie in each other are one tree: one writer at a time in all of them', async () => {
  const [outer, inner, beside] = await Promise.all(
    [folder('mine'), folder('mine/inner'), folder('mine-too')].map((path) =>
      create({ type: 'directory', path, mode: 'in_place' }),
    ),
  );
  const gate = createGate();
  const turn = () => clock.advance(25);
  const first = await createRun(scene, { workspace_id: inner.id, harness: 'shell', prompt: gate.script });
  await untilRun(scene, first.run_id, ['running'], turn);
  const writer = { kind: 'run', id: first.run_id };
  expect((await get(outer.id)).writer).toMatchObject(writer);
  expect((await get(beside.id)).writer).toBeNull();
  const restless = await scene.call('PUT', `/v1/workspaces/${outer.id}/file?path=x`, 'x', {
    'content-type': 'application/octet-stream',
    'idempotency-key': 'k',
    'if-match': '"absent"',
  });
  expect(restless).toMatchObject({ status: 409, body: { error: { code: 'workspace_busy', details: { writer } } } });
  const second = await createRun(scene, { workspace_id: outer.id, harness: 'shell', prompt: 'echo x > inner/x' });
  await scene.app.settle();
  const { body } = await scene.call('GET', `/v1/runs/${second.run_id}/events`);
  expect(body.data).toMatchObject([{ type: 'run.queued', data: { blocked_by: writer } }]);
  gate.open();
  expect((await untilRun(scene, second.run_id, ended, turn)).status).toBe('completed');
  gate.remove();
});

test('a workspace of a project alone is made for the run', async () => {
  const { workspace_id } = await createRun(scene, { ...missingRun, project_id: project });
  await scene.app.settle();
  const workspace = await get(workspace_id);
  expect(workspace).toMatchObject({ project_id: project, source: { type: 'empty' }, status: 'ready' });
  expect(basename(workspace.path)).toBe(workspace_id);
});
