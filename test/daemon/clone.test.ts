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
import { pathToFileURL } from 'node:url';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { openApp, type TestApp, until } from '../kit/app.ts';
import { createProject, createWorkspace } from './scene.ts';

let scene: TestApp;
let project: string;
/** The user's folder, with a bare repository and a program called ssh. */
let home: string;
let bare: string;
let url: string;
const path = process.env.PATH;

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

beforeAll(() => {
  home = mkdtempSync(join(realpathSync(tmpdir()), 'agentctl-remote-'));
  const work = join(home, 'work');
  mkdirSync(join(work, 'folder'), { recursive: true });
  git(work, 'init', '-q');
  writeFileSync(join(work, 'readme'), 'one\n');
  writeFileSync(join(work, 'folder/file'), 'x');
  git(work, 'add', '.');
  git(work, 'commit', '-qm', 'one');
  git(work, 'tag', 'v1');
  writeFileSync(join(work, 'readme'), 'two\n');
  git(work, 'commit', '-qam', 'two');
  git(work, 'branch', 'side/way', 'v1');
  bare = join(home, 'thing one.git');
  git(home, 'clone', '-q', '--bare', work, bare);
  url = pathToFileURL(bare).href;
  // What git starts for ssh URLs: says who it is and waits for the gate before it serves the repository.
  mkdirSync(join(home, 'bin'));
  const ssh = `#!/bin/sh\necho "$$ $*" >> '${home}/started'\necho "remote: waiting" >&2\nuntil [ -e '${home}/gate' ]; do sleep 0.02; done\nexec git upload-pack '${bare}'\n`;
  writeFileSync(join(home, 'bin/ssh'), ssh, { mode: 0o755 });
  process.env.PATH = `${join(home, 'bin')}:${path}`;
});
afterAll(() => {
  process.env.PATH = path;
  rmSync(home, { recursive: true, force: true });
});
beforeEach(async () => {
  scene = await openApp();
  ({ id: project } = await createProject(scene));
});
afterEach(async () => {
  await scene.close();
  for (const file of ['gate', 'started']) rmSync(join(home, file), { force: true });
});

const clone = (source: object) => createWorkspace(scene, project, { source: { type: 'git', url, ...source } });
const operationOf = async (id: string) => (await scene.call('GET', `/v1/operations?resource_id=${id}`)).body.data[0];
const trees = (): string[] =>
  existsSync(join(scene.home.data, 'workspaces')) ? readdirSync(join(scene.home.data, 'workspaces')) : [];
const started = () =>
  until('ssh', () => {
    const text = existsSync(join(home, 'started')) ? readFileSync(join(home, 'started'), 'utf8') : '';
    return text.endsWith('\n') && text.trim().split('\n');
  });
const isAlive = (line: string): boolean => existsSync(`/proc/${line.split(' ')[0]}`);
/** A clone that waits for the gate. */
const begin = async () => {
  const source = { type: 'git', url: 'ssh://git@example.org/thing.git' };
  const { status, body } = await scene.call('POST', `/v1/projects/${project}/workspaces`, { source });
  expect(status).toBe(202);
  return { id: body.resource.id as string, operation: body.id as string, lines: await started() };
};

test('a repository is cloned whole, with its remote and branch, and its progress is told', async () => {
  const workspace = await clone({});
  expect(workspace).toMatchObject({
    status: 'ready',
    name: 'thing one',
    source: { type: 'git', url, ref: null, depth: null },
    git: { remote_url: url, branch: 'main', base_branch: 'main' },
    error: null,
  });
  expect(readFileSync(join(workspace.path, 'readme'), 'utf8')).toBe('two\n');
  expect(git(workspace.path, 'rev-list', '--count', 'HEAD')).toBe('2');
  expect(git(workspace.path, 'remote', 'get-url', 'origin')).toBe(url);
  expect(await operationOf(workspace.id)).toMatchObject({
    status: 'succeeded',
    progress: {
      done: expect.any(Number),
      total: expect.any(Number),
      unit: expect.stringMatching(/^(objects|deltas|files)$/),
    },
  });
  expect(trees()).toEqual([workspace.id]);
});

test('a branch, a tag, a commit that is on no branch’s tip, and a short history', async () => {
  const v1 = git(bare, 'rev-parse', 'v1');
  const wanted: [object, { branch: string | null; readme: string; commits: string }][] = [
    [{ ref: 'side/way' }, { branch: 'side/way', readme: 'one\n', commits: '1' }],
    [{ ref: 'v1' }, { branch: null, readme: 'one\n', commits: '1' }],
    [{ ref: v1 }, { branch: null, readme: 'one\n', commits: '1' }],
    [{ depth: 1 }, { branch: 'main', readme: 'two\n', commits: '1' }],
  ];
  for (const [source, { branch, readme, commits }] of wanted) {
    const workspace = await clone(source);
    expect(workspace).toMatchObject({ status: 'ready', source, git: { branch } });
    expect(readFileSync(join(workspace.path, 'readme'), 'utf8')).toBe(readme);
    expect(git(workspace.path, 'rev-list', '--count', 'HEAD')).toBe(commits);
  }
});

