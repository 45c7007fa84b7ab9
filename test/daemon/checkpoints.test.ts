import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Answer, openApp, type TestApp } from '../kit/app.ts';
import { createGate, createProject, createRun, createWorkspace, ended, untilRun } from './scene.ts';

const nowhere = '01900000-0000-7000-8000-000000000000';

let open: TestApp;
let project: string;
let id: string;
let root: string;

beforeAll(async () => {
  open = await openApp({ config: { checkpoints: { max_files: 200 } } });
  ({ id: project } = await createProject(open));
});
afterAll(() => open.close());
beforeEach(async () => {
  ({ id, path: root } = await createWorkspace(open, project));
});

const put = (path: string, text = path) => {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
};
const text = (path: string) => readFileSync(join(root, path), 'utf8');
const names = () => readdirSync(root, { recursive: true, encoding: 'utf8' }).toSorted();
const code = ({ status, body }: Answer) => [status, body?.error?.code];
const settled = async (accepted: Answer) => {
  expect(accepted).toMatchObject({ status: 202 });
  return (await open.call('GET', `/v1/operations/${accepted.body.id}?wait=20`)).body;
};
const keep = async (body: object = {}) => {
  const operation = await settled(await open.call('POST', `/v1/workspaces/${id}/checkpoints`, body));
  return (await open.call('GET', `/v1/checkpoints/${operation.resource.id}`)).body;
};
const restore = (checkpoint_id: string, more: object = {}) =>
  open.call('POST', `/v1/workspaces/${id}/restore`, { checkpoint_id, ...more });
const restored = async (checkpoint_id: string, more: object = {}) => settled(await restore(checkpoint_id, more));
const workspace = async () => (await open.call('GET', `/v1/workspaces/${id}`)).body;
const list = async () => (await open.call('GET', `/v1/workspaces/${id}/checkpoints`)).body.data;

describe('making one', () => {
  test('it holds the whole tree, is verified, and is listed newest first', async () => {
    put('a.txt', 'one');
    put('deep/er/b.txt', 'two');
    const accepted = await open.call('POST', `/v1/workspaces/${id}/checkpoints`, {
      name: 'first',
      metadata: { a: 'b' },
    });
    expect(accepted).toMatchObject({
      status: 202,
      headers: { location: `/v1/operations/${accepted.body.id}` },
      body: { type: 'checkpoint.create', resource: { type: 'checkpoint' } },
    });
    const operation = await settled(accepted);
    expect(operation).toMatchObject({ status: 'succeeded', error: null });
    const { body: first } = await open.call('GET', `/v1/checkpoints/${operation.resource.id}`);
    expect(first).toMatchObject({
      workspace_id: id,
      name: 'first',
      status: 'verified',
      trigger: 'manual',
      run_id: null,
      parent_id: null,
      tree_hash: expect.stringMatching(/^[0-9a-f]{64}$/),
      file_count: 2,
      size_bytes: 6,
      verified_at: expect.any(String),
      metadata: { a: 'b' },
      error: null,
    });
    const second = await keep();
    expect(second).toMatchObject({ tree_hash: first.tree_hash, parent_id: first.id, stored_bytes: 0, name: null });
    expect((await list()).map((one: { id: string }) => one.id)).toEqual([second.id, first.id]);
  });

  test('a tree over a limit is refused with the setting that says so, and nothing is half there', async () => {
    for (let n = 0; n < 201; n++) put(`many/${n}`);
    const operation = await settled(await open.call('POST', `/v1/workspaces/${id}/checkpoints`, {}));
    expect(operation).toMatchObject({
      status: 'failed',
      error: { code: 'payload_too_large', details: { setting: 'checkpoints.max_files', limit: 200 } },
    });
    const [failed] = await list();
    expect(failed).toMatchObject({ status: 'failed', tree_hash: null, error: { code: 'payload_too_large' } });
    expect(code(await restore(failed.id))).toEqual([409, 'invalid_state']);
  });

  test('it says where the repository stood, as facts', async () => {
    expect((await keep()).git).toBeNull();
    execFileSync('git', ['init', '-q', '-b', 'work', root]);
    const { git, expires_at } = await keep();
    expect({ git, expires_at }).toEqual({ git: { head: null, branch: 'work' }, expires_at: null });
  });

  test('it can be removed', async () => {
    const { id: checkpoint } = await keep();
    const operation = await settled(await open.call('DELETE', `/v1/checkpoints/${checkpoint}`));
    expect(operation).toMatchObject({ type: 'checkpoint.delete', status: 'succeeded' });
    expect(code(await open.call('GET', `/v1/checkpoints/${checkpoint}`))).toEqual([404, 'not_found']);
    expect(code(await open.call('DELETE', `/v1/checkpoints/${checkpoint}`))).toEqual([404, 'not_found']);
    expect(code(await restore(checkpoint))).toEqual([404, 'not_found']);
    expect(await list()).toEqual([]);
  });
});

