import { appendFileSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { Ground, plant, type Plant } from './forest.ts';

const noise = (seed: number, size: number) =>
  Buffer.from(Array.from({ length: size }, (_, n) => (Math.imul(n + seed * 977, 2_654_435_761) >>> 13) & 255));
const files = (from: number, to: number): Plant[] =>
  Array.from({ length: to - from }, (_, n) => ({
    path: `${(from + n) % 5}/${from + n}`,
    type: 'file',
    mode: 0o644,
    bytes: noise(from + n, 3000),
  }));

async function objectsOf(ground: Ground, trees: string[]): Promise<number> {
  using other = new Ground();
  for (const [n, tree] of trees.entries()) {
    await ground.trees.materialize(tree, join(other.folder, String(n)));
    await other.trees.snapshot(join(other.folder, String(n)), { ...other.options, cache: join(other.folder, `c${n}`) });
  }
  return (await other.trees.usage()).objects;
}

test('what no tree needs goes, exactly; all that is kept can be verified', async () => {
  using ground = new Ground(files(0, 40));
  const trees = [(await ground.snapshot()).tree_hash];
  for (let n = 1; n < 8; n++) {
    plant(ground.root, files(n * 40, n * 40 + 10));
    appendFileSync(join(ground.root, '0/0'), `more ${n}`);
    if (n === 4) for (let m = 0; m < 30; m++) rmSync(join(ground.root, `${m % 5}/${m}`));
    if (n === 4) writeFileSync(join(ground.root, '0/0'), 'again');
    trees.push((await ground.snapshot()).tree_hash);
  }
  for (const keep of [trees, trees.filter((_, n) => n % 2 === 1), [trees[1]!, trees[7]!], [trees[7]!], []]) {
    const before = await ground.trees.usage();
    const dry = await ground.trees.collect(keep, { dry_run: true });
    expect(await ground.trees.usage()).toEqual(before);
    const real = await ground.trees.collect(keep, { dry_run: false });
    expect(real).toEqual(dry);
    const after = await ground.trees.usage();
    expect(before.objects - after.objects).toBe(real.objects);
    expect(after.objects).toBe(await objectsOf(ground, keep));
    for (const tree of keep) expect((await ground.trees.verify(tree)).bad).toEqual([]);
    for (const tree of trees.filter((one) => !keep.includes(one)))
      await expect(ground.trees.verify(tree)).rejects.toMatchObject({ reason: 'unknown_tree' });
    expect(await ground.trees.collect(keep, { dry_run: false })).toEqual({ objects: 0, bytes: 0 });
  }
  expect(await ground.trees.usage()).toEqual({ bytes: 0, objects: 0, packs: 0 });
});

test('a tree that comes again after it was collected is stored again', async () => {
  using ground = new Ground(files(0, 30));
  const was = ground.look();
  const first = (await ground.snapshot()).tree_hash;
  writeFileSync(join(ground.root, '0/0'), 'other');
  const second = (await ground.snapshot()).tree_hash;
  await ground.trees.collect([second], { dry_run: false });
  writeFileSync(join(ground.root, '0/0'), noise(0, 3000));
  const again = await ground.snapshot();
  expect(again.tree_hash).toBe(first);
  expect((await ground.trees.verify(first)).bad).toEqual([]);
  await ground.restore(first);
  expect(ground.look()).toEqual(was);
});

test('many small packs become one; the remains of crashes go', async () => {
  using ground = new Ground(files(0, 5));
  const trees: string[] = [];
  for (let n = 0; n < 40; n++) {
    writeFileSync(join(ground.root, 'counter'), String(n));
    trees.push((await ground.snapshot()).tree_hash);
  }
  const folder = join(ground.store, 'packs');
  writeFileSync(join(folder, 'abc.pack'), 'AGPACK1\nhalf');
  writeFileSync(join(folder, 'abc.def.index.new'), 'half');
  await ground.trees.collect(trees, { dry_run: false });
  expect(readdirSync(folder)).toHaveLength(2);
  for (const tree of trees) expect((await ground.trees.verify(tree)).bad).toEqual([]);
});

test('a snapshot that goes on while one collects is not lost', async () => {
  using ground = new Ground(files(0, 200));
  const snapshot = ground.snapshot();
  const collected = ground.trees.collect([], { dry_run: false });
  const { tree_hash } = await snapshot;
  await collected;
  expect((await ground.trees.verify(tree_hash)).bad).toEqual([]);
});

test('nothing is removed when a kept tree is not whole', async () => {
  using ground = new Ground(files(0, 30));
  const { tree_hash } = await ground.snapshot();
  for (const name of readdirSync(join(ground.store, 'packs')))
    if (name.endsWith('.pack')) writeFileSync(join(ground.store, 'packs', name), 'gone');
  const before = readdirSync(join(ground.store, 'packs'));
  await expect(ground.trees.collect([tree_hash], { dry_run: false })).rejects.toMatchObject({ reason: 'damaged' });
  expect(readdirSync(join(ground.store, 'packs'))).toEqual(before);
});

test('an old index that a kill left beside the new one does not take the pack with it', async () => {
  using ground = new Ground(files(0, 40));
  const first = (await ground.snapshot()).tree_hash;
  rmSync(join(ground.root, '0/0'));
  const second = (await ground.snapshot()).tree_hash;
  const folder = join(ground.store, 'packs');
  const before = new Map(readdirSync(folder).map((name) => [name, readFileSync(join(folder, name))]));
  await ground.trees.collect([second], { dry_run: false });
  for (const [name, bytes] of before) if (name.endsWith('.index')) writeFileSync(join(folder, name), bytes);
  for (let n = 0; n < 2; n++) {
    await ground.trees.collect([second], { dry_run: false });
    expect((await ground.trees.verify(second)).bad).toEqual([]);
  }
  await expect(ground.trees.verify(first)).rejects.toMatchObject({ reason: 'unknown_tree' });
});
