import fc from 'fast-check';
import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  chmodSync,
  closeSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { toBytes } from '../../../src/trees/name.ts';
import { differences, forest, Ground, look, plant } from './forest.ts';
import { rounds } from '../../kit/random.ts';

const seed = Number(process.env.AGENTCTL_SEED ?? Math.floor(Math.random() * 1e9));
const long = rounds({ short: 60, long: 1_000 }, 'AGENTCTL_TREES');

test(`any tree comes back as it was, after anything was done to it (AGENTCTL_SEED=${seed})`, async () => {
  await fc.assert(
    fc.asyncProperty(forest, forest, fc.array(fc.nat()), async (first, second, doomed) => {
      using ground = new Ground(first);
      const was = ground.look();
      const { tree_hash, file_count } = await ground.snapshot();
      expect(file_count).toBe([...was.values()].filter((what) => !what.startsWith('folder')).length);
      const all = [...was.keys()];
      for (const one of all.length === 0 ? [] : doomed)
        rmSync(Buffer.from(`${ground.root}/${all[one % all.length]}`, 'latin1'), { recursive: true, force: true });
      plant(ground.root, second);
      const now = ground.look();
      const plan = await ground.plan(tree_hash);
      const shall = differences(now, was);
      expect({
        added: plan.added.map(toBytes),
        removed: plan.removed.map(toBytes),
        changed: plan.changed.map(toBytes),
      }).toEqual({
        added: expect.toSatisfy((list: string[]) => equal(list, shall.added)),
        removed: expect.toSatisfy((list: string[]) => equal(list, shall.removed)),
        changed: expect.toSatisfy((list: string[]) => equal(list, shall.changed)),
      });
      await ground.trees.stage(ground.root, plan, ground.staging);
      expect(ground.look()).toEqual(now);
      await ground.trees.apply(ground.root, ground.staging);
      expect(ground.look()).toEqual(was);
      await ground.trees.apply(ground.root, ground.staging);
      expect(ground.look()).toEqual(was);
      expect((await ground.snapshot()).tree_hash).toBe(tree_hash);
      expect((await ground.trees.verify(tree_hash)).bad).toEqual([]);
      expect(await fork(ground, tree_hash)).toEqual(was);
    }),
    { seed, numRuns: long },
  );
}, 300_000);

const equal = (one: string[], other: string[]) => JSON.stringify(one.toSorted()) === JSON.stringify(other.toSorted());

test.skipIf(process.getuid?.() === 0)(
  'a file that may not be read is refused by its name, and nothing is changed',
  async () => {
    using ground = new Ground([{ path: 'a/secret', type: 'file', mode: 0, bytes: Buffer.from('x') }]);
    const was = statSync(join(ground.root, 'a/secret'));
    await expect(ground.snapshot()).rejects.toMatchObject({ reason: 'unreadable', path: 'a/secret' });
    const is = statSync(join(ground.root, 'a/secret'));
    expect([is.mode, is.ctimeMs]).toEqual([was.mode, was.ctimeMs]);
  },
);

test('a part is restored and nothing else', async () => {
  using ground = new Ground();
  plant(
    ground.root,
    ['a/one', 'a/two', 'b/c/three', 'b/c/four', 'top'].map((path) => ({
      path,
      type: 'file',
      mode: 0o644,
      bytes: Buffer.from(path),
    })),
  );
  const { tree_hash } = await ground.snapshot();
  for (const path of ['a/one', 'a/two', 'top']) appendFileSync(join(ground.root, path), ' changed');
  writeFileSync(join(ground.root, 'a/new'), '');
  rmSync(join(ground.root, 'b'), { recursive: true });
  writeFileSync(join(ground.root, 'b'), 'a file now');
  const plan = await ground.restore(tree_hash, ['a/one', 'b/c/three', 'nowhere/x']);
  expect(plan).toMatchObject({ added: ['b/c', 'b/c/three'], changed: ['a/one', 'b'], removed: [] });
  expect([...ground.look().keys()]).toEqual(['a', 'a/new', 'a/one', 'a/two', 'b', 'b/c', 'b/c/three', 'top']);
  const folder = await ground.restore(tree_hash, ['a/']);
  expect(folder).toMatchObject({ added: [], changed: ['a/two'], removed: ['a/new'] });
});