describe('restoring', () => {
  test('what was changed, added and removed is as it was, and that can be taken back, too', async () => {
    put('same.txt');
    put('changed.txt', 'before');
    put('gone/file.txt', 'here');
    put('run.sh', '#!/bin/sh');
    chmodSync(join(root, 'run.sh'), 0o755);
    symlinkSync('same.txt', join(root, 'link'));
    mkdirSync(join(root, 'empty'));
    put('node_modules/left/alone.js', 'old');
    const before = await keep();

    put('changed.txt', 'after');
    put('new.txt', 'new');
    rmSync(join(root, 'gone'), { recursive: true });
    rmSync(join(root, 'link'));
    rmSync(join(root, 'empty'), { recursive: true });
    chmodSync(join(root, 'run.sh'), 0o644);
    put('node_modules/left/alone.js', 'new');
    const later = names();
    const { revision } = await workspace();

    const dry = await restored(before.id, { dry_run: true });
    const plan = {
      added: ['empty', 'gone', 'gone/file.txt', 'link'],
      changed: ['changed.txt', 'run.sh'],
      removed: ['new.txt'],
    };
    expect(dry).toMatchObject({ type: 'workspace.restore', status: 'succeeded', result: { dry_run: true, ...plan } });
    expect(names()).toEqual(later);
    expect(await workspace()).toMatchObject({ status: 'ready', writer: null, revision });

    const done = await restored(before.id);
    expect(done).toMatchObject({
      status: 'succeeded',
      resource: { type: 'workspace', id },
      result: { checkpoint_id: before.id, dry_run: false, workspace_revision: revision + 1, ...plan },
    });
    expect(text('changed.txt')).toBe('before');
    expect(text('gone/file.txt')).toBe('here');
    expect(readlinkSync(join(root, 'link'))).toBe('same.txt');
    expect(lstatSync(join(root, 'run.sh')).mode & 0o777).toBe(0o755);
    expect(existsSync(join(root, 'new.txt'))).toBe(false);
    expect(existsSync(join(root, 'empty'))).toBe(true);
    expect(text('node_modules/left/alone.js')).toBe('new');
    expect(names().filter((name) => name.startsWith('.'))).toEqual([]);
    expect(await workspace()).toMatchObject({ status: 'ready', writer: null, revision: revision + 1 });

    const [taken] = await list();
    expect(taken).toMatchObject({
      id: done.result.before_restore_checkpoint_id,
      trigger: 'before_restore',
      status: 'verified',
      parent_id: before.id,
    });
    await restored(taken.id);
    expect(names()).toEqual(later);
    expect(text('changed.txt')).toBe('after');
  });

  test('only the paths that are named', async () => {
    put('a/one.txt', 'old');
    put('a/two.txt', 'old');
    put('b.txt', 'old');
    const { id: checkpoint } = await keep();
    for (const path of ['a/one.txt', 'a/two.txt', 'b.txt', 'a/new.txt']) put(path, 'new');
    expect(await restored(checkpoint, { paths: ['a/one.txt'] })).toMatchObject({ result: { changed: ['a/one.txt'] } });
    expect([text('a/one.txt'), text('a/two.txt'), text('b.txt')]).toEqual(['old', 'new', 'new']);
    await restored(checkpoint, { paths: ['a'] });
    expect([text('a/two.txt'), text('b.txt'), existsSync(join(root, 'a/new.txt'))]).toEqual(['old', 'new', false]);
  });

  test('git’s own folder stays as it is', async () => {
    put('.git/HEAD', 'ref: refs/heads/main');
    put('a.txt', 'old');
    const { id: checkpoint } = await keep();
    put('.git/HEAD', 'ref: refs/heads/other');
    put('a.txt', 'new');
    await restored(checkpoint);
    expect([text('.git/HEAD'), text('a.txt')]).toEqual(['ref: refs/heads/other', 'old']);
  });

  test('is refused while somebody writes, and nobody writes meanwhile', async () => {
    put('a.txt');
    const { id: checkpoint } = await keep();
    const gate = createGate();
    const { run_id } = await createRun(open, { workspace_id: id, harness: 'shell', prompt: gate.script });
    await untilRun(open, run_id, ['running']);
    const busy = await restore(checkpoint);
    expect(code(busy)).toEqual([409, 'workspace_busy']);
    expect(busy.body.error.details.writer).toMatchObject({ kind: 'run', id: run_id });
    gate.open();
    await untilRun(open, run_id, ended);
    gate.remove();
    const accepted = await restore(checkpoint);
    expect(code(await restore(checkpoint))).toEqual([409, 'workspace_busy']);
    expect(await settled(accepted)).toMatchObject({ status: 'succeeded' });
  });

  test('says what is wrong with the request', async () => {
    const { id: checkpoint } = await keep();
    expect(code(await restore(nowhere))).toEqual([404, 'not_found']);
    for (const path of ['../x', '/etc', 'a//b', '.', '', '.git', 'a/.GIT/config', 'a\0'])
      expect(code(await restore(checkpoint, { paths: [path] }))).toEqual([400, 'invalid_path']);
    expect(code(await restore(checkpoint, { paths: [] }))).toEqual([400, 'invalid_request']);
    const other = await createWorkspace(open, project);
    const foreign = await open.call('POST', `/v1/workspaces/${other.id}/restore`, { checkpoint_id: checkpoint });
    expect(code(foreign)).toEqual([404, 'not_found']);
    expect(await workspace()).toMatchObject({ status: 'ready', writer: null });
  });

  test('from a store that is damaged changes nothing and says so', async () => {
    put('a.txt', 'old');
    const { id: checkpoint, tree_hash } = await keep();
    put('a.txt', 'new');
    rmSync(join(open.home.data, 'trees', project, 'trees', tree_hash));
    expect(await restored(checkpoint)).toMatchObject({ status: 'failed', error: { code: 'invalid_state' } });
    expect(text('a.txt')).toBe('new');
    expect(await workspace()).toMatchObject({ status: 'ready', writer: null });
    expect((await open.call('GET', `/v1/checkpoints/${checkpoint}`)).body.status).toBe('corrupt');
  });
});

