import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
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