test('nested repositories, hostile attributes, sparse and 25 MiB files, empty folders, and git’s own root folder is left alone', async () => {
  using ground = new Ground();
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@t', ...args], {
      cwd: join(ground.root, 'nested'),
      stdio: 'pipe',
    });
  mkdirSync(join(ground.root, 'nested/empty/er'), { recursive: true });
  writeFileSync(join(ground.root, '.gitattributes'), '* text eol=crlf ident filter=x working-tree-encoding=UTF-16\n');
  writeFileSync(join(ground.root, 'nested/file'), 'one\r\ntwo\n$Id$\n');
  git('init', '-q');
  git('add', '.');
  git('commit', '-qm', 'one');
  writeFileSync(join(ground.root, 'large'), Buffer.alloc(25 * 1_048_576, 'not so random, but long enough to matter '));
  const sparse = openSync(join(ground.root, 'sparse'), 'w');
  ftruncateSync(sparse, 64 * 1_048_576);
  closeSync(sparse);
  mkdirSync(join(ground.root, '.git'));
  writeFileSync(join(ground.root, '.git/HEAD'), 'ref: refs/heads/main\n');
  execFileSync('sh', ['-c', 'mkfifo "$0"', join(ground.root, 'pipe')]);

  const was = ground.look();
  const snapshot = await ground.snapshot();
  expect(snapshot.skipped).toBe(1);
  expect(snapshot.stored_bytes).toBeLessThan(1_000_000);
  rmSync(join(ground.root, 'nested'), { recursive: true });
  rmSync(join(ground.root, 'large'));
  rmSync(join(ground.root, 'sparse'));
  writeFileSync(join(ground.root, '.git/HEAD'), 'ref: refs/heads/other\n');
  await ground.restore(snapshot.tree_hash);
  expect(ground.look()).toEqual(was);
  expect(git('fsck', '--strict').toString()).toBe('');
  expect(git('status', '--porcelain').toString()).toBe('');
  expect(execFileSync('cat', [join(ground.root, '.git/HEAD')]).toString()).toBe('ref: refs/heads/other\n');
  expect(statSync(join(ground.root, 'sparse')).blocks).toBeLessThan(1000);
});

test('excluded folders are neither stored nor touched, except inside of a nested .git', async () => {
  using ground = new Ground();
  ground.exclude = ['node_modules', 'out/build'];
  const file = (path: string) => ({ path, type: 'file', mode: 0o644, bytes: Buffer.from(path) }) as const;
  plant(
    ground.root,
    ['node_modules/a', 'p/node_modules/b', 'p/x', 'out/build/c', 'build/d', 'n/.git/node_modules/e'].map(file),
  );
  const { tree_hash } = await ground.snapshot();
  const paths = (await ground.trees.entries(tree_hash)).filter(({ type }) => type === 'file').map(({ path }) => path);
  expect(paths).toEqual(['build/d', 'n/.git/node_modules/e', 'p/x']);
  plant(ground.root, ['q/node_modules/f', 'q/g'].map(file));
  rmSync(join(ground.root, 'p/x'));
  const plan = await ground.restore(tree_hash);
  expect(plan).toMatchObject({ added: ['p/x'], changed: [], removed: ['q/g'] });
  expect([...ground.look().keys()]).toContain('q/node_modules/f');
  expect([...ground.look().keys()]).toContain('p/node_modules/b');
});

