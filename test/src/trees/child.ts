import { openTrees, type Plan } from '../../../src/trees/trees.ts';
import {
  mkdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
  openSync,
  writeSync,
  appendFileSync,
} from 'node:fs';
import { join } from 'node:path';

/** What a child of the tests does: `node child.ts <what> <JSON>`. It writes `go` when it begins and `done` when it is. */
const [what, json = '{}'] = process.argv.slice(2);
const { store, root, cache, staging, tree_hash, outside } = JSON.parse(json) as Record<string, string>;

const say = (word: string) => writeSync(1, `${word}\n`);

async function work(): Promise<void> {
  const trees = openTrees(store!);
  const options = { cache: cache!, exclude: [], limits: { max_files: 1e6, max_bytes: 1e12 } };
  await trees.usage();
  if (what === 'snapshot') {
    say('go');
    say((await trees.snapshot(root!, options)).tree_hash);
  }
  if (what === 'restore') {
    const plan: Plan = await trees.plan(root!, tree_hash!, { ...options, paths: null });
    say('go');
    await trees.stage(root!, plan, staging!);
    await trees.apply(root!, staging!);
  }
  if (what === 'apply') {
    say('go');
    await trees.apply(root!, staging!);
  }
  if (what === 'collect') {
    say('go');
    await trees.collect([tree_hash!], { dry_run: false });
  }
  say('done');
}

/** Swaps a folder for a link that leads outside, and back, for ever. */
function swap(): void {
  const [folder, aside] = [join(root!, 'd'), join(root!, 'aside')];
  say('go');
  for (;;) {
    try {
      renameSync(folder, aside);
      symlinkSync(outside!, folder);
      unlinkSync(folder);
      renameSync(aside, folder);
    } catch {
      rmSync(folder, { force: true, recursive: true });
      mkdirSync(folder, { recursive: true });
      rmSync(aside, { recursive: true, force: true });
    }
  }
}

/** Changes files for ever: one by replacing it, one in place, one by adding to it. */
function change(): void {
  const descriptor = openSync(join(root!, 'in-place'), 'w');
  say('go');
  for (let n = 0; ; n = (n + 1) % 250) {
    const bytes = Buffer.alloc(200_000, n);
    writeFileSync(join(root!, '../new'), bytes);
    renameSync(join(root!, '../new'), join(root!, 'replaced'));
    if (what === 'replace') continue;
    writeSync(descriptor, bytes, 0, bytes.length, 0);
    if (n === 0) writeFileSync(join(root!, 'added-to'), '');
    appendFileSync(join(root!, 'added-to'), 'line\n');
  }
}

if (what === 'swap') swap();
else if (what === 'change' || what === 'replace') change();
else await work();
