import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { TreeError } from '../../../src/trees/failure.ts';
import { Ground, plant } from './forest.ts';

const program = join(import.meta.dirname, 'child.ts');

/** Something that goes on beside; it is over when this is disposed. */
class Beside implements AsyncDisposable {
  readonly #child: ChildProcess;
  private constructor(child: ChildProcess) {
    this.#child = child;
  }

  static async start(what: string, question: object): Promise<Beside> {
    const child = spawn(process.execPath, [program, what, JSON.stringify(question)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    await once(child.stdout!, 'data');
    return new Beside(child);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await ended;
  }
}

const isChanged = (error: unknown) => error instanceof TreeError && ['changed', 'unusable'].includes(error.reason);

test('a link that is swapped in while a restore is applied leads nowhere', async () => {
  using ground = new Ground(
    Array.from({ length: 50 }, (_, n) => ({
      path: `d/e/${n}`,
      type: 'file',
      mode: 0o644,
      bytes: Buffer.from(`file ${n}`),
    })),
  );
  const { tree_hash } = await ground.snapshot();
  const outside = join(ground.folder, 'outside');
  plant(
    outside,
    Array.from({ length: 40 }, (_, n) => ({
      path: `e/${n * 2}`,
      type: 'file',
      mode: 0o600,
      bytes: Buffer.from('precious'),
    })),
  );
  const names = readdirSync(join(outside, 'e'));
  using before = new Ground();
  const was = await before.trees.snapshot(outside, before.options);
  let [done, refused] = [0, 0];
  for (let round = 0; round < 20; round++) {
    rmSync(join(ground.root, 'aside'), { recursive: true, force: true });
    rmSync(join(ground.root, 'd'), { recursive: true, force: true });
    if (round % 2 === 0)
      plant(
        ground.root,
        names.map((name) => ({ path: `d/e/x${name}`, type: 'file', mode: 0o600, bytes: Buffer.from('to go') })),
      );
    const plan = await ground.plan(tree_hash);
    await ground.trees.stage(ground.root, plan, ground.staging);
    mkdirSync(join(ground.root, 'd'), { recursive: true });
    await using _ = await Beside.start('swap', { ...ground.places, outside });
    try {
      await ground.trees.apply(ground.root, ground.staging);
      done += 1;
    } catch (error) {
      refused += 1;
      const code = (error as NodeJS.ErrnoException).code ?? '';
      if (!isChanged(error) && !['ENOENT', 'ENOTDIR', 'EEXIST', 'ENOTEMPTY'].includes(code)) throw error;
    }
  }
  console.log(`${done} done, ${refused} refused`);
  expect((await before.trees.snapshot(outside, before.options)).tree_hash).toBe(was.tree_hash);
});

test('a link that stands in for a folder is not written through, also without a race', async () => {
  using ground = new Ground([{ path: 'd/x', type: 'file', mode: 0o644, bytes: Buffer.from('x') }]);
  const { tree_hash } = await ground.snapshot();
  const outside = join(ground.folder, 'outside');
  mkdirSync(outside);
  writeFileSync(join(ground.root, 'd/x'), 'changed');
  const plan = await ground.plan(tree_hash);
  await ground.trees.stage(ground.root, plan, ground.staging);
  rmSync(join(ground.root, 'd'), { recursive: true });
  symlinkSync(outside, join(ground.root, 'd'));
  await expect(ground.trees.apply(ground.root, ground.staging)).rejects.toMatchObject({ reason: 'changed', path: 'd' });
  expect(readdirSync(outside)).toEqual([]);
  // A plan of now replaces the link.
  await ground.restore(tree_hash);
  expect(readdirSync(outside)).toEqual([]);
  expect((await ground.snapshot()).tree_hash).toBe(tree_hash);
});

test('a snapshot never reads through a link that is swapped in', async () => {
  using ground = new Ground(
    Array.from({ length: 60 }, (_, n) => ({ path: `d/${n}`, type: 'file', mode: 0o644, bytes: Buffer.from(`${n}`) })),
  );
  const outside = join(ground.folder, 'outside');
  plant(outside, [{ path: 'secret', type: 'file', mode: 0o600, bytes: Buffer.from('secret') }]);
  await using _ = await Beside.start('swap', { ...ground.places, outside });
  let taken = 0;
  for (let round = 0; round < 60; round++) {
    rmSync(ground.cache, { force: true });
    try {
      const { tree_hash } = await ground.snapshot();
      taken += 1;
      expect(
        (await ground.trees.entries(tree_hash)).filter(({ path, type }) => path.endsWith('secret') && type === 'file'),
      ).toEqual([]);
    } catch (error) {
      if (!isChanged(error)) throw error;
    }
  }
  console.log(`${taken} of 60 taken`);
});

test('a file that is replaced while it is read is one version or the other', async () => {
  using ground = new Ground([{ path: 'replaced', type: 'file', mode: 0o644, bytes: Buffer.alloc(200_000) }]);
  await using _ = await Beside.start('replace', ground.places);
  expect(await takeMixed(ground, 80, ['replaced'])).toEqual([]);
});

test('a file that is written in place while it is read is one version, or the snapshot fails and says which file', async () => {
  using ground = new Ground();
  await using _ = await Beside.start('change', ground.places);
  expect(await takeMixed(ground, 80, ['replaced', 'in-place'])).toEqual([]);
});

/** Takes snapshots and answers what was wrong with them: files that are not all of one byte, failures that are not `changed`. */
async function takeMixed(ground: Ground, rounds: number, names: string[]): Promise<string[]> {
  const wrong: string[] = [];
  let taken = 0;
  for (let round = 0; round < rounds; round++) {
    let tree_hash: string;
    try {
      ({ tree_hash } = await ground.snapshot());
    } catch (error) {
      const isNamed = error instanceof TreeError && ['replaced', 'in-place', 'added-to'].includes(error.path ?? '');
      if (!isNamed || error.reason !== 'changed') wrong.push(String(error));
      continue;
    }
    taken += 1;
    for (const { path, hash } of await ground.trees.entries(tree_hash)) {
      if (!names.includes(path) || hash === null) continue;
      const bytes = await ground.trees.open(hash);
      if (!bytes.every((one) => one === bytes[0])) wrong.push(`${path} is mixed in round ${round}`);
    }
  }
  console.log(`${taken} of ${rounds} taken`);
  return wrong;
}

test('a snapshot that is aborted stores nothing, and the next one is whole', async () => {
  using ground = new Ground(
    Array.from({ length: 400 }, (_, n) => ({
      path: `${n % 20}/${n}`,
      type: 'file',
      mode: 0o644,
      bytes: Buffer.alloc(20_000, `${n}`),
    })),
  );
  const controller = new AbortController();
  const snapshot = ground.trees.snapshot(ground.root, { ...ground.options, signal: controller.signal });
  setTimeout(() => controller.abort(new Error('no longer wanted')), 5);
  await expect(snapshot).rejects.toThrow('no longer wanted');
  expect(readdirSync(join(ground.store, 'packs'))).toEqual([]);
  const { tree_hash } = await ground.snapshot();
  expect((await ground.trees.verify(tree_hash)).bad).toEqual([]);
});
