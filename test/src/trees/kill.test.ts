import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { rest } from '../../../src/trees/trees.ts';
import { rounds, seed as freshSeed } from '../../kit/random.ts';
import { fromSource } from '../../kit/source.ts';
import { Ground, look, type Plant } from './forest.ts';

const kills = rounds({ short: 30, long: 300 }) / 3;
const seed = freshSeed();
let state = seed;
const random = (below: number) => {
  state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
  return Math.floor((state / 2 ** 32) * below);
};

const program = join(import.meta.dirname, 'child.ts');
const start = (what: string, question: object): ChildProcess => {
  const [node, ...args] = fromSource(program, what, JSON.stringify(question));
  return spawn(node, args, { stdio: ['ignore', 'pipe', 'inherit'] });
};

/** Kills a child somewhere between its beginning and `most` milliseconds later; answers how long it took when it was done before. */
async function kill(child: ChildProcess, most: number): Promise<number | null> {
  let said = '';
  let took: number | null = null;
  let began = 0;
  const ended = once(child, 'exit');
  await new Promise<void>((begun) =>
    child.stdout!.on('data', (bytes: Buffer) => {
      said += bytes.toString();
      began ||= performance.now();
      begun();
      if (said.includes('done')) took = performance.now() - began;
    }),
  );
  const until = (random(1000) / 1000) * most;
  await Promise.race([most === Infinity ? ended : sleep(until), ended]);
  child.kill('SIGKILL');
  await ended;
  return took;
}
/** How long one takes that is left alone. */
async function measure(child: ChildProcess): Promise<number> {
  return (await kill(child, Infinity))!;
}

const plants = (from: number, count: number): Plant[] =>
  Array.from({ length: count }, (_, n) => ({
    path: `${n % 11}/${n % 5}/${from + n}`,
    type: 'file',
    mode: n % 3 === 0 ? 0o755 : 0o644,
    bytes: Buffer.alloc(500 + random(20_000), `${from + n} ${random(1000)}`),
  }));

const mutate = (ground: Ground, round: number) => {
  for (let n = 0; n < 30; n++) {
    const file = join(ground.root, `${n % 11}/${n % 5}/${n}`);
    if (!existsSync(file)) writeFileSync(file, `new in ${round}`);
    else if ((round + n) % 7 === 0) rmSync(file);
    else appendFileSync(file, `round ${round} ${random(1e9)}`);
  }
  writeFileSync(join(ground.root, `large`), Buffer.alloc(3_000_000, `${random(1e9)}`));
};

/** Every tree that the store says it has can be verified, and comes back as it was where that is known. */
async function check(ground: Ground, known: Map<string, Map<string, string>>): Promise<void> {
  if (random(8) === 0) await rest();
  const folder = join(ground.store, 'trees');
  for (const tree of existsSync(folder) ? readdirSync(folder) : []) {
    expect({ tree, ...(await ground.trees.verify(tree)) }).toMatchObject({ tree, bad: [] });
    const was = known.get(tree);
    if (!was) continue;
    const fork = join(ground.folder, 'fork');
    await ground.trees.materialize(tree, fork);
    expect(look(fork)).toEqual(was);
    rmSync(fork, { recursive: true });
  }
}

test(`a snapshot that is killed leaves no tree that is wrong (AGENTCTL_SEED=${seed})`, async () => {
  using ground = new Ground(plants(0, 200));
  const known = new Map<string, Map<string, string>>();
  const most = await measure(start('snapshot', ground.places));
  let finished = 0;
  for (let round = 0; round < kills; round++) {
    mutate(ground, round);
    if (round % 4 === 0) rmSync(ground.cache, { force: true });
    if ((await kill(start('snapshot', ground.places), most)) !== null) finished += 1;
    const { tree_hash } = await ground.snapshot();
    known.clear();
    known.set(tree_hash, ground.look());
    await check(ground, known);
    expect(known.size).toBe(1);
    if (round % 10 === 9) await ground.trees.collect([tree_hash], { dry_run: false });
  }
  console.log(`${finished} of ${kills} snapshots were done before they were killed`);
}, 300_000);

test(`a restore that is killed is finished by applying again (AGENTCTL_SEED=${seed})`, async () => {
  using ground = new Ground(plants(0, 150));
  const [was, { tree_hash }] = [ground.look(), await ground.snapshot()];
  mutate(ground, 0);
  const most = await measure(start('restore', { ...ground.places, tree_hash }));
  let [finished, staged, half] = [0, 0, 0];
  for (let round = 0; round < kills; round++) {
    mutate(ground, round);
    for (let n = 0; n < 11; n++)
      if (n % 2 === round % 2) rmSync(join(ground.root, String(n)), { recursive: true, force: true });
    const now = ground.look();
    rmSync(ground.staging, { recursive: true, force: true });
    const isStaged = round % 2 === 0;
    if (isStaged) await ground.trees.stage(ground.root, await ground.plan(tree_hash), ground.staging);
    const child = start(isStaged ? 'apply' : 'restore', { ...ground.places, tree_hash });
    if ((await kill(child, isStaged ? most / 4 : most)) !== null) finished += 1;
    const after = JSON.stringify([...ground.look()]);
    const isWhole = existsSync(join(ground.staging, 'steps'));
    if (isWhole) staged += 1;
    if (after !== JSON.stringify([...now]) && after !== JSON.stringify([...was])) half += 1;
    // Without a whole stage nothing was begun.
    expect(isWhole || after === JSON.stringify([...now])).toBe(true);
    if (isWhole) await ground.trees.apply(ground.root, ground.staging);
    else await ground.restore(tree_hash);
    expect(ground.look()).toEqual(was);
  }
  console.log(
    `${finished} of ${kills} restores were done before they were killed, ${staged - finished} after staging, ${half} half way`,
  );
}, 300_000);

test(`collecting that is killed takes nothing that is kept (AGENTCTL_SEED=${seed})`, async () => {
  using ground = new Ground(plants(0, 150));
  const most = await measure(start('collect', { ...ground.places, tree_hash: (await ground.snapshot()).tree_hash }));
  for (let round = 0; round < kills / 2; round++) {
    await ground.snapshot();
    mutate(ground, round);
    const { tree_hash } = await ground.snapshot();
    const was = ground.look();
    await kill(start('collect', { ...ground.places, tree_hash }), most * 2);
    await check(ground, new Map([[tree_hash, was]]));
    await ground.restore(tree_hash);
    expect((await ground.snapshot()).tree_hash).toBe(tree_hash);
    await check(ground, new Map());
  }
}, 300_000);