describe('around a run', () => {
  const run = async (prompt: string, more: object = {}) => {
    const { run_id } = await createRun(open, { workspace_id: id, harness: 'shell', prompt, ...more });
    return untilRun(open, run_id, ended);
  };
  const result = async (run_id: string) => (await open.call('GET', `/v1/runs/${run_id}/result`)).body;
  const events = async (run_id: string) => (await open.call('GET', `/v1/runs/${run_id}/events?limit=1000`)).body.data;
  const diff = (run_id: string) => open.call('GET', `/v1/runs/${run_id}/diff`);

  test('the tree is kept before and after; the run says so, with the lines that changed, and its diff', async () => {
    put('a.txt', 'one\ntwo\nthree\n');
    put('gone.txt', 'x\n');
    put('binary', '\0\0');
    const { id: run_id, checkpoint_ids } = await run(
      `sed -i s/two/2/ a.txt; rm gone.txt; echo new > new.txt; chmod +x new.txt; printf '\\0' > binary; ln -s a.txt link`,
    );
    expect(checkpoint_ids).toEqual({ before: expect.any(String), after: expect.any(String) });
    const [after, before] = await list();
    expect(before).toMatchObject({ id: checkpoint_ids.before, trigger: 'before_run', run_id, status: 'verified' });
    expect(after).toMatchObject({ id: checkpoint_ids.after, trigger: 'after_run', run_id, parent_id: before.id });
    const all = await events(run_id);
    const made = all.filter(({ type }: { type: string }) => type === 'checkpoint.created');
    expect(made.map(({ data }: { data: object }) => data)).toEqual([
      { checkpoint_id: before.id, trigger: 'before_run' },
      { checkpoint_id: after.id, trigger: 'after_run' },
    ]);
    expect(all.map(({ type }: { type: string }) => type).slice(0, 3)).toEqual([
      'run.queued',
      'checkpoint.created',
      'run.started',
    ]);
    expect(all.at(-1).type).toBe('run.completed');
    expect(await result(run_id)).toMatchObject({
      checkpoint_ids,
      changes: {
        files: [
          { path: 'a.txt', change: 'modified', additions: 1, deletions: 1 },
          { path: 'binary', change: 'modified', additions: null, deletions: null },
          { path: 'gone.txt', change: 'deleted', additions: 0, deletions: 1 },
          { path: 'link', change: 'added', additions: 1, deletions: 0 },
          { path: 'new.txt', change: 'added', additions: 1, deletions: 0 },
        ],
        additions: null,
        deletions: null,
      },
    });
    put('a.txt', 'something else later');
    const { status, headers, text: patch } = await diff(run_id);
    expect({ status, type: headers['content-type'] }).toEqual({ status: 200, type: 'text/x-diff; charset=utf-8' });
    expect(patch).toBe(
      [
        'diff --git a/a.txt b/a.txt',
        '--- a/a.txt',
        '+++ b/a.txt',
        '@@ -1,3 +1,3 @@',
        ' one',
        '-two',
        '+2',
        ' three',
        'diff --git a/binary b/binary',
        'Binary files a/binary and b/binary differ',
        'diff --git a/gone.txt b/gone.txt',
        'deleted file mode 100644',
        '--- a/gone.txt',
        '+++ /dev/null',
        '@@ -1,1 +0,0 @@',
        '-x',
        'diff --git a/link b/link',
        'new file mode 120000',
        '--- /dev/null',
        '+++ b/link',
        '@@ -0,0 +1,1 @@',
        '+a.txt',
        '\\ No newline at end of file',
        'diff --git a/new.txt b/new.txt',
        'new file mode 100755',
        '--- /dev/null',
        '+++ b/new.txt',
        '@@ -0,0 +1,1 @@',
        '+new',
        '',
      ].join('\n'),
    );
  });

  test('a run that is undone by its checkpoint leaves nothing behind', async () => {
    put('keep.txt', 'good');
    const { checkpoint_ids } = await run('rm -rf *; echo bad > bad.txt');
    expect(names()).toEqual(['bad.txt']);
    await restored(checkpoint_ids.before);
    expect(names()).toEqual(['keep.txt']);
    expect(text('keep.txt')).toBe('good');
  });

  test('each side can be left out; then there is no diff', async () => {
    const none = await run('true', { checkpoint: { before: false, after: false } });
    expect(none).toMatchObject({
      status: 'completed',
      checkpoint: { before: false, after: false },
      checkpoint_ids: { before: null, after: null },
    });
    const half = await run('true', { checkpoint: { after: false } });
    expect(half.checkpoint_ids).toEqual({ before: expect.any(String), after: null });
    expect(code(await diff(half.id))).toEqual([409, 'invalid_state']);
    expect(code(await diff(nowhere))).toEqual([404, 'not_found']);
    const later = await run('true', { checkpoint: { before: false } });
    expect(later.checkpoint_ids).toEqual({ before: null, after: expect.any(String) });
  });

  test('a tree that cannot be kept is said and fails nothing', async () => {
    for (let n = 0; n < 201; n++) put(`many/${n}`);
    const { id: run_id, status, checkpoint_ids } = await run('echo out');
    expect({ status, checkpoint_ids }).toEqual({ status: 'completed', checkpoint_ids: { before: null, after: null } });
    const logs = (await events(run_id)).filter(({ type }: { type: string }) => type === 'log');
    expect(logs).toHaveLength(2);
    expect(logs[0]).toMatchObject({
      data: { level: 'warn', stream: 'daemon', text: expect.stringContaining('checkpoints.max_files') },
    });
  });

  test('a cancelled and a lost run are kept, too', async () => {
    const gate = createGate();
    const { run_id } = await createRun(open, {
      workspace_id: id,
      harness: 'shell',
      prompt: `echo x > x; ${gate.script}`,
    });
    await untilRun(open, run_id, ['running']);
    await open.call('POST', `/v1/runs/${run_id}/cancel`, {});
    const cancelled = await untilRun(open, run_id, ended);
    expect(cancelled).toMatchObject({ status: 'cancelled', checkpoint_ids: { after: expect.any(String) } });
    const lost = await createRun(open, { workspace_id: id, harness: 'shell', prompt: `echo y > y; ${gate.script}` });
    await untilRun(open, lost.run_id, ['running']);
    const identity = join(open.home.data, 'runs', lost.run_id, 'runner.json');
    process.kill((JSON.parse(readFileSync(identity, 'utf8')) as { pid: number }).pid, 'SIGKILL');
    expect(await untilRun(open, lost.run_id, ended)).toMatchObject({
      error: { code: 'harness_lost' },
      checkpoint_ids: { before: expect.any(String), after: expect.any(String) },
    });
    gate.remove();
  });
});

