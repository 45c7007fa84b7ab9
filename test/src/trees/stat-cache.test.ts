import fc from 'fast-check';
import {
  chmodSync,
  closeSync,
  copyFileSync,
  linkSync,
  lutimesSync,
  lstatSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { TreeError } from '../../../src/trees/failure.ts';
import { pause } from '../../../src/trees/tick.ts';
import { Ground } from './forest.ts';
import { rounds } from '../../kit/random.ts';

const seed = Number(process.env.AGENTCTL_SEED ?? Math.floor(Math.random() * 1e9));
const long = rounds({ short: 12, long: 200 }, 'AGENTCTL_TREES');

const name = fc.constantFrom('a', 'b', 'c');
const path = fc.oneof(
  { weight: 1, arbitrary: name },
  { weight: 3, arbitrary: fc.tuple(fc.constantFrom('x', 'y', 'x/z'), name).map((parts) => parts.join('/')) },
);
const folder = fc.constantFrom('x', 'y', 'x/z');

/** Whatever may be done between two looks; all contents have one size, so that only times and numbers tell them apart. */
const edit = fc.oneof(
  fc.record({ do: fc.constant('write' as const), path, text: fc.integer({ min: 100, max: 109 }) }),
  fc.record({ do: fc.constant('in place' as const), path, text: fc.integer({ min: 100, max: 109 }) }),
  fc.record({ do: fc.constant('replace' as const), path, text: fc.integer({ min: 100, max: 109 }) }),
  fc.record({ do: fc.constant('rename' as const), path, to: path }),
  fc.record({ do: fc.constant('swap' as const), path, to: path }),
  fc.record({ do: fc.constant('link' as const), path, to: path }),
  fc.record({ do: fc.constant('symlink' as const), path, to: name }),
  fc.record({ do: fc.constant('chmod' as const), path, mode: fc.constantFrom(0o600, 0o644, 0o755) }),
  fc.record({ do: fc.constant('remove' as const), path }),
  fc.record({ do: fc.constant('copy back' as const), path, to: path }),
  fc.record({ do: fc.constant('make folder' as const), folder }),
  fc.record({ do: fc.constant('swap folders' as const), folder, to: folder }),
  fc.record({ do: fc.constant('remove folder' as const), folder }),
  fc.record({ do: fc.constant('chmod folder' as const), folder, mode: fc.constantFrom(0o700, 0o755) }),
  fc.record({ do: fc.constant('pause' as const), ms: fc.integer({ min: 1, max: 14 }) }),
);
type Edit = typeof edit extends fc.Arbitrary<infer One> ? One : never;
/** With `hides`: the times of what was touched, and of its folder, are set back to what they were. */
const step = fc.record({ edit, hides: fc.boolean() });
const round = fc.record({ steps: fc.array(step, { maxLength: 3 }), beside: fc.array(step, { maxLength: 12 }) });

/** Does it, as far as what is there allows. */
function carryOut(root: string, one: Edit): void {
  const at = (to: string) => join(root, to);
  const over = (from: string, to: string) => renameSync(from, to);
  switch (one.do) {
    case 'write':
      return writeFileSync(at(one.path), String(one.text));
    case 'in place': {
      const descriptor = openSync(at(one.path), 'r+');
      try {
        writeSync(descriptor, String(one.text), 0);
      } finally {
        closeSync(descriptor);
      }
      return;
    }
    case 'replace':
      writeFileSync(join(root, '..', 'new'), String(one.text));
      return over(join(root, '..', 'new'), at(one.path));
    case 'rename':
      return over(at(one.path), at(one.to));
    case 'swap':
      over(at(one.path), join(root, '..', 'aside'));
      over(at(one.to), at(one.path));
      return over(join(root, '..', 'aside'), at(one.to));
    case 'link':
      rmSync(at(one.to), { force: true });
      return linkSync(at(one.path), at(one.to));
    case 'symlink':
      rmSync(at(one.path), { force: true });
      return symlinkSync(one.to, at(one.path));
    case 'chmod':
      return chmodSync(at(one.path), one.mode);
    case 'remove':
      return rmSync(at(one.path));
    case 'copy back': {
      const { atime, mtime } = lstatSync(at(one.to));
      copyFileSync(at(one.path), at(one.to));
      return utimesSync(at(one.to), atime, mtime);
    }
    case 'make folder':
      return void mkdirSync(at(one.folder), { recursive: true });
    case 'swap folders':
      over(at(one.folder), join(root, '..', 'aside'));
      over(at(one.to), at(one.folder));
      return over(join(root, '..', 'aside'), at(one.to));
    case 'remove folder':
      return rmSync(at(one.folder), { recursive: true });
    case 'chmod folder':
      return chmodSync(at(one.folder), one.mode);
    case 'pause':
      return pause(one.ms);
  }
}

const attempt = (act: () => void): void => {
  try {
    act();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === undefined) throw error;
  }
};

function edited(root: string, { edit: one, hides }: { edit: Edit; hides: boolean }): void {
  const paths = [
    ...new Set(
      (['path', 'to', 'folder'] as const)
        .flatMap((key) => (key in one ? [(one as unknown as Record<string, string>)[key]!] : []))
        .flatMap((to) => [to, dirname(to)])
        .map((to) => join(root, to)),
    ),
  ];
  const times = paths.map((to) => lstatSync(to, { throwIfNoEntry: false }));
  attempt(() => carryOut(root, one));
  // What a half-done swap left aside is no part of the tree.
  rmSync(join(root, '..', 'aside'), { recursive: true, force: true });
  if (hides)
    for (const [index, to] of paths.entries())
      if (times[index]) attempt(() => lutimesSync(to, times[index]!.atime, times[index]!.mtime));
}

test(`whatever was done, a look with the cache sees what one without it does (AGENTCTL_SEED=${seed})`, async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(round, { minLength: 1, maxLength: 6 }), async (rounds) => {
      using ground = new Ground();
      using other = new Ground();
      for (const to of ['x/z', 'y']) mkdirSync(join(ground.root, to), { recursive: true });
      for (const to of ['a', 'x/a', 'x/b', 'x/z/c', 'y/a']) writeFileSync(join(ground.root, to), '100');
      for (const { steps, beside } of rounds) {
        // Some of it is done while a look is taken: what that one missed the next one sees.
        const looked = ground.snapshot().catch((error: unknown) => {
          if (!(error instanceof TreeError && error.reason === 'changed')) throw error;
        });
        for (const one of beside) {
          await new Promise(setImmediate);
          edited(ground.root, one);
        }
        await looked;
        for (const one of steps) edited(ground.root, one);
        const { tree_hash } = await ground.snapshot();
        rmSync(other.cache, { force: true });
        const bare = await other.trees.snapshot(ground.root, other.options);
        expect(tree_hash).toBe(bare.tree_hash);
      }
    }),
    { seed, numRuns: long },
  );
}, 600_000);
