import { cpSync, existsSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openTrees } from '../../../src/trees/trees.ts';
import { Ground, type Plant } from './forest.ts';

const random = (() => {
  let state = Number(process.env.AGENTCTL_SEED ?? Math.floor(Math.random() * 2 ** 31));
  console.log(`AGENTCTL_SEED=${state}`);
  return (below: number) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
})();

const plants: Plant[] = Array.from({ length: 120 }, (_, n) => ({
  path: `${n % 9}/${n}`,
  type: 'file',
  mode: 0o644,
  bytes:
    n % 10 === 0 ? Buffer.from(Array.from({ length: 5000 }, () => random(256))) : Buffer.from(`text ${n} `.repeat(n)),
}));

test('a flipped bit anywhere in the store is found, and never comes back as data', async () => {
  using ground = new Ground(plants);
  const was = ground.look();
  const { tree_hash } = await ground.snapshot();
  const folder = join(ground.store, 'packs');
  const names = readdirSync(folder);
  for (let n = 0; n < 150; n++) {
    const name = names[n % names.length]!;
    const good = readFileSync(join(folder, name));
    const bad = Buffer.from(good);
    bad[random(bad.length)]! ^= 1 << random(8);
    // The very beginning and end are always among those that are tried.
    if (n < 4) bad[n < 2 ? 0 : bad.length - 1]! ^= 128;
    const store = join(ground.folder, `damaged-${n}`);
    cpSync(ground.store, store, { recursive: true });
    writeFileSync(join(store, 'packs', name), bad);
    const trees = openTrees(store);
    const sum = await trees.verify(tree_hash);
    expect(sum.bad.length, `${name} ${n}`).toBeGreaterThan(0);
    const into = join(ground.folder, 'into');
    await expect(trees.materialize(tree_hash, into)).rejects.toMatchObject({ reason: 'damaged' });
    rmSync(into, { recursive: true, force: true });
    rmSync(store, { recursive: true });
  }
  expect(ground.look()).toEqual(was);
});

test('what is cut off or gone is found, and a new snapshot mends it', async () => {
  using ground = new Ground(plants);
  const { tree_hash } = await ground.snapshot();
  const folder = join(ground.store, 'packs');
  for (const suffix of ['.pack', '.index'])
    for (const cut of [true, false]) {
      const store = join(ground.folder, `cut${suffix}${String(cut)}`);
      cpSync(ground.store, store, { recursive: true });
      for (const name of readdirSync(folder).filter((one) => one.endsWith(suffix)))
        if (cut) truncateSync(join(store, 'packs', name), readFileSync(join(folder, name)).length - 1);
        else rmSync(join(store, 'packs', name));
      const trees = openTrees(store);
      expect((await trees.verify(tree_hash)).bad).not.toEqual([]);
      // Without the cache of the time when all was well everything is looked for, and what is missing is stored again.
      const mended = await trees.snapshot(ground.root, { ...ground.options, cache: join(store, 'cache') });
      expect(mended.tree_hash).toBe(tree_hash);
      expect((await trees.verify(tree_hash)).bad).toEqual([]);
      expect(existsSync(join(store, 'trees', tree_hash))).toBe(true);
    }
});