describe('what differs', () => {
  const compare = (checkpoint: string, query = '', headers: Record<string, string> = {}) =>
    open.call('GET', `/v1/checkpoints/${checkpoint}/diff${query}`, undefined, headers);

  test('from a checkpoint to the files now, and to another checkpoint in both directions', async () => {
    put('same.txt');
    put('changed.txt', 'one\ntwo\n');
    put('gone.txt', 'x\n');
    const first = await keep();
    put('changed.txt', 'one\n2\n');
    rmSync(join(root, 'gone.txt'));
    put('new.sh', '#!/bin/sh\n');
    chmodSync(join(root, 'new.sh'), 0o755);
    const patch = [
      'diff --git a/changed.txt b/changed.txt',
      '--- a/changed.txt',
      '+++ b/changed.txt',
      '@@ -1,2 +1,2 @@',
      ' one',
      '-two',
      '+2',
      'diff --git a/gone.txt b/gone.txt',
      'deleted file mode 100644',
      '--- a/gone.txt',
      '+++ /dev/null',
      '@@ -1,1 +0,0 @@',
      '-x',
      'diff --git a/new.sh b/new.sh',
      'new file mode 100755',
      '--- /dev/null',
      '+++ b/new.sh',
      '@@ -0,0 +1,1 @@',
      '+#!/bin/sh',
      '',
    ].join('\n');
    const before = await workspace();
    const live = await compare(first.id);
    expect(live).toMatchObject({ status: 200, text: patch });
    expect(live.headers).toMatchObject({ 'content-type': 'text/x-diff; charset=utf-8', vary: 'Accept' });
    expect((await compare(first.id, '?against=workspace')).text).toBe(patch);
    expect([await workspace(), (await list()).length]).toEqual([before, 1]);

    const second = await keep();
    expect((await compare(first.id, `?against=${second.id.toUpperCase()}`)).text).toBe(patch);
    expect((await compare(second.id, `?against=${first.id}`)).text).toContain('-2\n+two\n');
    expect((await compare(second.id)).text).toBe('');
    for (const accept of ['application/json', 'text/plain;q=0.1, application/*', 'text/x-diff;q=0.5,application/json'])
      expect((await compare(first.id, '', { accept })).body).toEqual({
        checkpoint_id: first.id,
        against: 'workspace',
        files: [
          { path: 'changed.txt', change: 'modified', additions: 1, deletions: 1 },
          { path: 'gone.txt', change: 'deleted', additions: 0, deletions: 1 },
          { path: 'new.sh', change: 'added', additions: 1, deletions: 0 },
        ],
        additions: 2,
        deletions: 2,
        truncated: false,
      });
    for (const accept of ['*/*', 'text/*', 'text/x-diff, application/json;q=0.9'])
      expect((await compare(first.id, '', { accept })).text).toBe(patch);
  });

  test('git applies it, whatever the files are called', async () => {
    execFileSync('git', ['init', '-q', root]);
    const odd = ['plain.txt', 'a b.txt', 'tab\tand\nline', '"quoted"\\', 'ümlaut', '\u0001'];
    for (const name of odd) put(name, 'one\n');
    const raw = Buffer.concat([Buffer.from(`${root}/`), Buffer.from([0x63, 0xe9, 0xff])]);
    writeFileSync(raw, 'one\n');
    const first = await keep();
    for (const name of odd) put(name, 'two\n');
    writeFileSync(raw, 'two\n');
    put('ünew\n.txt', 'new\n');
    const { text: patch } = await compare(first.id);
    await restored(first.id);
    execFileSync('git', ['apply', '-'], { cwd: root, input: patch });
    expect(odd.map(text)).toEqual(odd.map(() => 'two\n'));
    expect([readFileSync(raw, 'utf8'), text('ünew\n.txt')]).toEqual(['two\n', 'new\n']);
    expect((await compare(first.id)).text).toBe(patch);
  });

  test('bad questions are refused', async () => {
    const { id: first } = await keep();
    expect(code(await compare(nowhere))).toEqual([404, 'not_found']);
    expect(code(await compare(first, `?against=${nowhere}`))).toEqual([404, 'not_found']);
    expect(code(await compare(first, '?against=now'))).toEqual([400, 'invalid_parameter']);
    const other = await createProject(open);
    const elsewhere = await createWorkspace(open, other.id);
    const { resource } = await settled(await open.call('POST', `/v1/workspaces/${elsewhere.id}/checkpoints`, {}));
    expect(code(await compare(first, `?against=${resource.id}`))).toEqual([400, 'invalid_parameter']);
    await open.call('DELETE', `/v1/workspaces/${id}?after_seconds=100`);
    expect(code(await compare(first))).toEqual([409, 'invalid_state']);
  });
});