test('a folder that has to become a file makes room with all that is in it', async () => {
  using ground = new Ground();
  ground.exclude = ['node_modules'];
  writeFileSync(join(ground.root, 'x'), 'a file');
  symlinkSync('x', join(ground.root, 'y'));
  const was = ground.look();
  const { tree_hash } = await ground.snapshot();
  rmSync(join(ground.root, 'x'));
  rmSync(join(ground.root, 'y'));
  plant(
    ground.root,
    ['x/node_modules/a', 'x/b', 'y/c'].map((path) => ({ path, type: 'file', mode: 0o600, bytes: Buffer.from('1') })),
  );
  const plan = await ground.restore(tree_hash);
  expect(plan).toMatchObject({ added: [], changed: ['x', 'y'], removed: ['x/b', 'x/node_modules', 'y/c'] });
  expect(ground.look()).toEqual(was);
});

test('trees that differ are compared, listed in pages, and their files opened', async () => {
  using ground = new Ground();
  plant(ground.root, [
    { path: 'a/b', type: 'file', mode: 0o644, bytes: Buffer.from('b') },
    { path: 'a.c', type: 'file', mode: 0o644, bytes: Buffer.from('c') },
    { path: 'caf\xe9', type: 'file', mode: 0o600, bytes: Buffer.from('not UTF-8') },
    { path: 'l', type: 'link', target: 'a' },
    { path: 'z/e', type: 'folder', mode: 0o755 },
  ]);
  const first = (await ground.snapshot()).tree_hash;
  const all = await ground.trees.entries(first);
  expect(all.map(({ path }) => path)).toEqual(['a', 'a/b', 'a.c', 'caf\udce9', 'l', 'z', 'z/e']);
  const paged: string[] = [];
  for (let after: string | undefined; ; after = paged.at(-1)!) {
    const page = await ground.trees.entries(first, { ...(after === undefined ? {} : { after }), limit: 2 });
    if (page.length === 0) break;
    paged.push(...page.map(({ path }) => path));
  }
  expect(paged).toEqual(all.map(({ path }) => path));
  expect((await ground.trees.open(all[3]!.hash!)).toString()).toBe('not UTF-8');

  writeFileSync(join(ground.root, 'a/b'), 'changed');
  chmodSync(join(ground.root, 'a.c'), 0o755);
  rmSync(join(ground.root, 'l'));
  rmSync(join(ground.root, 'z'), { recursive: true });
  mkdirSync(join(ground.root, 'l'));
  const second = (await ground.snapshot()).tree_hash;
  const diff = await ground.trees.diff(first, second);
  expect(diff.map(({ path, change, from, to }) => [path, change, from?.type, to?.type])).toEqual([
    ['a/b', 'modified', 'file', 'file'],
    ['a.c', 'modified', 'file', 'file'],
    ['l', 'modified', 'symlink', 'directory'],
    ['z', 'deleted', 'directory', undefined],
    ['z/e', 'deleted', 'directory', undefined],
  ]);
  expect((await ground.trees.diff(null, first)).every(({ change }) => change === 'added')).toBe(true);
  await expect(ground.trees.entries('0'.repeat(64))).rejects.toMatchObject({ reason: 'unknown_tree' });
});

test('limits refuse before anything is stored', async () => {
  using ground = new Ground();
  for (let n = 0; n < 20; n++) writeFileSync(join(ground.root, String(n)), Buffer.alloc(1000, n));
  const limited = (limits: { max_files: number; max_bytes: number }) =>
    ground.trees.snapshot(ground.root, { ...ground.options, limits });
  await expect(limited({ max_files: 19, max_bytes: 1e9 })).rejects.toMatchObject({
    reason: 'too_large',
    limit: { name: 'max_files', value: 19 },
  });
  await expect(limited({ max_files: 20, max_bytes: 19_999 })).rejects.toMatchObject({
    reason: 'too_large',
    limit: { name: 'max_bytes', seen: 20_000 },
  });
  expect(readdirSync(join(ground.store, 'packs'))).toEqual([]);
  await limited({ max_files: 20, max_bytes: 20_000 });
});

async function fork(ground: Ground, tree_hash: string): Promise<Map<string, string>> {
  const folder = join(ground.folder, 'fork');
  await ground.trees.materialize(tree_hash, folder);
  return look(folder);
}
