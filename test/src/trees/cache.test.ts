import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
  writeSync,
  closeSync,
  renameSync,
} from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { Ground, plant } from './forest.ts';

function garden(files = 300): Ground {
  const ground = new Ground();
  plant(
    ground.root,
    Array.from({ length: files }, (_, n) => ({
      path: `${n % 20}/${n % 7}/${n}`,
      type: 'file',
      mode: 0o644,
      bytes: Buffer.from(`file ${n}`),
    })),
  );
  return ground;
}

test('nothing is read of what did not change, and only folders above a change are stored again', async () => {
  using ground = garden();
  const first = await ground.snapshot();
  expect(first).toMatchObject({ file_count: 300, walked: 300, reused: 0, hashed: 300 });
  const second = await ground.snapshot();
  expect(second).toEqual({ ...first, reused: 300, hashed: 0, stored_bytes: 0 });
  writeFileSync(join(ground.root, '3/3/3'), 'other');
  const third = await ground.snapshot();
  expect(third).toMatchObject({ hashed: 1, reused: 299 });
  expect(third.stored_bytes).toBeLessThan(3000);
  expect((await ground.trees.diff(first.tree_hash, third.tree_hash)).map(({ path }) => path)).toEqual(['3/3/3']);
});

test('a change that keeps size and mtime is noticed', async () => {
  using ground = garden();
  const { tree_hash } = await ground.snapshot();
  const file = join(ground.root, '3/3/3');
  const { atime, mtime } = statSync(file);
  writeFileSync(file, 'FILE 3');
  utimesSync(file, atime, mtime);
  const second = await ground.snapshot();
  expect(second.tree_hash).not.toBe(tree_hash);
  expect(second.hashed).toBe(1);
});

test('a change in the same tick as the snapshot is noticed', async () => {
  using ground = garden(5);
  const file = join(ground.root, '3/3/3');
  for (let n = 0; n < 40; n++) {
    const descriptor = openSync(file, 'r+');
    writeSync(descriptor, `a${String(n).padStart(4)}.`, 0);
    const before = await ground.snapshot();
    writeSync(descriptor, `b${String(n).padStart(4)}.`, 0);
    closeSync(descriptor);
    const after = await ground.snapshot();
    expect(after.tree_hash).not.toBe(before.tree_hash);
  }
});

test('a name that comes, goes or changes in the same tick as the snapshot is noticed', async () => {
  using ground = garden(40);
  let last = (await ground.snapshot()).tree_hash;
  const seen = new Set([last]);
  for (let n = 0; n < 30; n++) {
    const folder = join(ground.root, `${n % 20}`);
    writeFileSync(join(folder, 'new'), '');
    const { tree_hash: made } = await ground.snapshot();
    renameSync(join(folder, 'new'), join(folder, `other`));
    const { tree_hash: renamed } = await ground.snapshot();
    rmSync(join(folder, 'other'));
    const { tree_hash: gone } = await ground.snapshot();
    expect(new Set([last, made, renamed]).size).toBe(3);
    expect(gone).toBe(last);
    last = gone;
    seen.add(made);
  }
  expect(seen.size).toBe(21);
});

test('a mode, a rename, a swap of two files of one size, and a folder that became a file are noticed', async () => {
  using ground = garden();
  const at = (path: string) => join(ground.root, path);
  const changes: (() => void)[] = [
    () => chmodSync(at('3/3/3'), 0o600),
    () => renameSync(at('3/3/3'), at('3/3/moved')),
    () => {
      renameSync(at('4/4/4'), at('4/4/x'));
      renameSync(at('5/5/5'), at('4/4/4'));
      renameSync(at('4/4/x'), at('5/5/5'));
    },
    () => {
      rmSync(at('6/6'), { recursive: true });
      writeFileSync(at('6/6'), '');
    },
    () => mkdirSync(at('empty')),
    () => rmSync(at('empty'), { recursive: true }),
  ];
  let last = (await ground.snapshot()).tree_hash;
  for (const change of changes) {
    change();
    const { tree_hash } = await ground.snapshot();
    expect(tree_hash).not.toBe(last);
    using other = new Ground();
    expect((await other.trees.snapshot(ground.root, other.options)).tree_hash).toBe(tree_hash);
    last = tree_hash;
  }
});

test('a lost, damaged or foreign cache costs a reading and nothing else', async () => {
  using ground = garden();
  const first = await ground.snapshot();
  const good = readFileSync(ground.cache);
  for (let n = 0; n < 60; n++) {
    const bad = Buffer.from(good);
    const at = Math.floor((n / 60) * good.length);
    bad[at]! ^= 1 << (n % 8);
    writeFileSync(ground.cache, bad);
    expect(await ground.snapshot()).toMatchObject({ tree_hash: first.tree_hash, hashed: 300, stored_bytes: 0 });
  }
  for (const size of [0, 7, 39, 40, good.length - 1]) {
    writeFileSync(ground.cache, good.subarray(0, size));
    expect((await ground.snapshot()).tree_hash).toBe(first.tree_hash);
  }
  using other = garden(100);
  await other.snapshot();
  copyFileSync(other.cache, ground.cache);
  expect((await ground.snapshot()).tree_hash).toBe(first.tree_hash);
  ground.exclude = ['3'];
  expect((await ground.snapshot()).file_count).toBeLessThan(300);
});

test('the cache of another store, or of one that was emptied, does not make a tree that has no contents', async () => {
  using ground = garden();
  const { tree_hash } = await ground.snapshot();
  using other = new Ground();
  const moved = await other.trees.snapshot(ground.root, { ...other.options, cache: ground.cache });
  expect(moved).toMatchObject({ tree_hash, hashed: 300 });
  expect((await other.trees.verify(tree_hash)).bad).toEqual([]);
  writeFileSync(join(ground.root, 'new'), 'new');
  await ground.trees.collect([], { dry_run: false });
  const again = await ground.snapshot();
  expect(again).toMatchObject({ hashed: 301 });
  expect((await ground.trees.verify(again.tree_hash)).bad).toEqual([]);
});

test('equal contents are stored once, in one snapshot and over all of a project', async () => {
  using ground = new Ground();
  const bytes = Buffer.from(Array.from({ length: 200_000 }, (_, n) => (n * 7919 * (n % 251)) & 255));
  plant(
    ground.root,
    ['a', 'b', 'c/d'].map((path) => ({ path, type: 'file', mode: 0o644, bytes })),
  );
  const one = await ground.snapshot();
  expect(one.stored_bytes).toBeLessThan(220_000);
  using other = new Ground();
  plant(other.root, [{ path: 'elsewhere', type: 'file', mode: 0o600, bytes }]);
  const two = await ground.trees.snapshot(other.root, other.options);
  expect(two.stored_bytes).toBeLessThan(2000);
});
