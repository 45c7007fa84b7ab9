import { hash } from 'node:crypto';
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Artifact } from '../../src/api/artifacts.ts';
import { type Answer, openApp, type TestApp, until } from '../kit/app.ts';
import { createTestClock } from '../kit/clock.ts';
import { createProject, createRun, createWorkspace, ended, missingRun, untilRun, withMissingHarness } from './scene.ts';

const nowhere = '01900000-0000-7000-8000-000000000000';
const limits = { max_files: 5, max_file_megabytes: 30, max_megabytes: 40 };

let open: TestApp;
let project: string;
let workspace: string;
let root: string;
const outside = mkdtempSync(join(tmpdir(), 'agentctl-outside-'));

beforeAll(async () => {
  writeFileSync(join(outside, 'secret'), 'not yours');
  open = await openApp({ config: { artifacts: limits, ...withMissingHarness } });
  ({ id: project } = await createProject(open));
});
afterAll(async () => {
  await open.close();
  rmSync(outside, { recursive: true, force: true });
});
beforeEach(async () => {
  ({ id: workspace, path: root } = await createWorkspace(open, project));
});

const put = (path: string, text = path) => {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
};
const code = ({ status, body }: Answer) => [status, body?.error?.code];

/** A run of a script to its end; nothing is kept of the tree, unless asked for. */
const run = async (prompt: string, more: object = {}): Promise<string> => {
  const body = {
    workspace_id: workspace,
    harness: 'shell',
    prompt,
    checkpoint: { before: false, after: false },
    ...more,
  };
  const { run_id } = await createRun(open, body);
  await untilRun(open, run_id, ended);
  return run_id;
};
const artifactsOf = async (id: string): Promise<Artifact[]> =>
  (await open.call('GET', `/v1/runs/${id}/artifacts?limit=200`)).body.data.toReversed();
const filesOf = async (id: string) => (await artifactsOf(id)).filter(({ kind }) => kind === 'file');
const pathsOf = async (id: string) => (await filesOf(id)).map(({ path }) => path);
const download = async ({ id }: { id: string }, headers: Record<string, string> = {}) => {
  const { body } = await open.call('GET', `/v1/artifacts/${id}/download`);
  return open.call('GET', new URL(body.url).pathname, undefined, { authorization: '', ...headers });
};
const eventsOf = async (id: string) => (await open.call('GET', `/v1/runs/${id}/events?limit=1000`)).body.data;
const logOf = async (id: string): Promise<string[]> =>
  (await eventsOf(id)).flatMap(({ type, data }: { type: string; data: { text: string } }) =>
    type === 'log' ? [data.text] : [],
  );
const blobs = () => readdirSync(join(open.home.data, 'artifacts/blobs'));

