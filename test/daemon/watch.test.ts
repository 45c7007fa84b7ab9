import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openApp, type TestApp, until } from '../kit/app.ts';
import { createTestClock, type TestClock } from '../kit/clock.ts';
import { createGate, createProject, createRun, createWorkspace, ended, untilRun } from './scene.ts';

let scene: TestApp;
let clock: TestClock;
let project: string;
/** The user's own directory. */
let tree: string;
let id: string;

beforeEach(async () => {
  tree = mkdtempSync(join(realpathSync(tmpdir()), 'agentctl-watched-'));
  clock = createTestClock();
  await open();
});
afterEach(async () => {
  await scene.close();
  rmSync(tree, { recursive: true, force: true });
});

async function open() {
  scene = await openApp({ clock });
  ({ id: project } = await createProject(scene));
  const source = { type: 'directory', path: tree, mode: 'in_place' };
  ({ id } = await createWorkspace(scene, project, { source }));
}

const get = async () => (await scene.call('GET', `/v1/workspaces/${id}`)).body;
const revision = async (): Promise<number> => (await get()).revision;
const edit = (path: string, text: string): void => writeFileSync(join(tree, path), text);
/** Until the tree is followed: the test clock stands still, so nothing else is due. */
async function watched(mode = 'watching') {
  await get();
  await scene.app.settle();
  expect((await get()).watch.mode).toBe(mode);
}
/** Until the revision is reached; what happened before has been counted then, as events come in their order. */
const reaches = (wanted: number) =>
  until(`revision ${wanted}`, async () => {
    clock.advance(50);
    await scene.app.settle();
    return (await revision()) >= wanted;
  });
/** The revision after one more edit: one more than before, when what was done before it has been counted as `before` says. */
async function afterOneMore(before: number): Promise<number> {
  edit('closing', `${before} ${clock.now()}`);
  await reaches(before + 1);
  return revision();
}
const write = async (path: string, text: string, key: string) => {
  const url = `/v1/workspaces/${id}/file?path=${encodeURIComponent(path)}`;
  const { status, body } = await scene.call('PUT', url, text, {
    'content-type': 'application/octet-stream',
    'content-length': String(Buffer.byteLength(text)),
    'idempotency-key': key,
    'if-match': '"absent"',
  });
  expect({ status, body }).toMatchObject({ status: 202, body: { status: 'succeeded' } });
  return body.result.workspace_revision as number;
};
/** inotify watches of this process. */
const inotify = (): number =>
  readdirSync('/proc/self/fdinfo')
    .map((fd) => {
      try {
        return readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8').match(/^inotify wd/gm)?.length ?? 0;
      } catch {
        return 0;
      }
    })
    .reduce((sum, count) => sum + count, 0);

test('nobody watches a workspace until somebody looks into it, and ten minutes after that no more', async () => {
  mkdirSync(join(tree, 'a/b'), { recursive: true });
  await scene.app.settle();
  clock.advance(600_000);
  await scene.app.settle();
  await until('no watch at all', () => inotify() === 0);
  const { body } = await scene.call('GET', `/v1/projects/${project}/workspaces`);
  expect(body.data[0].watch).toEqual({ mode: 'off', reason: 'Nobody has looked into it lately.' });
  expect((await get()).watch).toEqual({ mode: 'starting', reason: null });
  await watched();
  expect(inotify()).toBe(3);
  clock.advance(599_999);
  await scene.app.settle();
  expect(inotify()).toBe(3);
  clock.advance(1);
  await scene.app.settle();
  await until('the watches to be given back', () => inotify() === 0);
});

const changes: Record<string, () => void> = {
  'a file changed': () => edit('file', 'two'),
  'a file made in a new folder': () => (mkdirSync(join(tree, 'new')), edit('new/file', 'x')),
  'an empty folder': () => mkdirSync(join(tree, 'empty')),
  'a mode': () => chmodSync(join(tree, 'file'), 0o755),
  'a link': () => symlinkSync('file', join(tree, 'link')),
  'a file put in the place of another, as editors save': () => (
    edit('.new', 'x'),
    renameSync(join(tree, '.new'), join(tree, 'file'))
  ),
  'three hundred files at once': () => Array.from({ length: 300 }, (_, n) => edit(`folder/${n}`, 'x')),
  'a folder renamed': () => renameSync(join(tree, 'folder'), join(tree, 'other')),
  'a file removed': () => unlinkSync(join(tree, 'file')),
  'a folder removed with all in it': () => rmSync(join(tree, 'other'), { recursive: true }),
};
test('a change by the user grows the revision by one, whatever it is', async () => {
  mkdirSync(join(tree, 'folder'));
  edit('folder/inside', 'x');
  edit('file', 'one');
  await watched();
  let expected = 0;
  for (const [what, change] of Object.entries(changes)) {
    change();
    await reaches((expected += 1));
    expected += 1;
    expect({ what, revision: await afterOneMore(expected - 1) }).toEqual({ what, revision: expected });
  }
});

test('writes through the API count once, also in new folders, and the user’s edit of the same file counts, too', async () => {
  await watched();
  expect(await write('made/for/it/file', 'one', 'k1')).toBe(1);
  expect(await write('other', 'one', 'k2')).toBe(2);
  expect(await afterOneMore(2)).toBe(3);
  edit('other', 'two');
  await reaches(4);
  expect(await afterOneMore(4)).toBe(5);
});

test('a write in the moment in which the tree is walked counts once', async () => {
  for (let n = 0; n < 2_000; n += 1) edit(`f${n}`, 'x');
  await get();
  expect(await write('file', 'one', 'k1')).toBe(1);
  await watched();
  expect(await afterOneMore(1)).toBe(2);
});

