import { createHash, randomBytes } from 'node:crypto';
import {
  createReadStream,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createHome, type TestDaemon, type TestHome } from '../kit/daemon.ts';

const MiB = 1_048_576;
/** How often 24 MiB go in and out. */
const rounds = Number(process.env.AGENTCTL_ROUNDS ?? 4);
let home: TestHome;
let daemon: TestDaemon;
/** A directory of the user's, which is a workspace. */
let work: string;

beforeAll(async () => {
  home = createHome('[runs]\nwarm_runners = 0\n');
  daemon = await home.serve();
  work = join(home.folder, '..', `agentctl-work-${process.pid}-${Date.now()}`);
  mkdirSync(work);
  const project = await daemon.call('POST', '/v1/projects', { name: 'work' });
  await agentctl(['workspaces', 'new', project.id, '--directory', work]);
});
afterAll(async () => {
  await daemon.stop();
  home.remove();
  rmSync(work, { recursive: true, force: true });
});

const agentctl = (args: string[], input = '') => home.cli(args, { cwd: work, input });
const files = (args: string[], input = '') => agentctl(['files', ...args], input);
const onDisk = (path: string) => readFileSync(join(work, path), 'utf8');

test('put, cat, ls and rm: what a person does with files', async () => {
  expect(await files(['ls'])).toMatchObject({
    code: 0,
    stdout: '',
    stderr: expect.stringContaining('Nothing is here'),
  });
  expect(await files(['put', 'notes/a.txt'], 'from standard input\n')).toMatchObject({
    code: 0,
    stdout: '',
    stderr: expect.stringMatching(/^Wrote notes\/a\.txt, 20 B, ETag "sha256-/),
  });
  expect(onDisk('notes/a.txt')).toBe('from standard input\n');
  expect(await files(['cat', 'notes/a.txt'])).toEqual({ code: 0, stdout: 'from standard input\n', stderr: '' });
  writeFileSync(join(home.folder, 'local'), 'from a file');
  const { stdout } = await files(['put', 'b.sh', join(home.folder, 'local'), '--executable', '--json']);
  const operation = JSON.parse(stdout);
  expect(operation).toMatchObject({
    type: 'file.write',
    status: 'succeeded',
    result: { path: 'b.sh', size_bytes: 11 },
  });
  expect(statSync(join(work, 'b.sh')).mode & 0o111).not.toBe(0);

  const top = await files(['ls']);
  expect(top.stdout).toMatch(/^TYPE +SIZE +MODIFIED +PATH\nprogram +11 B +\S.* b\.sh\ndirectory +– +\S.* notes\/\n$/);
  expect((await files(['ls', '-R', '-q'])).stdout).toBe('b.sh\nnotes\nnotes/a.txt\n');
  expect((await files(['ls', 'notes', '-q'])).stdout).toBe('notes/a.txt\n');
  expect((await files(['ls', '--query', 'A.TXT', '-q'])).stdout).toBe('notes/a.txt\n');
  const listing = JSON.parse((await files(['ls', '--json'])).stdout);
  expect(Object.keys(listing)).toEqual(['workspace_id', 'revision', 'path', 'data', 'next_cursor']);

  const etag = operation.result.etag as string;
  expect(await files(['put', 'b.sh', '--if-match', '"sha256-0"'], 'x')).toMatchObject({
    code: 7,
    stderr: expect.stringContaining('files cat'),
  });
  expect((await files(['put', 'b.sh', '--if-match', etag], 'new')).code).toBe(0);
  expect(onDisk('b.sh')).toBe('new');
  expect((await files(['put', 'notes/new', '--if-match', '"absent"', '-q'], 'x')).stdout).toMatch(
    /^"sha256-[0-9a-f]{64}"\n$/,
  );
  expect(await files(['rm', 'b.sh'])).toMatchObject({ code: 2, stderr: expect.stringContaining('--yes') });
  expect(await files(['rm', 'b.sh', '-y'])).toMatchObject({ code: 0, stderr: expect.stringMatching(/^Deleted b\.sh/) });
  expect(existsSync(join(work, 'b.sh'))).toBe(false);

  expect(await files(['rm', 'b.sh', '-y'])).toMatchObject({ code: 3 });
  expect(await files(['cat', 'b.sh'])).toMatchObject({ code: 3, stdout: '' });
  expect(await files(['cat', '../x'])).toMatchObject({ code: 2, stdout: '' });
  expect(await files(['cat', '.git/config'])).toMatchObject({ code: 2 });
  expect(await home.cli(['files', 'ls'], { cwd: home.folder })).toMatchObject({
    code: 3,
    stderr: expect.stringContaining('-w'),
  });
  expect((await home.cli(['files', 'ls', '-w', listing.workspace_id, '-q'], { cwd: home.folder })).stdout).toBe(
    'notes\n',
  );
});

test('edit writes back what the editor left; a conflict keeps it and says where', async () => {
  const editor = join(home.folder, 'editor.sh');
  const edit = async (script: string, path: string) => {
    writeFileSync(editor, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
    home.env.EDITOR = `${editor} --flag`;
    return files(['edit', path]);
  };
  writeFileSync(join(work, 'edited.md'), 'one\n');
  expect(await edit('test "$1" = --flag && echo two >> "$2"', 'edited.md')).toMatchObject({
    code: 0,
    stderr: expect.stringContaining('Wrote edited.md'),
  });
  expect(onDisk('edited.md')).toBe('one\ntwo\n');
  expect(await edit('case "$2" in */edited.md) ;; *) exit 1;; esac', 'edited.md')).toMatchObject({
    code: 0,
    stderr: 'edited.md was not changed.\n',
  });
  expect((await edit('echo made > "$2"', 'fresh/made.md')).code).toBe(0);
  expect(onDisk('fresh/made.md')).toBe('made\n');
  expect(await edit('exit 3', 'edited.md')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('nothing was written'),
  });
  const conflict = await edit(`echo mine > "$2"; echo theirs > '${join(work, 'edited.md')}'`, 'edited.md');
  expect(conflict.code).toBe(7);
  expect(onDisk('edited.md')).toBe('theirs\n');
  const [, kept] = /kept in (\S+)/.exec(conflict.stderr)!;
  expect(readFileSync(kept!, 'utf8')).toBe('mine\n');
});

/** Bytes of the daemon's that are in memory. */
const resident = () => Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${daemon.pid}/status`, 'utf8'))![1]) * 1024;

test(
  '24 MiB go in staged and out streamed, byte for byte, and the daemon stays small',
  { timeout: 120_000 },
  async () => {
    const bytes = randomBytes(24 * MiB);
    const source = join(home.folder, 'large');
    writeFileSync(source, bytes);
    const sum = createHash('sha256').update(bytes).digest('hex');
    // The first of each loads what it needs: done with the smallest file that is staged.
    writeFileSync(join(home.folder, 'warm'), Buffer.alloc(4 * MiB + 1));
    await files(['put', 'warm', join(home.folder, 'warm')]);
    await files(['cat', 'warm']);
    const before = resident();
    let peak = before;
    const watch = setInterval(() => (peak = Math.max(peak, resident())), 5);
    for (let round = 0; round < rounds; round++) {
      const put = await files(['put', `large/${round}.bin`, source]);
      expect(put).toMatchObject({ code: 0, stderr: expect.stringContaining('uploaded 24.0 MiB of 24.0 MiB') });
      const out = createHash('sha256');
      for await (const piece of createReadStream(join(work, `large/${round}.bin`))) out.update(piece as Buffer);
      expect(out.digest('hex')).toBe(sum);
    }
    const { data } = await daemon.call('GET', '/v1/operations?type=file.write&limit=1');
    const workspace = data[0].resource.id as string;
    const headers = { authorization: `Bearer ${home.token()}` };
    for (let round = 0; round < rounds; round++) {
      const answer = await fetch(
        `${daemon.url}/v1/workspaces/${workspace}/file?path=large/${round}.bin&download=true`,
        { headers },
      );
      expect(answer.redirected).toBe(true);
      const out = createHash('sha256');
      for await (const piece of answer.body!) out.update(piece);
      expect(out.digest('hex')).toBe(sum);
    }
    clearInterval(watch);
    expect(readFileSync(join(home.folder, 'state/daemon.log'), 'utf8')).not.toContain('private/');
    console.info(
      `VmRSS ${(before / MiB).toFixed(1)} MiB before, ${(peak / MiB).toFixed(1)} MiB at most: grew by ${((peak - before) / MiB).toFixed(1)} MiB over ${rounds} × 24 MiB in and out`,
    );
    // Far more has gone through; what remains is the pace of the collector.
    expect(peak - before).toBeLessThan(64 * MiB);
    expect(readdirSync(join(home.folder, 'data/staging'))).toEqual([]);

    writeFileSync(join(home.folder, 'huge'), Buffer.alloc(25 * MiB + 1));
    expect(await files(['put', 'huge', join(home.folder, 'huge')])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('25.0 MiB'),
    });
  },
);