test('nothing of the repository or of the user’s settings runs: hooks, filters, submodules, templates', async () => {
  const work = join(home, 'hostile');
  const ran = join(home, 'ran');
  mkdirSync(work);
  git(work, 'init', '-q');
  writeFileSync(join(work, '.gitattributes'), '* filter=evil\n');
  writeFileSync(join(work, 'file'), 'x\n');
  writeFileSync(join(work, '.gitmodules'), `[submodule "sub"]\n\tpath = sub\n\turl = ${url}\n`);
  git(work, 'add', '.');
  git(work, 'update-index', '--add', '--cacheinfo', `160000,${git(bare, 'rev-parse', 'v1')},sub`);
  git(work, 'commit', '-qm', 'one');
  mkdirSync(join(work, '.git/hooks'), { recursive: true });
  for (const hook of ['post-checkout', 'reference-transaction', 'post-upload-pack'])
    writeFileSync(join(work, '.git/hooks', hook), `#!/bin/sh\ntouch ${ran}\n`, { mode: 0o755 });
  const template = join(home, 'template/hooks');
  mkdirSync(template, { recursive: true });
  writeFileSync(join(template, 'post-checkout'), `#!/bin/sh\ntouch ${ran}\n`, { mode: 0o755 });
  writeFileSync(
    join(home, '.gitconfig'),
    `[init]\n\ttemplateDir = ${join(home, 'template')}\n[filter "evil"]\n\tsmudge = touch ${ran}; cat\n`,
  );
  const before = process.env.HOME;
  await scene.close();
  process.env.HOME = home;
  scene = await openApp();
  process.env.HOME = before;
  ({ id: project } = await createProject(scene));
  const workspace = await clone({ url: pathToFileURL(work).href });
  expect(workspace.status).toBe('ready');
  expect(readdirSync(join(workspace.path, 'sub'))).toEqual([]);
  expect(existsSync(join(workspace.path, '.git/hooks'))).toBe(false);
  expect(existsSync(ran)).toBe(false);
});

test.each([
  ['a branch that is not there', () => ({ ref: 'nowhere' }), /could not be cloned: .*nowhere/],
  ['a folder that is no repository', () => ({ url: pathToFileURL(join(home, 'bin')).href }), /could not be cloned: /],
  ['a commit that is not there', () => ({ ref: 'a'.repeat(40) }), /could not be cloned: /],
])('%s fails honestly and leaves nothing', async (_what, source, message) => {
  const workspace = await clone(source());
  expect(workspace).toMatchObject({
    status: 'failed',
    error: { code: 'invalid_state', message: expect.stringMatching(message) },
  });
  expect(await operationOf(workspace.id)).toMatchObject({ status: 'failed', error: { code: 'invalid_state' } });
  expect(JSON.stringify(workspace.error)).not.toContain(scene.home.data);
  expect(trees()).toEqual([]);
});

test.each([
  ['https://user:secret@example.org/x', 'source.url'],
  ['ext::sh -c id', 'source.url'],
  ['--upload-pack=id', 'source.url'],
  ['file:///nowhere/at/all', 'source.url'],
])('%s is refused and nothing is stored', async (bad, param) => {
  const { status, text, body } = await scene.call('POST', `/v1/projects/${project}/workspaces`, {
    source: { type: 'git', url: bad },
  });
  expect({ status, error: body.error }).toMatchObject({ status: 400, error: { code: 'invalid_request', param } });
  expect(text).not.toContain('secret');
  expect(scene.app.db.all('SELECT id FROM workspaces')).toEqual([]);
});

test('ssh is called without the user’s configuration and without questions; removing the workspace ends it', async () => {
  const { id, operation, lines } = await begin();
  expect(lines).toHaveLength(1);
  expect(lines[0]).toMatch(/-F \/dev\/null .*BatchMode=yes .*git@example\.org git-upload-pack '\/thing\.git'$/);
  expect(isAlive(lines[0]!)).toBe(true);
  await scene.call('DELETE', `/v1/workspaces/${id}?after_seconds=0`);
  await until('ssh to end', () => !isAlive(lines[0]!));
  await until(
    'the workspace to be gone',
    async () => (await scene.call('GET', `/v1/workspaces/${id}`)).body.status === 'deleted',
  );
  expect((await scene.call('GET', `/v1/operations/${operation}`)).body.status).toBe('cancelled');
  expect(trees()).toEqual([]);
});

test('a removal that is taken back clones again', async () => {
  const { id, lines } = await begin();
  await scene.call('DELETE', `/v1/workspaces/${id}`);
  await until('ssh to end', () => !isAlive(lines[0]!));
  writeFileSync(join(home, 'gate'), '');
  expect((await scene.call('DELETE', `/v1/workspaces/${id}/deletion`)).status).toBe(200);
  await until('the clone', async () => (await scene.call('GET', `/v1/workspaces/${id}`)).body.status === 'ready');
  expect(readFileSync(join(scene.home.data, 'workspaces', id, 'readme'), 'utf8')).toBe('two\n');
  expect(trees()).toEqual([id]);
});

test('a daemon that is stopped in the middle ends git, and the next one begins again', async () => {
  const { id, operation, lines } = await begin();
  await scene.leave();
  await until('ssh to end', () => !isAlive(lines[0]!));
  expect(trees()).toEqual([]);
  writeFileSync(join(home, 'gate'), '');
  scene = await openApp({ folder: scene.home.home });
  await until(
    'the clone',
    async () => (await scene.call('GET', `/v1/operations/${operation}`)).body.status === 'succeeded',
  );
  expect((await scene.call('GET', `/v1/workspaces/${id}`)).body).toMatchObject({
    status: 'ready',
    git: { branch: 'main' },
  });
  expect(trees()).toEqual([id]);
});