describe('what a run leaves', () => {
  test('what its globs name, with everything there is to say about it', async () => {
    const id = await run(
      'mkdir -p out/deep .hidden node_modules/x; echo one > out/a.txt; echo two > out/deep/b.txt; echo 3 > .hidden/c.txt; echo 4 > node_modules/x/d.txt; echo 5 > e.md',
      { artifacts: ['**/*.txt', '*.md'] },
    );
    const files = await filesOf(id);
    expect(files.map(({ path }) => path)).toEqual(['e.md', 'out/a.txt', 'out/deep/b.txt']);
    expect(files[2]).toEqual({
      id: expect.any(String),
      organization_id: expect.any(String),
      created_at: expect.any(String),
      updated_at: expect.any(String),
      run_id: id,
      workspace_id: workspace,
      name: 'b.txt',
      path: 'out/deep/b.txt',
      kind: 'file',
      media_type: 'text/plain',
      size_bytes: 4,
      sha256: hash('sha256', 'two\n'),
    });
    expect((await open.call('GET', `/v1/runs/${id}`)).body.artifacts).toEqual(['**/*.txt', '*.md']);
    const events = await eventsOf(id);
    const all = await artifactsOf(id);
    expect(
      events.flatMap(({ type, data }: { type: string; data: object }) => (type === 'artifact.created' ? [data] : [])),
    ).toEqual(all);
    expect(events.at(-1).type).toBe('run.completed');
    expect((await open.call('GET', `/v1/runs/${id}/result`)).body.artifact_ids).toEqual(all.map((one) => one.id));
    expect(await pathsOf(await run('true', { artifacts: ['node_modules/*/d.txt', '.hidden/*'] }))).toEqual([
      '.hidden/c.txt',
      'node_modules/x/d.txt',
    ]);
  });

  test('what it put into $AGENTCTL_ARTIFACTS, whatever it is called, and the folder is gone afterwards', async () => {
    const id = await run(
      'cd "$AGENTCTL_ARTIFACTS" && mkdir -p sub/.deep && echo r > report.html && echo d > sub/.deep/.dot && pwd',
    );
    expect(await pathsOf(id)).toEqual(['report.html', 'sub/.deep/.dot']);
    expect(existsSync(join(open.home.data, 'runs', id, 'artifacts'))).toBe(false);
    expect(readdirSync(join(open.home.data, 'artifacts/staging'))).toEqual([]);
  });

  test('its diff, byte for byte, and its transcript', async () => {
    put('a.txt', 'old\n');
    const id = await run('echo new > a.txt; echo said', { checkpoint: {} });
    const [diff, transcript] = (await artifactsOf(id)) as [Artifact, Artifact];
    expect(diff).toMatchObject({ kind: 'diff', name: 'changes.diff', path: 'changes.diff', media_type: 'text/x-diff' });
    expect((await download(diff)).text).toBe((await open.call('GET', `/v1/runs/${id}/diff`)).text);
    expect(transcript).toMatchObject({ kind: 'transcript', name: 'transcript.jsonl', media_type: 'application/jsonl' });
    const lines = (await download(transcript)).text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(lines[0]).toMatchObject({
      type: 'prompt',
      run_id: id,
      harness: 'shell',
      data: { text: 'echo new > a.txt; echo said' },
    });
    const events = await eventsOf(id);
    const before = events.slice(
      0,
      events.findIndex(({ type }: { type: string }) => type === 'artifact.created'),
    );
    expect(lines.slice(1)).toEqual(before.filter(({ type }: { type: string }) => type !== 'usage.updated'));
  });

  test('all that a tool call printed, where events do not hold it', async () => {
    const id = await run('head -c 3000000 /dev/zero | tr "\\0" x');
    const [output] = await artifactsOf(id);
    expect(output).toMatchObject({
      kind: 'output',
      path: 'output/shell.log',
      name: 'shell.log',
      size_bytes: 3_000_000,
      media_type: 'text/plain',
    });
    expect(output!.sha256).toBe(hash('sha256', 'x'.repeat(3_000_000)));
    expect(existsSync(join(open.home.data, 'runs', id, 'output'))).toBe(false);
  });

  test('also when it failed or was cancelled, and not when it never began', async () => {
    const failed = await run('echo a > a.txt; exit 3', { artifacts: ['a.txt'] });
    expect((await open.call('GET', `/v1/runs/${failed}`)).body.status).toBe('failed');
    expect(await pathsOf(failed)).toEqual(['a.txt']);
    const { run_id } = await createRun(open, {
      workspace_id: workspace,
      harness: 'shell',
      prompt: 'echo > b.txt; sleep 60',
      artifacts: ['b.txt'],
    });
    await untilRun(open, run_id, ['running']);
    await open.call('POST', `/v1/runs/${run_id}/cancel`, {});
    expect((await untilRun(open, run_id, ended)).status).toBe('cancelled');
    expect((await eventsOf(run_id)).at(-1).type).toBe('run.cancelled');
    expect((await artifactsOf(run_id)).map(({ kind }) => kind)).toContain('transcript');
    const missing = (await createRun(open, { ...missingRun, workspace_id: workspace })).run_id;
    await untilRun(open, missing, ended);
    expect(await artifactsOf(missing)).toEqual([]);
  });
});

test('a run whose process vanished leaves what there is, once, however often the supervisor looks', async () => {
  for (let n = 0; n < 300; n++) put(`many/${n}`);
  const body = { workspace_id: workspace, harness: 'shell', prompt: 'echo a > a.txt; sleep 60', artifacts: ['a.txt'] };
  const { run_id } = await createRun(open, body);
  await untilRun(open, run_id, ['running']);
  await until('the file', () => existsSync(join(root, 'a.txt')));
  const { pid } = JSON.parse(readFileSync(join(open.home.data, 'runs', run_id, 'runner.json'), 'utf8')) as {
    pid: number;
  };
  const keeping = vi.spyOn(open.app.checkpoints, 'keep');
  process.kill(pid, 'SIGKILL');
  const lost = await untilRun(open, run_id, ended, () => open.app.supervisor.loop.wake());
  expect(lost.error.code).toBe('harness_lost');
  expect(keeping).toHaveBeenCalledTimes(1);
  keeping.mockRestore();
  const types = (await eventsOf(run_id)).map(({ type }: { type: string }) => type);
  expect(types.filter((type: string) => type === 'checkpoint.created')).toHaveLength(2);
  expect((await artifactsOf(run_id)).map(({ path }) => path)).toEqual(['a.txt', 'changes.diff', 'transcript.jsonl']);
  expect(types.at(-1)).toBe('run.failed');
});

