import { execFileSync, spawnSync } from 'node:child_process';
import { appendFileSync, lstatSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { openTrees, type Trees } from '../src/trees/trees.ts';
import { grow } from './forest.ts';
import { type Line, line, now, say } from './measure.ts';
import { type Bench, Place } from './place.ts';

/** Milliseconds that this takes. */
async function time(work: () => unknown): Promise<number> {
  const began = now();
  await work();
  return now() - began;
}

const has = (program: string): boolean => spawnSync(program, ['version'], { stdio: 'ignore' }).error === undefined;

/** A walk that does nothing but look, and what to call it: in C where there is a compiler, else in this process. */
function walker(place: Place): { walk(root: string): void; called: string } {
  const program = place.at('walk');
  const made = spawnSync('gcc', ['-O2', '-o', program, join(import.meta.dirname, 'floors/walk.c')], {
    stdio: 'ignore',
  });
  if (made.status === 0) return { walk: (root) => void execFileSync(program, [root]), called: 'a bare walk in C' };
  say('  There is no gcc: the bare walk is node’s.');
  const walk = (folder: string): void => {
    for (const name of readdirSync(folder)) if (lstatSync(join(folder, name)).isDirectory()) walk(join(folder, name));
  };
  return { walk, called: 'a bare walk in node, as there is no gcc' };
}

/** One tree, with what is made of it, and git’s shadow repository for the same. */
class Subject {
  readonly #place: Place;
  readonly #name: string;
  readonly root: string;
  readonly paths: string[];
  trees: Trees;

  constructor(place: Place, count: number) {
    this.#place = place;
    this.#name = String(count);
    this.root = this.at('root');
    this.paths = grow(this.root, count);
    this.trees = openTrees(this.at('store'));
  }

  at(name: string): string {
    return this.#place.at(this.#name, name);
  }

  sync(): void {
    execFileSync('sync', ['-f', this.root]);
  }

  /** Nothing is stored yet, and what is being written is on the disk: it would be waited for otherwise. */
  async fresh(): Promise<void> {
    await this.trees.close();
    for (const name of ['store', 'cache', 'git', 'copy', 'fork', 'tar', 'restic'])
      rmSync(this.at(name), { recursive: true, force: true });
    this.trees = openTrees(this.at('store'));
    await this.trees.usage();
    this.git('init', '-q');
    for (const setting of ['core.autocrlf=false', 'gc.auto=0']) this.git('config', ...setting.split('='));
    this.sync();
  }

  git(...args: string[]): string {
    const env = this.#place.environment({
      GIT_DIR: this.at('git'),
      GIT_WORK_TREE: this.root,
      GIT_CONFIG_NOSYSTEM: '1',
    });
    return execFileSync('git', args, { env, cwd: this.root, maxBuffer: 1e9 }).toString().trim();
  }

  /** The tree as git’s objects. */
  gitTree(): string {
    this.git('add', '-A', '-f');
    return this.git('write-tree');
  }

  snapshot() {
    const options = { cache: this.at('cache'), exclude: [], limits: { max_files: 1e7, max_bytes: 1e12 } };
    return this.trees.snapshot(this.root, options);
  }

  change(round: number): void {
    const step = Math.floor(this.paths.length / 10);
    for (let n = 0; n < 10; n++) appendFileSync(join(this.root, this.paths[n * step]!), `// ${round}\n`);
  }

  run(program: string, ...args: string[]): void {
    execFileSync(program, args, {
      env: this.#place.environment({ RESTIC_PASSWORD: 'bench' }),
      stdio: ['ignore', 'ignore', 'pipe'],
    });
  }
}

type Times = Record<string, number[]>;

async function add(times: Times, name: string, work: () => unknown): Promise<void> {
  (times[name] ??= []).push(await time(work));
}

/** All from nothing and back: what takes long is done `rounds` times. */
async function whole(subject: Subject, rounds: number, times: Times): Promise<{ store: number; gitStore: number }> {
  let [store, gitStore] = [0, 0];
  for (let round = 0; round < rounds; round++) {
    await subject.fresh();
    const { root } = subject;
    const { trees } = subject;
    let tree_hash = '';
    let gitTree = '';
    const cold = [
      () => add(times, 'cold', async () => ({ tree_hash } = await subject.snapshot())),
      () => add(times, 'git cold', () => (gitTree = subject.gitTree())),
      () => add(times, 'cp', () => subject.run('cp', '-a', root, subject.at('copy'))),
    ];
    for (const step of round % 2 === 0 ? cold : cold.toReversed()) {
      await step();
      await add(times, 'sync', () => subject.sync());
    }
    await add(times, 'tar', () => subject.run('tar', '-C', root, '-I', 'zstd -1', '-cf', subject.at('tar'), '.'));
    store = (await trees.usage()).bytes;
    rmSync(subject.at('copy'), { recursive: true });
    mkdirSync(subject.at('copy'));
    subject.sync();
    const back = [
      () => add(times, 'restore', () => trees.materialize(tree_hash, subject.at('fork'))),
      () => add(times, 'cp back', () => subject.run('cp', '-a', `${root}/.`, subject.at('copy'))),
      () =>
        add(times, 'git restore', () => {
          mkdirSync(subject.at('checkout'));
          subject.git('read-tree', '--index-output', subject.at('git/other-index'), gitTree);
          subject.git(
            '--work-tree',
            subject.at('checkout'),
            'checkout-index',
            '-a',
            '-f',
            `--prefix=${subject.at('checkout')}/`,
          );
        }),
    ];
    for (const step of round % 2 === 0 ? back : back.toReversed()) {
      await step();
      await add(times, 'sync back', () => subject.sync());
    }
    if (round === 0) {
      subject.run('diff', '-r', '--no-dereference', root, subject.at('fork'));
      if ((await trees.verify(tree_hash)).bad.length > 0) throw new Error('The tree cannot be verified.');
    }
    if (round === rounds - 1) {
      const commit = subject.git('-c', 'user.name=b', '-c', 'user.email=b@b', 'commit-tree', '-m', 'all', gitTree);
      subject.git('update-ref', 'refs/heads/main', commit);
      subject.git('repack', '-adq');
      gitStore = Number(/size-pack: (\d+)/.exec(subject.git('count-objects', '-v'))![1]) * 1024;
    }
    for (const name of ['copy', 'fork', 'checkout', 'tar']) rmSync(subject.at(name), { recursive: true, force: true });
  }
  return { store, gitStore };
}

