import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir, totalmem } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { type Line, line, say, table } from './measure.ts';
import { type Bench, disposeAll } from './place.ts';

/** A figure: measures and answers its lines. */
export type Figure = (bench: Bench) => Promise<Line[]>;

const figures: Record<string, () => Promise<{ default: Figure }>> = {
  p1: () => import('./p1-ingest.ts'),
  p2: () => import('./p2-live.ts'),
  p3: () => import('./p3-replay.ts'),
  p4: () => import('./p4-start.ts'),
  p5: () => import('./p5-http.ts'),
  p6: () => import('./p6-depth.ts'),
  p7: () => import('./p7-checkpoint.ts'),
  p8: () => import('./p8-cli.ts'),
  p9: () => import('./p9-memory.ts'),
  p10: () => import('./p10-cold.ts'),
  p11: () => import('./p11-delay.ts'),
};

/** Seconds after which a figure is given up. */
const patience = 900;

const root = resolve(import.meta.dirname, '..');

/** Builds the package into a folder of its own, so that a build by somebody else does not change what is being measured. */
function build(folder: string): void {
  execFileSync(join(root, 'node_modules/.bin/rolldown'), ['-c', '-d', join(folder, 'dist')], {
    cwd: root,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  for (const name of ['bin', 'package.json', 'src/schema'])
    cpSync(join(root, name), join(folder, name), { recursive: true });
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
}

async function limited(work: Promise<Line[]>): Promise<Line[]> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`It took longer than ${patience} s.`)), patience * 1000);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    only: { type: 'string' },
    json: { type: 'string' },
    rounds: { type: 'string' },
    profile: { type: 'string' },
  },
});
const wanted = values.only?.split(',').map((name) => name.trim().toLowerCase()) ?? Object.keys(figures);
const unknown = wanted.filter((name) => !(name in figures));
if (unknown.length > 0) {
  say(`There is no figure ${unknown.join(', ')}. There are: ${Object.keys(figures).join(', ')}.`);
  process.exit(2);
}

// As the daemon does: nothing that is made here is for others.
process.umask(0o077);
const folder = mkdtempSync(join(tmpdir(), 'agentctl-bench-package-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
build(folder);

for (const [name, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const)
  process.once(name, () => void disposeAll().then(() => process.exit(code)));

const bench: Bench = {
  quick: values.quick,
  rounds: Number(values.rounds ?? (values.quick ? 3 : 5)),
  package: folder,
  nodeArguments: values.profile ? ['--cpu-prof', `--cpu-prof-dir=${resolve(values.profile)}`] : [],
};
const lines: Line[] = [];
let complete = true;
const began = Date.now();
for (const name of wanted) {
  const from = Date.now();
  say(`${name} …`);
  try {
    const { default: measure } = await figures[name]!();
    lines.push(...(await limited(measure(bench))));
  } catch (error) {
    complete = false;
    await disposeAll();
    say(`${name} could not be measured: ${(error as Error).stack ?? String(error)}`);
    lines.push(line({ id: name.toUpperCase(), what: 'could not be measured', unit: '', product: Number.NaN }));
  }
  say(`${name}: ${((Date.now() - from) / 1000).toFixed(1)} s`);
}

const machine = `${cpus().length} × ${cpus()[0]?.model ?? 'unknown'}, ${Math.round(totalmem() / 2 ** 30)} GiB, Node ${process.versions.node}`;
const seconds = Math.round((Date.now() - began) / 1000);
process.stdout.write(`\n${table(lines)}\n\n${machine}; median of ${bench.rounds}; ${seconds} s\n`);
if (values.json) {
  const report = {
    at: new Date(began).toISOString(),
    machine,
    quick: bench.quick,
    rounds: bench.rounds,
    seconds,
    lines,
  };
  writeFileSync(values.json, `${JSON.stringify(report, null, 2)}\n`);
}
process.exit(complete ? 0 : 1);