test('where nothing can be kept at all, that is a line in the log, and the run ends as it would have', async () => {
  const staging = join(open.home.data, 'artifacts/staging');
  rmSync(staging, { recursive: true });
  writeFileSync(staging, 'in the way');
  try {
    const id = await run('echo fine');
    expect((await open.call('GET', `/v1/runs/${id}`)).body.status).toBe('completed');
    expect(await artifactsOf(id)).toEqual([]);
    expect(await logOf(id)).toEqual([expect.stringMatching(/^The artifacts of this run could not be kept/)]);
  } finally {
    rmSync(staging);
    mkdirSync(staging);
  }
});

describe('what cannot be kept is a line in the log, and the run is as it is', () => {
  test('links that lead out, pipes, what may not be read, globs that nothing matches', async () => {
    symlinkSync(join(outside, 'secret'), join(root, 'out.txt'));
    symlinkSync(outside, join(root, 'folder.txt'));
    put('real.txt', 'inside');
    symlinkSync('real.txt', join(root, 'in.txt'));
    execFileSync('mkfifo', [join(root, 'pipe.txt')]);
    const id = await run('true', { artifacts: ['*.txt', 'pipe.txt', 'folder.txt/secret', 'nothing/**'] });
    const files = await filesOf(id);
    expect(files.map(({ path, size_bytes }) => [path, size_bytes])).toEqual([
      ['in.txt', 6],
      ['real.txt', 6],
    ]);
    const log = (await logOf(id)).toSorted();
    expect(log).toEqual([
      expect.stringMatching(/^No file matches folder.txt\/secret/),
      expect.stringMatching(/^No file matches nothing\/\*\*/),
      expect.stringMatching(/^No file matches pipe.txt/),
      expect.stringMatching(/^folder.txt could not be kept as an artifact: .*leaves the workspace by a symbolic link/),
      expect.stringMatching(/^out.txt could not be kept as an artifact: .*leaves the workspace by a symbolic link/),
    ]);
    expect(log.join()).not.toContain(open.home.data);
    expect((await open.call('GET', `/v1/runs/${id}`)).body.status).toBe('completed');
  });

  test('links in $AGENTCTL_ARTIFACTS that lead out of it', async () => {
    const id = await run(
      `cd "$AGENTCTL_ARTIFACTS"; ln -s ${join(outside, 'secret')} a; ln -s ../spool b; ln -s ../../.. c; echo x > d`,
    );
    expect(await pathsOf(id)).toEqual(['d']);
    expect(await logOf(id)).toHaveLength(3);
    expect(existsSync(join(open.home.data, 'runs', id, 'artifacts'))).toBe(true);
  });

  test('too many files, and files that are too large, each with the setting that says so', async () => {
    for (let n = 0; n < 8; n++) put(`many/${n}.txt`);
    const many = await run('true', { artifacts: ['many/*'] });
    expect(await pathsOf(many)).toEqual([0, 1, 2, 3, 4].map((n) => `many/${n}.txt`));
    expect(await logOf(many)).toEqual(['3 more files were not kept as artifacts; artifacts.max_files is 5.']);
    for (const [name, mib] of [
      ['a', 31],
      ['b', 29],
      ['c', 12],
      ['d', 1],
    ] as const) {
      put(`large/${name}`, '');
      truncateSync(join(root, 'large', name), mib * 1_048_576);
    }
    const large = await run('true', { artifacts: ['large/*'] });
    expect(await pathsOf(large)).toEqual(['large/b', 'large/d']);
    expect(await logOf(large)).toEqual([
      'large/a is too large to be kept as an artifact; artifacts.max_file_megabytes is 30.',
      'large/c is too large to be kept as an artifact; artifacts.max_megabytes is 40.',
    ]);
  });

  test.each([['/etc/passwd'], ['../x'], ['a//b'], [''], ['x'.repeat(1025)], Array.from({ length: 33 }, () => 'a')])(
    'bad globs are refused before anything is accepted: %j',
    async (...artifacts) => {
      const body = { workspace_id: workspace, harness: 'shell', prompt: 'true', artifacts };
      const answer = await open.call('POST', '/v1/runs', body);
      expect(code(answer)).toEqual([400, 'invalid_request']);
      expect(answer.body.error.details.errors[0].path).toMatch(/^\/artifacts/);
    },
  );
});