test('what a run changes is counted by the run, as its events say', async () => {
  await watched();
  const gate = createGate();
  const { run_id } = await createRun(scene, {
    workspace_id: id,
    harness: 'shell',
    prompt: `mkdir -p deep/er && echo 1 > deep/er/one && ${gate.script} && echo 2 > two && rm -r deep`,
  });
  const turn = () => clock.advance(25);
  await untilRun(scene, run_id, ['running'], turn);
  await until('the run to say its first change', async () => (turn(), (await revision()) === 1));
  gate.open();
  await untilRun(scene, run_id, ended, turn);
  gate.remove();
  const { body } = await scene.call('GET', `/v1/runs/${run_id}/events?limit=1000`);
  const changed = body.data.filter(({ type }: { type: string }) => type === 'file.changed');
  expect(changed.map(({ data }: { data: { workspace_revision: number } }) => data.workspace_revision)).toEqual([1, 2]);
  expect(await revision()).toBe(2);
  expect(await afterOneMore(2)).toBe(3);
});

test('a restore counts once', async () => {
  mkdirSync(join(tree, 'folder'));
  edit('folder/one', 'one');
  await watched();
  const made = await scene.call('POST', `/v1/workspaces/${id}/checkpoints`, {});
  await scene.app.settle();
  const checkpoint_id = made.body.resource.id;
  rmSync(join(tree, 'folder'), { recursive: true });
  edit('two', 'two');
  await reaches(1);
  const { body } = await scene.call('POST', `/v1/workspaces/${id}/restore`, { checkpoint_id });
  await until('the restore', async () => {
    clock.advance(25);
    await scene.app.settle();
    const { body: now } = await scene.call('GET', `/v1/operations/${body.id}`);
    return now.status === 'succeeded' && now.result.workspace_revision === 2;
  });
  expect(await afterOneMore(2)).toBe(3);
});

test('folders that can be built again and git’s own do not count and are not watched', async () => {
  for (const folder of ['node_modules/a/b', 'src/__pycache__', '.git/objects/aa', 'sub/.git/refs'])
    mkdirSync(join(tree, folder), { recursive: true });
  await watched();
  // The root, src and sub.
  expect(inotify()).toBe(3);
  for (const file of ['node_modules/a/b/c', 'src/__pycache__/x.pyc', '.git/index', 'sub/.git/HEAD']) edit(file, 'x');
  expect(await afterOneMore(0)).toBe(1);
});

test('what happened while nobody watched, or no daemon was there, counts as soon as somebody looks', async () => {
  edit('file', 'one');
  await watched();
  clock.advance(600_000);
  await scene.app.settle();
  edit('file', 'two');
  await get();
  await scene.app.settle();
  expect(await revision()).toBe(1);
  await scene.leave();
  edit('file', 'three');
  scene = await openApp({ clock, folder: scene.home.home });
  await watched();
  expect(await revision()).toBe(2);
  // What was written through the API while nobody watched is not counted again.
  clock.advance(600_000);
  await scene.app.settle();
  expect(await write('by-api', 'one', 'k1')).toBe(3);
  await watched();
  expect(await revision()).toBe(3);
});

test('a directory that vanishes and comes back is a change each time, and no crash', async () => {
  edit('file', 'one');
  await watched();
  renameSync(tree, `${tree}-away`);
  // The system says nothing of it: it is found when the tree is walked again.
  clock.advance(300_000);
  await reaches(1);
  await until(
    'to be scanned',
    async () => (clock.advance(1_000), await scene.app.settle(), (await get()).watch.mode === 'scanning'),
  );
  expect((await get()).watch.reason).toContain('cannot be read (ENOENT)');
  const gone = await revision();
  renameSync(`${tree}-away`, tree);
  await until(
    'to be watched',
    async () => (clock.advance(10_000), await scene.app.settle(), (await get()).watch.mode === 'watching'),
  );
  expect(await revision()).toBe(gone + 1);
  expect(await afterOneMore(gone + 1)).toBe(gone + 1 + 1);
});

test.runIf(process.getuid?.() !== 0)('a folder that nobody may read is no failure', async () => {
  mkdirSync(join(tree, 'locked'), { mode: 0o000 });
  await watched();
  expect(await afterOneMore(0)).toBe(1);
  chmodSync(join(tree, 'locked'), 0o700);
});

test('a large tree is looked through instead of watched: no inotify watches, little memory, and changes count all the same', async () => {
  await scene.app.settle();
  clock.advance(600_000);
  await scene.app.settle();
  await until('no watch at all', () => inotify() === 0);
  const files = Number(process.env.AGENTCTL_WATCHED_FILES ?? 20_500);
  for (let n = 0; n < files; n += 1) {
    if (n % 500 === 0) mkdirSync(join(tree, `d${n / 500}`));
    edit(`d${Math.floor(n / 500)}/${n}`, '');
  }
  const before = process.memoryUsage().rss;
  await watched('scanning');
  const grown = Math.round((process.memoryUsage().rss - before) / 1_048_576);
  if (process.env.AGENTCTL_WATCHED_FILES)
    console.log(`${files} files: ${grown} MiB more, ${inotify()} inotify watches`);
  expect((await get()).watch.reason).toContain('more than 20,000 files and folders');
  expect(inotify()).toBe(0);
  expect(grown).toBeLessThan(100);
  const first = await revision();
  // What is written through the API is known, and an edit is found by the next look.
  expect(await write('by-api', 'one', 'k1')).toBe(first + 1);
  const wait = () => clock.advance(10_000);
  wait();
  await scene.app.settle();
  expect(await revision()).toBe(first + 1);
  edit('d3/1501', 'changed');
  await until('the edit to be seen', async () => (wait(), await scene.app.settle(), (await revision()) === first + 2));
});