/** What is done all the time: nothing changed, and ten files changed. */
async function again(subject: Subject, rounds: number, walk: (root: string) => void, times: Times): Promise<void> {
  subject.sync();
  await subject.snapshot();
  subject.gitTree();
  for (let round = 0; round < rounds * 2; round++) {
    const steps = [
      () => add(times, 'unchanged', () => subject.snapshot()),
      () => add(times, 'git unchanged', () => subject.gitTree()),
      () => add(times, 'walk', () => walk(subject.root)),
    ];
    for (const step of round % 2 === 0 ? steps : steps.toReversed()) await step();
  }
  for (let round = 0; round < rounds; round++) {
    subject.change(round);
    // What was written within a twentieth of a second is read twice; that is no part of the usual case.
    await new Promise((resolve) => setTimeout(resolve, 150));
    const steps = [
      () => add(times, 'ten', () => subject.snapshot()),
      () => add(times, 'git ten', () => subject.gitTree()),
    ];
    for (const step of round % 2 === 0 ? steps : steps.toReversed()) await step();
  }
}

async function restic(subject: Subject, times: Times): Promise<void> {
  const repository = subject.at('restic');
  subject.run('restic', 'init', '-q', '-r', repository);
  await add(times, 'restic cold', () => subject.run('restic', 'backup', '-q', '-r', repository, subject.root));
  await add(times, 'restic unchanged', () => subject.run('restic', 'backup', '-q', '-r', repository, subject.root));
}

/** P7: checkpoints of large trees. */
export default async function checkpoint(bench: Bench): Promise<Line[]> {
  await using place = new Place();
  const { walk, called } = walker(place);
  const lines: Line[] = [];
  for (const count of bench.quick ? [20_000] : [20_000, 100_000]) {
    const subject = new Subject(place, count);
    say(
      `  ${count.toLocaleString('en-US')} files, ${execFileSync('du', ['-sm', '--apparent-size', subject.root]).toString().split('\t')[0]} MB`,
    );
    const times: Times = {};
    const { store, gitStore } = await whole(subject, count > 20_000 ? 1 : Math.min(3, bench.rounds), times);
    await again(subject, bench.rounds, walk, times);
    if (has('restic')) await restic(subject, times);
    const size = `${count / 1000}k files`;
    const row = (what: string, product: string, floor: string, most?: number) => {
      const goals = most === undefined ? [] : [{ of: 'ratio' as const, most }];
      if (times[product] && times[floor])
        lines.push(
          line({
            id: 'P7',
            what: `${size}, ${what}`,
            unit: 'ms',
            product: times[product]!,
            floor: times[floor],
            goals,
          }),
        );
    };
    row('cold | git add, write-tree', 'cold', 'git cold', 0.35);
    row('cold | cp -a, which forces nothing to the disk', 'cold', 'cp', 2);
    row('cold | tar and zstd -1', 'cold', 'tar');
    row('cold | restic', 'cold', 'restic cold');
    row('unchanged | git', 'unchanged', 'git unchanged', 0.5);
    row(`unchanged | ${called}`, 'unchanged', 'walk', 1.2);
    row('unchanged | restic', 'unchanged', 'restic unchanged');
    row('ten changed | git', 'ten', 'git ten', 0.5);
    row('restore, on the disk | cp -a, which forces nothing to the disk', 'restore', 'cp back', 1.2);
    row('restore, on the disk | git checkout-index', 'restore', 'git restore');
    lines.push(
      line({
        id: 'P7',
        what: `${size}, store | git repack`,
        unit: 'MB',
        product: store / 1e6,
        floor: gitStore / 1e6,
        goals: [{ of: 'ratio', most: 1 }],
      }),
    );
    await subject.trees.close();
    rmSync(place.at(String(count)), { recursive: true });
  }
  return lines;
}