describe('their bytes', () => {
  test('stay what they were, and equal ones are kept once', async () => {
    put('a.txt', 'the first');
    put('b.txt', 'the first');
    const id = await run('true', { artifacts: ['*.txt'] });
    const [a, b] = (await filesOf(id)) as [Artifact, Artifact];
    put('a.txt', 'another');
    rmSync(join(root, 'b.txt'));
    expect((await download(a)).text).toBe('the first');
    expect((await download(b)).text).toBe('the first');
    expect(a.sha256).toBe(b.sha256);
    expect(blobs().filter((name) => name === a.sha256)).toHaveLength(1);
  });

  test('come from an address of their own, with ranges, and active ones are only ever saved', async () => {
    const id = await run(
      'cd "$AGENTCTL_ARTIFACTS"; printf 0123456789 > "a b.txt"; printf "<script>" > page.html; : > empty',
    );
    const [text, empty, page] = (await filesOf(id)) as [Artifact, Artifact, Artifact];
    const whole = await download(text);
    expect(whole).toMatchObject({
      status: 200,
      text: '0123456789',
      headers: {
        'x-content-type-options': 'nosniff',
        etag: `"sha256-${text.sha256}"`,
        'content-disposition': 'inline; filename="a b.txt"',
        'content-length': '10',
      },
    });
    expect(await download(text, { range: 'bytes=2-4' })).toMatchObject({
      status: 206,
      text: '234',
      headers: { 'content-range': 'bytes 2-4/10' },
    });
    expect(await download(text, { range: 'bytes=-3' })).toMatchObject({ status: 206, text: '789' });
    expect((await download(text, { range: 'bytes=10-' })).status).toBe(416);
    expect((await download(text, { 'if-none-match': whole.headers.etag! })).status).toBe(304);
    expect((await download(page)).headers['content-disposition']).toBe('attachment; filename=page.html');
    expect(await download(empty)).toMatchObject({ status: 200, text: '' });
  });

  test('an address ends after five minutes, and is good for one artifact and for reading alone', async () => {
    const clock = createTestClock();
    const other = await openApp({ clock });
    try {
      const { id } = await createProject(other);
      const place = await createWorkspace(other, id);
      const { run_id } = await createRun(other, {
        workspace_id: place.id,
        harness: 'shell',
        prompt: 'echo x > x',
        artifacts: ['x'],
      });
      await untilRun(other, run_id, ended, () => clock.advance(100));
      const [artifact] = (await other.call('GET', `/v1/runs/${run_id}/artifacts`)).body.data;
      const { body } = await other.call('GET', `/v1/artifacts/${artifact.id}/download`);
      expect(Date.parse(body.expires_at) - clock.now()).toBe(300_000);
      const { pathname } = new URL(body.url);
      expect((await other.call('GET', pathname)).status).toBe(200);
      expect(code(await other.call('PUT', pathname, 'x', { 'content-type': 'application/octet-stream' }))).toEqual([
        404,
        'not_found',
      ]);
      expect(code(await other.call('GET', `${pathname}x`))).toEqual([404, 'not_found']);
      clock.advance(300_000);
      expect(code(await other.call('GET', pathname))).toEqual([404, 'not_found']);
    } finally {
      await other.close();
    }
  });

  test('go with the project', async () => {
    const { id } = await createProject(open);
    ({ id: workspace, path: root } = await createWorkspace(open, id));
    put('shared', 'shared by two projects');
    put('alone', 'of this one alone');
    const { id: keeper, path: other } = await createWorkspace(open, project);
    const gone = await run('true', { artifacts: ['*'] });
    const [alone, shared] = (await filesOf(gone)) as [Artifact, Artifact];
    writeFileSync(join(other, 'shared'), 'shared by two projects');
    workspace = keeper;
    const stays = await run('true', { artifacts: ['shared'] });
    const { body } = await open.call('GET', `/v1/artifacts/${alone.id}/download`);
    await open.call('DELETE', `/v1/projects/${id}`);
    await open.app.settle();
    await open.call('POST', `/v1/projects/${id}/deletion`, { after_seconds: 0 });
    await open.app.settle();
    expect(code(await open.call('GET', `/v1/artifacts/${alone.id}`))).toEqual([404, 'not_found']);
    expect(code(await open.call('GET', new URL(body.url).pathname))).toEqual([404, 'not_found']);
    expect(blobs()).not.toContain(alone.sha256);
    expect(blobs()).toContain(shared.sha256);
    expect((await download((await filesOf(stays))[0]!)).text).toBe('shared by two projects');
    expect(readdirSync(join(open.home.data, 'artifacts/staging'))).toEqual([]);
  });
});

test('what is not there is 404, and lists are pages, newest first', async () => {
  for (const url of [`/v1/runs/${nowhere}/artifacts`, `/v1/artifacts/${nowhere}`, `/v1/artifacts/${nowhere}/download`])
    expect(code(await open.call('GET', url))).toEqual([404, 'not_found']);
  const id = await run('cd "$AGENTCTL_ARTIFACTS"; for n in 1 2 3; do echo $n > $n; done');
  const seen: string[] = [];
  for (let cursor: string | null = ''; cursor !== null;) {
    const { body } = await open.call('GET', `/v1/runs/${id}/artifacts?limit=2${cursor && `&cursor=${cursor}`}`);
    seen.push(...body.data.map(({ name }: Artifact) => name));
    cursor = body.next_cursor;
  }
  expect(seen).toEqual(['transcript.jsonl', '3', '2', '1']);
});
