import { createHash, hash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Artifact } from '../../src/api/artifacts.ts';
import { until } from '../kit/app.ts';
import { createHome, type TestDaemon, type TestHome } from '../kit/daemon.ts';

const MiB = 1_048_576;
let home: TestHome;
let daemon: TestDaemon | undefined;

beforeAll(() => {
  home = createHome('[runs]\ngrace_seconds = 0.2\nwarm_runners = 0\n');
});
afterAll(async () => {
  daemon?.process.kill('SIGKILL');
  home.remove();
});

const at = (...names: string[]) => join(home.folder, 'data/artifacts', ...names);
let crashes = 0;

/** Does a request until it is answered, as a client would: the same key, again after a restart. */
const insist = async (method: string, path: string, body?: unknown) => {
  const key = `key-${Math.random()}`;
  for (;;) {
    try {
      return await daemon!.call(method, path, body, method === 'GET' ? {} : { 'idempotency-key': key });
    } catch {
      await until('the crash', () => daemon!.process.signalCode !== null);
      crashes += 1;
      delete home.env.AGENTCTL_CRASH_AT;
      daemon = await home.serve();
    }
  }
};
const follow = (what: string, path: string, good: (seen: any) => boolean): Promise<any> =>
  until(what, async () => {
    const seen = await insist('GET', path);
    return good(seen) && seen;
  });

/** A run in a project of its own, to its end. */
const run = async (body: object, prepare: (folder: string) => void = () => {}) => {
  const project = await insist('POST', '/v1/projects', { name: 'leaves' });
  const { resource } = await insist('POST', `/v1/projects/${project.id}/workspaces`, {});
  const { path } = await follow('the workspace', `/v1/workspaces/${resource.id}`, ({ status }) => status === 'ready');
  prepare(path);
  const { run_id } = await insist('POST', '/v1/runs', { workspace_id: resource.id, harness: 'shell', ...body });
  const ended = await follow('the end', `/v1/runs/${run_id}`, ({ finished_at }) => finished_at !== null);
  return { project, path, ended, run_id };
};

/** Where a daemon is killed while it copies what a run left, and while it lets go of it. */
const points = [
  'artifact:copied#3',
  'artifact:flushed',
  'artifact:committed',
  'artifact.purge:released',
  'artifact.purge:committed',
];

test(
  `a daemon that dies at any of ${points.length} points has all artifacts of a run, or goes on to have them, and none too much`,
  { timeout: 120_000 },
  async () => {
    const missed: string[] = [];
    for (const point of points) {
      home.env.AGENTCTL_CRASH_AT = point;
      const before = crashes;
      daemon = await home.serve();
      const { project, ended, run_id } = await run(
        { prompt: 'echo report > "$AGENTCTL_ARTIFACTS/report"; echo more > more.txt', artifacts: ['*.txt'] },
        (folder) => writeFileSync(join(folder, 'old.txt'), 'report\n'),
      );
      expect(ended.status).toBe('completed');
      const { data } = (await insist('GET', `/v1/runs/${run_id}/artifacts`)) as { data: Artifact[] };
      expect(data.map(({ path }) => path).toReversed()).toEqual([
        'report',
        'more.txt',
        'old.txt',
        'changes.diff',
        'transcript.jsonl',
      ]);
      for (const { sha256, size_bytes } of data) {
        const bytes = readFileSync(at('blobs', sha256));
        expect([bytes.length, hash('sha256', bytes)]).toEqual([size_bytes, sha256]);
      }
      expect(readdirSync(at('blobs')).toSorted()).toEqual([...new Set(data.map(({ sha256 }) => sha256))].toSorted());
      await until('the staging folder to be empty', () => readdirSync(at('staging')).length === 0);
      const { data: events } = await insist('GET', `/v1/runs/${run_id}/events?limit=1000`);
      expect(events.map(({ sequence }: { sequence: number }) => sequence)).toEqual(
        events.map((_: unknown, n: number) => n + 1),
      );
      const types: string[] = events.map(({ type }: { type: string }) => type);
      expect(types.filter((type) => type === 'artifact.created')).toHaveLength(5);
      expect(types.filter((type) => /^run\.(completed|failed|cancelled)$/.test(type))).toEqual([types.at(-1)]);

      await insist('DELETE', `/v1/projects/${project.id}`);
      await follow('the archive', `/v1/projects/${project.id}`, ({ status }) => status === 'archived');
      await insist('POST', `/v1/projects/${project.id}/deletion`, { after_seconds: 0 });
      await follow('the removal', `/v1/projects/${project.id}`, ({ error }) => error?.code === 'not_found');
      expect([readdirSync(at('blobs')), readdirSync(at('staging'))]).toEqual([[], []]);
      if (crashes === before) missed.push(point);
      await daemon.stop();
    }
    expect(missed).toEqual([]);
  },
);

