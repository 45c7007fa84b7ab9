import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { findBubblewrap } from '../../src/runner/sandbox/sandbox.ts';
import { openApp, type TestApp } from '../kit/app.ts';
import { createTestClock, type TestClock } from '../kit/clock.ts';
import { noSandbox } from '../kit/sandbox.ts';
import { createProject, createWorkspace } from './scene.ts';

let scene: TestApp;
let clock: TestClock;
let project: string;
let home: string;

beforeEach(async () => {
  home = mkdtempSync(join(realpathSync(tmpdir()), 'agentctl-user-'));
  clock = createTestClock();
  scene = await openApp({ clock, bubblewrap: () => findBubblewrap(process.env.PATH ?? '') });
  ({ id: project } = await createProject(scene));
});
afterEach(async () => {
  await scene.close();
  rmSync(home, { recursive: true, force: true });
});

const get = async (url: string) => (await scene.call('GET', url)).body;
const remove = async (id: string, query = '') => {
  const { status, body } = await scene.call('DELETE', `/v1/workspaces/${id}${query}`);
  expect(status).toBe(202);
  await scene.app.settle();
  return get(`/v1/operations/${body.id}`);
};
const git = (cwd: string, ...args: string[]): string =>
  execFileSync('git', ['-c', 'user.name=Test', '-c', 'user.email=test@example.org', ...args], {
    cwd,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  }).trim();
const repository = (): string => {
  const path = join(home, 'repository');
  mkdirSync(path);
  git(path, 'init', '-q', '-b', 'main');
  writeFileSync(join(path, 'readme'), 'one\n');
  git(path, 'add', '.');
  git(path, 'commit', '-qm', 'one');
  return path;
};
const worktree = (path: string) =>
  createWorkspace(scene, project, { source: { type: 'directory', path, mode: 'worktree' } });

test.skipIf(noSandbox)('a worktree’s unsaved work is told by the removal’s operation before it goes', async () => {
  const workspace = await worktree(repository());
  writeFileSync(join(workspace.path, 'new'), 'x');
  writeFileSync(join(workspace.path, 'readme'), 'changed\n');
  git(workspace.path, 'add', 'readme');
  git(workspace.path, 'commit', '-qm', 'two');
  writeFileSync(join(workspace.path, 'readme'), 'changed again\n');
  expect(await remove(workspace.id)).toMatchObject({
    type: 'workspace.delete',
    finished_at: null,
    // The commit of the worktree, and the one from before: neither is on any remote.
    result: { keeps_directory: false, entries: 3, uncommitted_files: 2, unpushed_commits: 2 },
  });
  expect(existsSync(workspace.path)).toBe(true);
});

test.skipIf(noSandbox)(
  'a clone that knows its remote has nothing unpushed; one that an agent has worked in has',
  async () => {
    const path = repository();
    const source = { type: 'git', url: `file://${path}` };
    const workspace = await createWorkspace(scene, project, { source });
    expect((await remove(workspace.id)).result).toMatchObject({ uncommitted_files: 0, unpushed_commits: 0 });
    writeFileSync(join(workspace.path, 'new'), 'x');
    git(workspace.path, 'add', '.');
    git(workspace.path, 'commit', '-qm', 'two');
    expect((await remove(workspace.id)).result).toMatchObject({ uncommitted_files: 0, unpushed_commits: 1 });
  },
);

test('what an agent wrote into a repository’s settings runs nothing outside, and writes nothing', async () => {
  const ran = join(home, 'ran');
  const workspace = await createWorkspace(scene, project, {});
  const evil = `touch ${ran} ${workspace.path}/ran`;
  git(workspace.path, 'init', '-q');
  writeFileSync(join(workspace.path, '.gitattributes'), '* filter=evil diff=evil\n');
  writeFileSync(join(workspace.path, 'file'), 'x\n');
  git(workspace.path, 'add', '.');
  for (const [name, value] of [
    ['core.fsmonitor', evil],
    ['filter.evil.clean', `${evil}; cat`],
    ['filter.evil.process', evil],
    ['core.pager', evil],
    ['core.sshCommand', evil],
  ] as const)
    git(workspace.path, 'config', name, value);
  for (const hook of ['post-index-change', 'fsmonitor-watchman']) {
    mkdirSync(join(workspace.path, '.git/hooks'), { recursive: true });
    writeFileSync(join(workspace.path, '.git/hooks', hook), `#!/bin/sh\n${evil}\n`, { mode: 0o755 });
  }
  writeFileSync(join(workspace.path, 'file'), 'y\n');
  expect((await remove(workspace.id)).result).toMatchObject({ keeps_directory: false, entries: 3 });
  expect([existsSync(ran), existsSync(join(workspace.path, 'ran'))]).toEqual([false, false]);
});

test('the tree is kept in a last checkpoint until it goes; then that and what was known of its files may go, too', async () => {
  const workspace = await createWorkspace(scene, project, {});
  writeFileSync(join(workspace.path, 'file'), 'precious');
  const { result } = await remove(workspace.id, '?after_seconds=3600');
  const { delete_after } = await get(`/v1/workspaces/${workspace.id}`);
  expect(await get(`/v1/checkpoints/${result.checkpoint_id}`)).toMatchObject({
    trigger: 'before_delete',
    status: 'verified',
    file_count: 1,
    expires_at: delete_after,
  });
  // Somebody removes the file, and takes the removal back: it can be had again.
  rmSync(join(workspace.path, 'file'));
  await scene.call('DELETE', `/v1/workspaces/${workspace.id}/deletion`);
  await scene.app.settle();
  const restore = await scene.call('POST', `/v1/workspaces/${workspace.id}/restore`, {
    checkpoint_id: result.checkpoint_id,
  });
  expect(restore.status).toBe(202);
  await scene.app.settle();
  expect(readFileSync(join(workspace.path, 'file'), 'utf8')).toBe('precious');
  const caches = () =>
    readdirSync(join(scene.home.data, 'tree-caches')).filter((name) => name.startsWith(workspace.id));
  expect(caches()).not.toEqual([]);
  await remove(workspace.id, '?after_seconds=60');
  clock.advance(60_000);
  await scene.app.settle();
  expect((await get(`/v1/workspaces/${workspace.id}`)).status).toBe('deleted');
  expect(existsSync(workspace.path)).toBe(false);
  expect(caches()).toEqual([]);
});

test('a tree that is too large to be kept goes all the same, and the operation says that it was not kept', async () => {
  await scene.close();
  scene = await openApp({ clock, config: { checkpoints: { max_files: 1 } } });
  ({ id: project } = await createProject(scene));
  const workspace = await createWorkspace(scene, project, {});
  for (const name of ['one', 'two']) writeFileSync(join(workspace.path, name), 'x');
  expect((await remove(workspace.id)).result).toMatchObject({
    checkpoint_id: null,
    checkpoint_error: expect.stringContaining('max_files'),
  });
});

test('the user’s own directory is not copied anywhere, as it stays', async () => {
  const path = join(home, 'mine');
  mkdirSync(path);
  const workspace = await createWorkspace(scene, project, { source: { type: 'directory', path, mode: 'in_place' } });
  expect((await remove(workspace.id)).result).toEqual({ keeps_directory: true, checkpoint_id: null });
  expect((await get(`/v1/workspaces/${workspace.id}/checkpoints`)).data).toEqual([]);
});