describe('new workspaces', () => {
  test('one is forked from a checkpoint, and is its own from then on', async () => {
    put('a.txt', 'old');
    put('run.sh', '#!/bin/sh');
    chmodSync(join(root, 'run.sh'), 0o755);
    const { id: checkpoint_id } = await keep();
    put('a.txt', 'new');
    const fork = await createWorkspace(open, project, { source: { type: 'checkpoint', checkpoint_id } });
    expect(fork).toMatchObject({ status: 'ready', base_checkpoint_id: checkpoint_id });
    expect(readFileSync(join(fork.path, 'a.txt'), 'utf8')).toBe('old');
    expect(lstatSync(join(fork.path, 'run.sh')).mode & 0o777).toBe(0o755);
    writeFileSync(join(fork.path, 'a.txt'), 'mine');
    expect(text('a.txt')).toBe('new');
    await open.call('DELETE', `/v1/workspaces/${fork.id}?after_seconds=100`);
    await open.app.settle();
    await open.call('DELETE', `/v1/workspaces/${fork.id}/deletion`);
    await open.app.settle();
    expect(readFileSync(join(fork.path, 'a.txt'), 'utf8')).toBe('mine');
    const source = { type: 'checkpoint', checkpoint_id: nowhere };
    expect(code(await open.call('POST', `/v1/projects/${project}/workspaces`, { source }))).toEqual([404, 'not_found']);
  });

  test('one is a copy of a directory, which stays as it is', async () => {
    const path = mkdtempSync(join(tmpdir(), 'agentctl-copied-'));
    writeFileSync(join(path, 'a.txt'), 'one');
    mkdirSync(join(path, '.git'));
    symlinkSync('a.txt', join(path, 'link'));
    const copy = await createWorkspace(open, project, { source: { type: 'directory', path, mode: 'copy' } });
    expect(copy).toMatchObject({ status: 'ready' });
    expect(copy.path).not.toBe(path);
    writeFileSync(join(copy.path, 'a.txt'), 'two');
    expect(readFileSync(join(path, 'a.txt'), 'utf8')).toBe('one');
    expect(readlinkSync(join(copy.path, 'link'))).toBe('a.txt');
    expect(existsSync(join(copy.path, '.git'))).toBe(true);
    await open.call('DELETE', `/v1/workspaces/${copy.id}?after_seconds=0`);
    await open.app.settle();
    expect([existsSync(copy.path), existsSync(path)]).toEqual([false, true]);
    rmSync(path, { recursive: true });
  });
});