test('files of 25 MiB pass through in pieces, whole, in the memory of a few', async () => {
  daemon = await home.serve();
  const memory = (what: string) =>
    Number(new RegExp(`${what}:\\s+(\\d+) kB`).exec(readFileSync(`/proc/${daemon!.pid}/status`, 'utf8'))![1]) / 1024;
  await run({ prompt: 'true' });
  const before = memory('VmRSS');
  const { run_id } = await run({
    prompt: `for n in 1 2 3 4; do head -c ${25 * MiB} /dev/zero | tr '\\0' $n > "$AGENTCTL_ARTIFACTS/$n"; done`,
  });
  const { data } = (await insist('GET', `/v1/runs/${run_id}/artifacts`)) as { data: Artifact[] };
  const copying = memory('VmHWM') - before;
  for (const name of ['1', '2', '3', '4']) {
    const { id, sha256, size_bytes } = data.find((one) => one.name === name)!;
    expect([size_bytes, sha256]).toEqual([25 * MiB, hash('sha256', Buffer.alloc(25 * MiB, name))]);
    const { url } = await insist('GET', `/v1/artifacts/${id}/download`);
    const sum = createHash('sha256');
    for await (const piece of (await fetch(url)).body!) sum.update(piece);
    expect(sum.digest('hex')).toBe(sha256);
  }
  const grown = memory('VmHWM') - before;
  console.info(`4 × 25 MiB: memory grew by ${copying.toFixed(1)} MiB in, and ${grown.toFixed(1)} MiB in and out`);
  expect(copying).toBeLessThan(25);
  expect(grown).toBeLessThan(100);
  await daemon.stop();
});

test('a run’s artifacts in the terminal: asked for, named at the end, listed, fetched', async () => {
  const cwd = join(home.folder, 'mine');
  mkdirSync(cwd);
  const cli = async (...args: string[]) => home.cli(args, { cwd });
  try {
    const script = 'echo one > a.txt; echo two > "$AGENTCTL_ARTIFACTS/two.html"; echo said';
    const ran = await cli('run', '--harness', 'shell', '--artifact', '*.txt', '--artifact', '*.zip', script);
    expect(ran).toMatchObject({ code: 0, stdout: 'said\n' });
    expect(ran.stderr).toContain('No file matches *.zip');
    expect(ran.stderr).toMatch(
      /^2 artifacts: two.html \(4 B\), a.txt \(4 B\) · agentctl artifacts get NAME -r [0-9a-f-]{13}$/m,
    );
    expect((await cli('artifacts', 'ls', '-o', 'name')).stdout).toBe(
      'transcript.jsonl\nchanges.diff\na.txt\ntwo.html\n',
    );
    expect((await cli('runs', 'artifacts', '@last', '--limit', '1', '-o', 'name')).stdout).toBe('transcript.jsonl\n');
    expect(await cli('artifacts', 'get', 'a.txt')).toMatchObject({ code: 7, stdout: '' });
    expect(await cli('artifacts', 'get', 'two.html')).toMatchObject({ code: 0, stderr: 'Wrote two.html, 4 B.\n' });
    expect(readFileSync(join(cwd, 'two.html'), 'utf8')).toBe('two\n');
    expect(await cli('artifacts', 'get', 'a.txt', '-o', '-')).toMatchObject({ code: 0, stdout: 'one\n' });
    expect(await cli('artifacts', 'get', 'b.txt')).toMatchObject({ code: 3 });
  } finally {
    await cli('down');
  }
});
