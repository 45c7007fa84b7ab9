import { createHash } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type ErrorCode, failures, Fault } from '../../src/api/error.ts';
import { systemClock } from '../../src/base/clock.ts';
import { type Answer, openApp, type TestApp } from '../kit/app.ts';
import { createGate, createProject, createRun, createWorkspace, ended, untilRun, withMissingHarness } from './scene.ts';

const sha = (text: string | Buffer) => createHash('sha256').update(text).digest('hex');
const etagOf = (text: string) => `"sha256-${sha(text)}"`;
const octets = { 'content-type': 'application/octet-stream' };
const nowhere = '01900000-0000-7000-8000-000000000000';

let open: TestApp;
let project: string;
let id: string;
/** The workspace's folder. */
let root: string;
let keys = 0;
const key = () => ({ 'idempotency-key': `files-${++keys}` });

beforeAll(async () => {
  open = await openApp({ config: withMissingHarness });
  ({ id: project } = await createProject(open));
  ({ id, path: root } = await createWorkspace(open, project));
});
afterAll(() => open.close());

const file = (path: string, more = '') => `/v1/workspaces/${id}/file?path=${encodeURIComponent(path)}${more}`;
const read = (path: string, headers = {}, more = '') => open.call('GET', file(path, more), undefined, headers);
const write = (path: string, body: string, headers: Record<string, string> = { 'if-match': '*' }, more = '') =>
  open.call('PUT', file(path, more), body, { ...octets, ...key(), ...headers });
const remove = (path: string, headers: Record<string, string> = { 'if-match': '*' }) =>
  open.call('DELETE', file(path), undefined, { ...key(), ...headers });
const list = async (query = '') => (await open.call('GET', `/v1/workspaces/${id}/files?${query}`)).body;
const names = ({ data }: { data: { path: string }[] }) => data.map(({ path }) => path);
const revision = async () => (await open.call('GET', `/v1/workspaces/${id}`)).body.revision;
const put = (path: string, text = path) => {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
};
const code = ({ status, body }: Answer) => [status, body?.error?.code];

describe('write, read and delete', () => {
  test('a file is made with "absent", changed with its ETag, and gone with it; each change is one revision', async () => {
    const before = await revision();
    const absent = await read('notes/a.txt');
    expect(absent).toMatchObject({ status: 404, headers: { etag: '"absent"' } });
    const made = await write('notes/a.txt', 'one', { 'if-match': absent.headers.etag! });
    expect(made).toMatchObject({
      status: 202,
      headers: { location: `/v1/operations/${made.body.id}` },
      body: {
        type: 'file.write',
        status: 'succeeded',
        resource: { type: 'workspace', id },
        error: null,
        result: { path: 'notes/a.txt', etag: etagOf('one'), size_bytes: 3, workspace_revision: before + 1 },
      },
    });
    const { headers, text } = await read('notes/a.txt');
    expect({ text, etag: headers.etag, type: headers['content-type'] }).toEqual({
      text: 'one',
      etag: etagOf('one'),
      type: 'application/octet-stream',
    });
    expect((await write('notes/a.txt', 'two', { 'if-match': headers.etag! })).body.result.etag).toBe(etagOf('two'));
    expect(code(await write('notes/a.txt', 'three', { 'if-match': headers.etag! }))).toEqual([412, 'etag_mismatch']);
    const gone = await remove('notes/a.txt', { 'if-match': etagOf('two') });
    expect(gone).toMatchObject({
      status: 202,
      body: { type: 'file.delete', status: 'succeeded', result: { etag: '"absent"', workspace_revision: before + 3 } },
    });
    expect(existsSync(join(root, 'notes/a.txt'))).toBe(false);
    expect(await revision()).toBe(before + 3);
    const { body: operation } = await open.call('GET', made.headers.location!);
    expect(operation).toEqual(made.body);
    const { body: listed } = await open.call('GET', `/v1/operations?type=file.write&resource_id=${id}`);
    expect(listed.data.map((one: { id: string }) => one.id)).toContain(made.body.id);
  });

  test('what changes nothing makes no revision, and says where things stand', async () => {
    await write('same.txt', 'same', { 'if-match': '"absent"' });
    const before = await revision();
    const again = await write('same.txt', 'same');
    expect(again.body).toMatchObject({
      status: 'succeeded',
      result: { etag: etagOf('same'), workspace_revision: before },
    });
    expect((await remove('never.txt', { 'if-match': '"absent"' })).body).toMatchObject({
      status: 'succeeded',
      result: { workspace_revision: before },
    });
    expect(await revision()).toBe(before);
  });

  test('a file keeps its mode; X-File-Executable sets the bit, which is a change', async () => {
    put('run.sh', 'echo');
    chmodSync(join(root, 'run.sh'), 0o640);
    const mode = () => statSync(join(root, 'run.sh')).mode & 0o777;
    await write('run.sh', 'echo 2');
    expect(mode()).toBe(0o640);
    const before = await revision();
    await write('run.sh', 'echo 2', { 'if-match': '*', 'x-file-executable': 'true' });
    expect(mode()).toBe(0o750);
    expect(await revision()).toBe(before + 1);
    await write('run.sh', 'echo 3');
    expect(mode()).toBe(0o750);
    expect((await list('path=')).data.find((entry: { name: string }) => entry.name === 'run.sh').executable).toBe(true);
    await write('run.sh', 'echo 3', { 'if-match': '*', 'x-file-executable': 'false' });
    expect(mode()).toBe(0o640);
    await write('fresh/run.sh', 'x', { 'if-match': '"absent"', 'x-file-executable': 'true' });
    expect(statSync(join(root, 'fresh/run.sh')).mode & 0o777).toBe(0o700);
  });

  test('nothing is left beside the file, and nothing in the staging folder', async () => {
    await write('alone/a', 'x', { 'if-match': '"absent"' });
    await write('alone/a', 'y', { 'if-match': '"wrong"' });
    await remove('alone/a', { 'if-match': '"wrong"' });
    expect(readdirSync(join(root, 'alone'))).toEqual(['a']);
    expect(readdirSync(join(open.home.data, 'staging'))).toEqual([]);
  });

  test('a link is followed inside: a write changes what it leads to, a delete takes the link', async () => {
    put('linked/target', 'one');
    symlinkSync('target', join(root, 'linked/link'));
    symlinkSync('new', join(root, 'linked/dangling'));
    expect((await read('linked/link')).text).toBe('one');
    await write('linked/link', 'two', { 'if-match': etagOf('one') });
    expect(readFileSync(join(root, 'linked/target'), 'utf8')).toBe('two');
    await write('linked/dangling', 'made', { 'if-match': '"absent"' });
    expect(readFileSync(join(root, 'linked/new'), 'utf8')).toBe('made');
    expect(code(await remove('linked/link', { 'if-match': etagOf('one') }))).toEqual([412, 'etag_mismatch']);
    await remove('linked/link', { 'if-match': etagOf('two') });
    expect(readdirSync(join(root, 'linked')).toSorted()).toEqual(['dangling', 'new', 'target']);
    symlinkSync('/nowhere', join(root, 'linked/out'));
    expect(code(await read('linked/out'))).toEqual([400, 'invalid_path']);
    expect((await remove('linked/out')).status).toBe(202);
    expect(existsSync(join(root, 'linked/out'))).toBe(false);
  });

  test('any bytes come back as they went in', async () => {
    const bytes = Buffer.from(Array.from({ length: 70_000 }, (_, n) => (n * 7) % 256));
    const headers = { authorization: `Bearer ${open.token}`, ...key(), 'if-match': '"absent"' };
    const url = `http://127.0.0.1:${open.port}${file('bytes.bin')}`;
    // A body without a type, as fetch sends it.
    expect((await fetch(url, { method: 'PUT', headers, body: bytes })).status).toBe(202);
    const back = Buffer.from(await (await fetch(url, { headers })).arrayBuffer());
    expect(back.equals(bytes)).toBe(true);
    expect((await write('empty', '', { 'if-match': '"absent"' })).body.result).toMatchObject({
      size_bytes: 0,
      etag: etagOf(''),
    });
    expect(await read('empty')).toMatchObject({
      status: 200,
      text: '',
      headers: { etag: etagOf(''), 'content-length': '0' },
    });
  });

  test('names of all kinds are the file’s own', async () => {
    for (const path of [
      'ä ö/ü.txt',
      'a\\b',
      '日本/語',
      '%2e%2e',
      'a+b&c=d#e',
      ' leading',
      'x\ny',
      '\u{1f600}',
      '-rf',
      '"quoted"',
      "it's",
      'e\u0301',
    ]) {
      expect({ path, status: (await write(path, path, { 'if-match': '"absent"' })).status }).toEqual({
        path,
        status: 202,
      });
      expect((await read(path)).text).toBe(path);
      expect(readFileSync(join(root, path), 'utf8')).toBe(path);
    }
  });

  test('a workspace on another file system than the daemon’s is written as well', async () => {
    if (!existsSync('/dev/shm') || statSync('/dev/shm').dev === statSync(open.home.data).dev) return;
    const path = mkdtempSync('/dev/shm/agentctl-files-');
    const other = await createWorkspace(open, project, { source: { type: 'directory', path, mode: 'in_place' } });
    const at = `/v1/workspaces/${other.id}/file?path=sub/a`;
    const headers = () => ({ ...octets, ...key() });
    expect((await open.call('PUT', at, 'one', { ...headers(), 'if-match': '"absent"' })).status).toBe(202);
    expect((await open.call('PUT', at, 'two', { ...headers(), 'if-match': etagOf('one') })).status).toBe(202);
    expect(readFileSync(join(path, 'sub/a'), 'utf8')).toBe('two');
    expect(readdirSync(join(path, 'sub'))).toEqual(['a']);
    rmSync(path, { recursive: true });
  });

  test('with a run at work writing waits its turn, and reading goes on', async () => {
    const busy = await createWorkspace(open, project);
    const gate = createGate();
    const run = await createRun(open, { workspace_id: busy.id, harness: 'shell', prompt: gate.script });
    await untilRun(open, run.run_id, ['running']);
    const at = `/v1/workspaces/${busy.id}/file?path=a`;
    for (const [method, body] of [
      ['PUT', 'x'],
      ['DELETE', undefined],
    ] as const) {
      const answer = await open.call(method, at, body, { ...(body ? octets : {}), ...key(), 'if-none-match': '*' });
      expect(answer).toMatchObject({
        status: 409,
        body: {
          error: { code: 'workspace_busy', retryable: true, details: { writer: { kind: 'run', id: run.run_id } } },
        },
      });
    }
    expect(code(await open.call('GET', at))).toEqual([404, 'not_found']);
    gate.open();
    await untilRun(open, run.run_id, ended);
    expect((await open.call('PUT', at, 'x', { ...octets, ...key(), 'if-none-match': '*' })).status).toBe(202);
    gate.remove();
  });
});

describe('idempotency', () => {
  test('the retry of a write that took effect is its first answer, and no 412', async () => {
    const headers = { ...octets, ...key(), 'if-match': '"absent"' };
    const first = await open.call('PUT', file('once'), 'x', headers);
    const before = await revision();
    const again = await open.call('PUT', file('once'), 'x', headers);
    expect(again).toMatchObject({
      status: 202,
      text: first.text,
      headers: { 'idempotent-replayed': 'true', location: first.headers.location },
    });
    expect(await revision()).toBe(before);
    for (const [method, path, body, more] of [
      ['PUT', 'once', 'y', {}],
      ['PUT', 'other', 'x', {}],
      ['PUT', 'once', 'x', { 'if-match': '*' }],
      ['DELETE', 'once', undefined, {}],
    ] as const) {
      const { 'content-type': type, ...rest } = headers;
      const sent = { ...rest, ...more, ...(body ? { 'content-type': type } : {}) };
      expect(code(await open.call(method, file(path), body, sent))).toEqual([422, 'idempotency_key_reused']);
    }
    expect(await revision()).toBe(before);
  });

  test('a key whose request failed can be used again', async () => {
    const headers = { ...octets, ...key(), 'if-match': etagOf('later') };
    expect(code(await open.call('PUT', file('later'), 'new', headers))).toEqual([412, 'etag_mismatch']);
    put('later', 'later');
    expect((await open.call('PUT', file('later'), 'new', headers)).status).toBe(202);
  });

  test('fifty of the same at once are one effect; who is not the first is told to wait or gets its answer', async () => {
    const before = await revision();
    const headers = { ...octets, ...key(), 'if-match': '"absent"' };
    const all = await Promise.all(Array.from({ length: 50 }, () => open.call('PUT', file('fifty'), 'x', headers)));
    const good = all.filter(({ status }) => status === 202);
    expect(good.length).toBeGreaterThan(0);
    expect(new Set(good.map(({ text }) => text)).size).toBe(1);
    for (const answer of all.filter(({ status }) => status !== 202)) {
      expect(code(answer)).toEqual([409, 'idempotency_in_progress']);
      expect(answer.headers['retry-after']).toMatch(/^\d+$/);
    }
    expect(await revision()).toBe(before + 1);
  });
});

describe('a store that is full', () => {
  /** Lets so many commits through, then refuses as a full disk does until told otherwise. */
  const fill = (through: number): (() => void) => {
    const { db } = open.app;
    const { write } = db;
    let left = through;
    let inside = 0;
    db.write = (fn) => {
      if (inside === 0 && left-- <= 0) throw new Fault('insufficient_storage', 'The disk is full.');
      inside += 1;
      try {
        return write(fn);
      } finally {
        inside -= 1;
      }
    };
    return () => {
      db.write = write;
    };
  };

  test('before anything was done: nothing is, and the key is free', async () => {
    const headers = { ...octets, ...key(), 'if-match': '"absent"' };
    const empty = fill(0);
    expect(code(await open.call('PUT', file('full-before'), 'x', headers))).toEqual([507, 'insufficient_storage']);
    empty();
    expect(existsSync(join(root, 'full-before'))).toBe(false);
    expect(readdirSync(join(open.home.data, 'staging'))).toEqual([]);
    expect((await open.call('PUT', file('full-before'), 'x', headers)).headers['idempotent-replayed']).toBeUndefined();
  });

  test.each([
    ['PUT', 'x'],
    ['DELETE', undefined],
  ] as const)(
    'after a %s was done: it is written down as soon as there is room, and the retry gets that answer',
    async (method, body) => {
      const path = `full-after-${method}`;
      put(path, 'old');
      const before = await revision();
      const headers = { ...(body ? octets : {}), ...key(), 'if-match': etagOf('old') };
      const empty = fill(1);
      expect(code(await open.call(method, file(path), body, headers))).toEqual([507, 'insufficient_storage']);
      const [running] = (await open.call('GET', '/v1/operations?limit=1')).body.data;
      expect(running.status).toBe('running');
      expect((await open.call('GET', `/v1/workspaces/${id}`)).body.writer).toMatchObject({
        kind: 'file',
        id: running.id,
      });
      await new Promise((resolve) => setTimeout(resolve, 1_300));
      expect((await open.call('GET', `/v1/operations/${running.id}`)).body.status).toBe('running');
      empty();
      const { body: ended } = await open.call('GET', `/v1/operations/${running.id}?wait=10`);
      expect(ended).toMatchObject({ status: 'succeeded', result: { path, workspace_revision: before + 1 } });
      const again = await open.call(method, file(path), body, headers);
      expect(again).toMatchObject({ status: 202, body: ended, headers: { 'idempotent-replayed': 'true' } });
      expect((await open.call('GET', `/v1/workspaces/${id}`)).body.writer).toBeNull();
      expect(existsSync(join(root, path))).toBe(method === 'PUT');
    },
  );
});

describe('reading', () => {
  test('If-None-Match answers 304, Range a part', async () => {
    put('range', '0123456789');
    const etag = etagOf('0123456789');
    for (const tags of [etag, `W/${etag}`, `"x", ${etag}`, '*'])
      expect(await read('range', { 'if-none-match': tags })).toMatchObject({
        status: 304,
        text: '',
        headers: { etag },
      });
    expect((await read('range', { 'if-none-match': '"x"' })).status).toBe(200);
    for (const [range, text, content] of [
      ['bytes=2-4', '234', 'bytes 2-4/10'],
      ['bytes=7-', '789', 'bytes 7-9/10'],
      ['bytes=-3', '789', 'bytes 7-9/10'],
      ['bytes=0-0', '0', 'bytes 0-0/10'],
      ['bytes=5-99', '56789', 'bytes 5-9/10'],
      ['bytes=-99', '0123456789', 'bytes 0-9/10'],
    ])
      expect(await read('range', { range: range! })).toMatchObject({
        status: 206,
        text,
        headers: { 'content-range': content, 'content-length': String(text!.length), etag },
      });
    for (const range of ['bytes=0-1,3-4', 'items=0-1', 'bytes=4-2', 'bytes=-', 'bytes=x-'])
      expect(await read('range', { range })).toMatchObject({
        status: 200,
        text: '0123456789',
        headers: { 'accept-ranges': 'bytes' },
      });
    expect(await read('range', { range: 'bytes=2-4', 'if-range': etag })).toMatchObject({ status: 206 });
    expect(await read('range', { range: 'bytes=2-4', 'if-range': '"x"' })).toMatchObject({ status: 200 });
  });

  test('active content is an attachment, nothing is sniffed, and no script would run', async () => {
    for (const [name, how] of [
      ['a.html', 'attachment'],
      ['a.SVG', 'attachment'],
      ['a.xml', 'attachment'],
      ['a.js', 'attachment'],
      ['a.mjs', 'attachment'],
      ['a.pdf', 'attachment'],
      ['a.xhtml', 'attachment'],
      ['a.txt', 'inline'],
      ['a.ts', 'inline'],
      ['a.png', 'inline'],
      ['noname', 'inline'],
    ] as const) {
      put(`kinds/${name}`);
      const { headers } = await read(`kinds/${name}`);
      expect({ name, how: headers['content-disposition']!.split(';')[0] }).toEqual({ name, how });
      expect(headers).toMatchObject({
        'x-content-type-options': 'nosniff',
        'content-security-policy': "sandbox; default-src 'none'",
      });
    }
    put('kinds/ärger "x".txt');
    expect((await read('kinds/ärger "x".txt')).headers['content-disposition']).toContain("filename*=UTF-8''%C3%A4rger");
  });

  test('over 4 MiB a private address is given, good for five minutes, this file, these bytes', async () => {
    let ahead = 0;
    const other = await openApp({ clock: { ...systemClock, now: () => Date.now() + ahead } });
    const { id: into } = await createProject(other);
    const ws = await createWorkspace(other, into);
    const text = 'x'.repeat(4_194_305);
    writeFileSync(join(ws.path, 'large.html'), text);
    writeFileSync(join(ws.path, 'small'), 'small');
    const at = (path: string) => `/v1/workspaces/${ws.id}/file?path=${path}`;
    expect(await other.call('GET', at('large.html'))).toMatchObject({
      status: 413,
      body: { error: { code: 'download_required', details: { max_bytes: 4_194_304, size_bytes: 4_194_305 } } },
    });
    expect((await other.call('GET', at('large.html'), undefined, { 'if-none-match': etagOf(text) })).status).toBe(304);
    const { status, headers } = await other.call('GET', at('large.html&download=true'));
    expect(status).toBe(302);
    const url = new URL(headers.location!);
    expect(headers.location).toMatch(new RegExp(`^http://127\\.0\\.0\\.1:${other.port}/private/`));
    expect(url.pathname).not.toContain(other.token);
    const none = { authorization: '' };
    const whole = await other.call('GET', url.pathname, undefined, none);
    expect(whole).toMatchObject({
      status: 200,
      headers: { etag: etagOf(text), 'content-length': String(text.length), 'accept-ranges': 'bytes' },
    });
    expect(whole.headers['content-disposition']).toMatch(/^attachment; filename=/);
    expect(whole.text === text).toBe(true);
    expect(await other.call('GET', url.pathname, undefined, { ...none, range: 'bytes=4194300-' })).toMatchObject({
      status: 206,
      text: 'xxxxx',
    });
    expect(await other.call('HEAD', url.pathname, undefined, none)).toMatchObject({
      status: 200,
      text: '',
      headers: { 'content-length': String(text.length) },
    });
    expect(code(await other.call('GET', url.pathname, undefined, { ...none, host: 'example.org' }))).toEqual([
      421,
      'host_not_allowed',
    ]);
    expect(code(await other.call('GET', url.pathname, undefined, { ...none, origin: 'http://example.org' }))).toEqual([
      403,
      'origin_not_allowed',
    ]);
    expect(code(await other.call('GET', url.pathname, undefined, { ...none, range: 'bytes=4194305-' }))).toEqual([
      416,
      'range_not_satisfiable',
    ]);
    expect(code(await other.call('PUT', url.pathname, 'x', none))).toEqual([404, 'not_found']);
    expect((await other.call('POST', url.pathname, undefined, none)).status).toBe(404);
    for (const changed of [
      `${url.pathname}x`,
      url.pathname.slice(0, -1),
      url.pathname.replace(/\.(.)/, '.$1$1'),
      '/private/',
      '/private/x',
      '/private/x.y.z',
    ])
      expect(code(await other.call('GET', changed, undefined, none))).toEqual([404, 'not_found']);
    const [payload, signature] = url.pathname.slice('/private/'.length).split('.') as [string, string];
    const swapped = Buffer.from(Buffer.from(payload, 'base64url').toString().replace('large.html', 'small')).toString(
      'base64url',
    );
    expect(code(await other.call('GET', `/private/${swapped}.${signature}`, undefined, none))).toEqual([
      404,
      'not_found',
    ]);
    ahead = 299_000;
    expect((await other.call('HEAD', url.pathname, undefined, none)).status).toBe(200);
    ahead = 301_000;
    expect(code(await other.call('GET', url.pathname, undefined, none))).toEqual([404, 'not_found']);
    const { headers: fresh } = await other.call('GET', at('small&download=true'));
    writeFileSync(join(ws.path, 'small'), 'other');
    expect(code(await other.call('GET', new URL(fresh.location!).pathname, undefined, none))).toEqual([
      412,
      'etag_mismatch',
    ]);
    expect(code(await other.call('GET', at('nothing&download=true')))).toEqual([404, 'not_found']);
    await other.close();
  });

  test('an ETag is always that of the bytes, also when a file changes within one tick of the clock', async () => {
    for (let n = 0; n < 200; n++) {
      writeFileSync(join(root, 'tick'), String(n).padStart(4));
      const listed = (await list('query=tick')).data.at(-1);
      const { headers, text } = await read('tick');
      expect(headers.etag).toBe(etagOf(text));
      expect(listed.etag).toBe(headers.etag);
    }
  });
});

describe('listing', () => {
  test('one folder, in order, with what is known of each; git’s folder is not there', async () => {
    const ws = await createWorkspace(open, project);
    const write = (path: string, text = 'x') => {
      mkdirSync(dirname(join(ws.path, path)), { recursive: true });
      writeFileSync(join(ws.path, path), text);
    };
    for (const path of [
      'b/2',
      'b/1/deep.ts',
      'b.txt',
      'a',
      'B',
      '.git/config',
      '.hidden',
      'c/.git/HEAD',
      'c/d',
      'GIT~1',
      '.agentctl-tmp-x',
    ])
      write(path);
    symlinkSync('b', join(ws.path, 'link'));
    symlinkSync('../../..', join(ws.path, 'out'));
    const list = async (query = '') => (await open.call('GET', `/v1/workspaces/${ws.id}/files?${query}`)).body;
    const top = await list();
    expect(top).toMatchObject({ workspace_id: ws.id, revision: 0, path: '', next_cursor: null });
    expect(names(top)).toEqual(['.hidden', 'B', 'a', 'b', 'b.txt', 'c', 'link', 'out']);
    expect(top.data[2]).toEqual({
      path: 'a',
      name: 'a',
      type: 'file',
      size_bytes: 1,
      etag: etagOf('x'),
      executable: false,
      modified_at: expect.stringMatching(/Z$/),
      media_type: 'application/octet-stream',
    });
    expect(top.data[3]).toMatchObject({ type: 'directory', size_bytes: null, etag: null, media_type: null });
    expect(top.data[6]).toMatchObject({ type: 'symlink', size_bytes: null, etag: null });
    expect(names(await list('path=b'))).toEqual(['b/1', 'b/2']);
    expect(names(await list('path=link'))).toEqual(['link/1', 'link/2']);
    expect(names(await list('recursive=true'))).toEqual([
      '.hidden',
      'B',
      'a',
      'b',
      'b/1',
      'b/1/deep.ts',
      'b/2',
      'b.txt',
      'c',
      'c/d',
      'link',
      'out',
    ]);
    expect(names(await list('path=b&recursive=true'))).toEqual(['b/1', 'b/1/deep.ts', 'b/2']);
    expect(names(await list('query=DEEP'))).toEqual(['b/1/deep.ts']);
    expect(names(await list('query=B%2F'))).toEqual(['b/1', 'b/1/deep.ts', 'b/2']);
    expect((await list('path=b/1')).data[0].media_type).toBe('text/plain');
    const all = names(await list('recursive=true'));
    for (const limit of [1, 2, 3, 5]) {
      const found: string[] = [];
      for (let cursor: string | null = ''; cursor !== null;) {
        const page: { data: { path: string }[]; next_cursor: string | null } = await list(
          `recursive=true&limit=${limit}${cursor && `&cursor=${cursor}`}`,
        );
        found.push(...names(page));
        cursor = page.next_cursor;
      }
      expect(found).toEqual(all);
    }
    const { next_cursor } = await list('recursive=true&limit=3');
    expect(names(await list(`recursive=true&limit=1&cursor=${next_cursor}`))).toEqual(['b']);
    rmSync(join(ws.path, 'a'));
    expect(names(await list(`recursive=true&limit=1&cursor=${next_cursor}`))).toEqual(['b']);
    for (const query of [`limit=3&cursor=${next_cursor}`, `recursive=true&path=b&cursor=${next_cursor}`, 'cursor=x'])
      expect(code(await open.call('GET', `/v1/workspaces/${ws.id}/files?${query}`))).toEqual([400, 'invalid_cursor']);
  });

  test('the last page of 20,000 files costs what the first one does', async () => {
    const ws = await createWorkspace(open, project);
    for (let folder = 0; folder < 100; folder++) {
      mkdirSync(join(ws.path, `d${folder}`));
      for (let n = 0; n < 200; n++) writeFileSync(join(ws.path, `d${folder}/f${n}`), '');
    }
    const list = async (query: string) => {
      const began = performance.now();
      const { body } = await open.call('GET', `/v1/workspaces/${ws.id}/files?recursive=true&limit=200${query}`);
      return { body, ms: performance.now() - began };
    };
    const times: number[] = [];
    let count = 0;
    for (let cursor: string | null = ''; cursor !== null;) {
      const { body, ms } = await list(cursor && `&cursor=${cursor}`);
      times.push(ms);
      count += body.data.length;
      cursor = body.next_cursor;
    }
    expect(count).toBe(20_100);
    const middle = (some: number[]) => some.toSorted((a, b) => a - b)[some.length >> 1]!;
    const [first, last] = [middle(times.slice(0, 20)), middle(times.slice(-20))];
    console.info(`20,100 entries in ${times.length} pages: first ${first.toFixed(1)} ms, last ${last.toFixed(1)} ms`);
    expect(last).toBeLessThan(first * 3 + 5);
  });
});

describe('transfers', () => {
  const announce = async (path: string, text: string, more: object = {}) =>
    open.call('POST', `/v1/workspaces/${id}/transfers`, {
      path,
      size_bytes: Buffer.byteLength(text),
      sha256: sha(text),
      ...more,
    });
  const upload = (url: string, text: string, headers: Record<string, string> = {}) =>
    open.call('PUT', new URL(url).pathname, text, { authorization: '', ...octets, ...headers });
  const take = (path: string, transfer: string, headers: Record<string, string> = {}, body = '') =>
    open.call('PUT', file(path, `&transfer_id=${transfer}`), body, {
      ...octets,
      ...key(),
      'if-match': '"absent"',
      ...headers,
    });

  test('announced, uploaded, taken: under the same rules as a small write', async () => {
    const text = 'y'.repeat(5_000_000);
    const { status, body: transfer } = await announce('staged/big', text);
    expect(status).toBe(201);
    expect(transfer).toMatchObject({ status: 'pending', path: 'staged/big', size_bytes: 5_000_000 });
    expect(Date.parse(transfer.expires_at)).toBeGreaterThan(Date.now());
    expect(code(await take('staged/big', transfer.id))).toEqual([409, 'invalid_state']);
    expect((await upload(transfer.upload_url, text)).body).toMatchObject({ id: transfer.id, status: 'uploaded' });
    expect((await upload(transfer.upload_url, text)).body).toMatchObject({ status: 'uploaded' });
    expect(code(await take('staged/other', transfer.id))).toEqual([404, 'not_found']);
    expect(code(await take('staged/big', transfer.id, { 'if-match': '"x"' }))).toEqual([412, 'etag_mismatch']);
    expect(code(await take('staged/big', transfer.id, {}, 'bytes'))).toEqual([400, 'invalid_request']);
    const headers = { ...octets, ...key(), 'if-match': '"absent"' };
    const url = file('staged/big', `&transfer_id=${transfer.id}`);
    const taken = await open.call('PUT', url, '', headers);
    expect(taken.body).toMatchObject({
      status: 'succeeded',
      result: { path: 'staged/big', etag: etagOf(text), size_bytes: 5_000_000 },
    });
    expect((await open.call('PUT', url, undefined, headers)).text).toBe(taken.text);
    expect(readFileSync(join(root, 'staged/big'), 'utf8') === text).toBe(true);
    expect(code(await take('staged/big', transfer.id, { 'if-match': '*' }))).toEqual([409, 'invalid_state']);
    expect(code(await upload(transfer.upload_url, text))).toEqual([409, 'invalid_state']);
    expect(readdirSync(join(open.home.data, 'staging'))).toEqual([]);
  });

  test('other bytes than announced are refused and may be sent again', async () => {
    const { body: transfer } = await announce('wrong', 'right');
    expect(code(await upload(transfer.upload_url, 'wrong'))).toEqual([400, 'invalid_request']);
    expect(code(await upload(transfer.upload_url, 'shor'))).toEqual([400, 'invalid_request']);
    expect(await upload(transfer.upload_url, 'much too long')).toMatchObject({
      status: 413,
      body: { error: { code: 'payload_too_large', details: { max_bytes: 5 } } },
    });
    // In pieces, without a length announced.
    const chunked = await fetch(transfer.upload_url, {
      method: 'PUT',
      body: new Blob(['much ', 'too long']).stream(),
      duplex: 'half',
    } as RequestInit);
    expect(chunked.status).toBe(413);
    expect((await upload(transfer.upload_url, 'right')).status).toBe(200);
    expect(code(await open.call('GET', new URL(transfer.upload_url).pathname))).toEqual([404, 'not_found']);
  });

  test('what is not taken in time is gone, bytes and all', async () => {
    let ahead = 0;
    const other = await openApp({ clock: { ...systemClock, now: () => Date.now() + ahead } });
    const { id: into } = await createProject(other);
    const ws = await createWorkspace(other, into);
    const body = { path: 'a', size_bytes: 1, sha256: sha('x') };
    const { body: transfer } = await other.call('POST', `/v1/workspaces/${ws.id}/transfers`, body);
    await other.call('PUT', new URL(transfer.upload_url).pathname, 'x', octets);
    expect(readdirSync(join(other.home.data, 'staging'))).toEqual([`transfer-${transfer.id}`]);
    ahead = Date.parse(transfer.expires_at) - Date.now();
    const url = `/v1/workspaces/${ws.id}/file?path=a&transfer_id=${transfer.id}`;
    expect(code(await other.call('PUT', url, '', { ...octets, ...key(), 'if-match': '"absent"' }))).toEqual([
      404,
      'not_found',
    ]);
    expect(code(await other.call('PUT', new URL(transfer.upload_url).pathname, 'x', octets))).toEqual([
      404,
      'not_found',
    ]);
    await other.call('POST', `/v1/workspaces/${ws.id}/transfers`, body);
    await other.app.settle();
    expect(readdirSync(join(other.home.data, 'staging'))).toEqual([]);
    await other.close();
  });
});

describe('what is refused:', () => {
  const at = '/v1/workspaces/{id}/file';
  const tags = (text: string) => ({ 'if-match': text });
  interface Row {
    name: string;
    method?: string;
    path?: string;
    body?: unknown;
    headers?: Record<string, string>;
    /** No Idempotency-Key. */
    keyless?: true;
    status: number;
    code: ErrorCode;
    param?: string;
    details?: object;
  }
  const bad = (status: number, code: ErrorCode) => ({ status, code });
  const rows: Row[] = [
    ...(['PUT', 'DELETE'] as const).flatMap((method): Row[] => [
      {
        name: `${method} without If-Match`,
        method,
        headers: {},
        ...bad(428, 'precondition_required'),
        param: 'If-Match',
      },
      {
        name: `${method} with an If-None-Match that is not *`,
        method,
        headers: { 'if-none-match': '"x"' },
        ...bad(428, 'precondition_required'),
      },
      { name: `${method} without a key`, method, keyless: true, ...bad(400, 'idempotency_key_required') },
      ...['', 'abc', '"a', 'a"', '*, "a"', '"a" "b"', "'a'", 'W/', '**', '"a";'].map((text) => ({
        name: `${method} with If-Match ${text}`,
        method,
        headers: tags(text),
        ...bad(400, 'invalid_request'),
        param: 'If-Match',
      })),
      ...['W/"a"', '"sha256-0"', '"A", "b"', '"absent"', '"*"'].map((text) => ({
        name: `${method} with the unfitting If-Match ${text}`,
        method,
        headers: tags(text),
        ...bad(412, 'etag_mismatch'),
        details: { current_etag: etagOf('here') },
      })),
      {
        name: `${method} with the weak form of the ETag`,
        method,
        headers: tags(`W/${etagOf('here')}`),
        ...bad(412, 'etag_mismatch'),
      },
      {
        name: `${method} with If-Match that fits and If-None-Match *`,
        method,
        headers: { ...tags('*'), 'if-none-match': '*' },
        ...bad(412, 'etag_mismatch'),
      },
      {
        name: `${method} * of what is not there`,
        method,
        path: `${at}?path=gone`,
        headers: tags('*'),
        ...bad(412, 'etag_mismatch'),
        details: { current_etag: null },
      },
      {
        name: `${method} of what is not there by ETag`,
        method,
        path: `${at}?path=gone`,
        headers: tags(etagOf('here')),
        ...bad(412, 'etag_mismatch'),
        details: { current_etag: null },
      },
      {
        name: `${method} of a folder`,
        method,
        path: `${at}?path=folder`,
        ...bad(409, 'invalid_state'),
        details: { state: 'directory' },
      },
      {
        name: `${method} in an unknown workspace`,
        method,
        path: `/v1/workspaces/${nowhere}/file?path=here`,
        ...bad(404, 'not_found'),
      },
      {
        name: `${method} in an archived project`,
        method,
        path: '/v1/workspaces/{archived}/file?path=here',
        ...bad(409, 'project_archived'),
      },
      {
        name: `${method} in a workspace that is being removed`,
        method,
        path: '/v1/workspaces/{doomed}/file?path=here',
        ...bad(409, 'invalid_state'),
        details: { state: 'deleting' },
      },
      {
        name: `${method} with a key of too many characters`,
        method,
        headers: { ...tags('*'), 'idempotency-key': 'x'.repeat(256) },
        ...bad(400, 'invalid_idempotency_key'),
      },
    ]),
    {
      name: 'PUT below a file',
      path: `${at}?path=here/below`,
      headers: tags('"absent"'),
      ...bad(409, 'invalid_state'),
      details: { state: 'file' },
    },
    {
      name: 'PUT of more than 4 MiB',
      body: 'x'.repeat(4_194_305),
      ...bad(413, 'payload_too_large'),
      details: { max_bytes: 4_194_304, larger: expect.stringContaining('/transfers') },
    },
    {
      name: 'PUT of JSON',
      headers: { ...tags('*'), 'content-type': 'application/json' },
      ...bad(415, 'unsupported_media_type'),
    },
    {
      name: 'PUT of a form',
      headers: { ...tags('*'), 'content-type': 'application/x-www-form-urlencoded' },
      ...bad(415, 'unsupported_media_type'),
    },
    {
      name: 'PUT with an odd X-File-Executable',
      headers: { ...tags('*'), 'x-file-executable': 'yes' },
      ...bad(400, 'invalid_request'),
      param: 'x-file-executable',
    },
    {
      name: 'PUT with an unknown transfer',
      path: `${at}?path=here&transfer_id=${nowhere}`,
      body: '',
      ...bad(404, 'not_found'),
    },
    {
      name: 'PUT with a transfer that is no id',
      path: `${at}?path=here&transfer_id=x`,
      body: '',
      ...bad(400, 'invalid_parameter'),
      param: 'transfer_id',
    },
    ...(['GET', 'PUT', 'DELETE'] as const).flatMap((method): Row[] => [
      { name: `${method} without a path`, method, path: at, ...bad(400, 'invalid_parameter'), param: 'path' },
      {
        name: `${method} with two paths`,
        method,
        path: `${at}?path=here&path=here`,
        ...bad(400, 'invalid_parameter'),
        param: 'path',
      },
      ...[
        '',
        '/',
        '/etc/passwd',
        '..',
        '../x',
        'a/../b',
        './a',
        'a/',
        'a//b',
        '.',
        'a%00b',
        '%ff',
        '%c3%28',
        '%',
        '.git',
        '.git/config',
        '.GIT/x',
        'a/.git/b',
        'git~1',
        '.git./x',
        `${'a'.repeat(4097)}`,
      ].map((path) => ({
        name: `${method} of path=${path.slice(0, 30)}`,
        method,
        path: `${at}?path=${path}`,
        ...bad(400, 'invalid_path'),
        param: 'path',
      })),
      {
        name: `${method} of a segment that no file system takes`,
        method,
        path: `${at}?path=${'a'.repeat(256)}`,
        headers: tags('"absent"'),
        ...bad(400, 'invalid_path'),
      },
    ]),
    {
      method: 'GET',
      name: 'a read of a folder',
      path: `${at}?path=folder`,
      ...bad(409, 'invalid_state'),
      details: { state: 'directory' },
    },
    {
      method: 'GET',
      name: 'a read of what is not there',
      path: `${at}?path=gone`,
      ...bad(404, 'not_found'),
      param: 'path',
    },
    {
      method: 'GET',
      name: 'a malformed If-None-Match',
      path: `${at}?path=here`,
      headers: { 'if-none-match': 'x' },
      ...bad(400, 'invalid_request'),
    },
    {
      method: 'GET',
      name: 'a range past the end',
      path: `${at}?path=here`,
      headers: { range: 'bytes=99-' },
      ...bad(416, 'range_not_satisfiable'),
      details: { size_bytes: 4 },
    },
    {
      method: 'GET',
      name: 'an odd download',
      path: `${at}?path=here&download=yes`,
      ...bad(400, 'invalid_parameter'),
      param: 'download',
    },
    {
      method: 'GET',
      name: 'a listing of what is not there',
      path: '/v1/workspaces/{id}/files?path=gone',
      ...bad(404, 'not_found'),
    },
    {
      method: 'GET',
      name: 'a listing of a file',
      path: '/v1/workspaces/{id}/files?path=here',
      ...bad(409, 'invalid_state'),
      details: { state: 'file' },
    },
    {
      method: 'GET',
      name: 'a listing outside',
      path: '/v1/workspaces/{id}/files?path=..',
      ...bad(400, 'invalid_path'),
    },
    {
      method: 'GET',
      name: 'a listing of git’s folder',
      path: '/v1/workspaces/{id}/files?path=.git',
      ...bad(400, 'invalid_path'),
    },
    {
      method: 'GET',
      name: 'a listing with too long a query',
      path: `/v1/workspaces/{id}/files?query=${'a'.repeat(4097)}`,
      ...bad(400, 'invalid_parameter'),
      param: 'query',
    },
    {
      method: 'GET',
      name: 'a listing with limit 0',
      path: '/v1/workspaces/{id}/files?limit=0',
      ...bad(400, 'invalid_parameter'),
      param: 'limit',
    },
    {
      method: 'GET',
      name: 'a listing with an odd recursive',
      path: '/v1/workspaces/{id}/files?recursive=1',
      ...bad(400, 'invalid_parameter'),
      param: 'recursive',
    },
    ...(
      [
        ['too large', { size_bytes: 26_214_401 }],
        ['of a negative size', { size_bytes: -1 }],
        ['without a size', { size_bytes: undefined }],
        ['with half a hash', { sha256: 'abc' }],
        ['with an unknown field', { colour: 'red' }],
      ] as const
    ).map(([name, more]) => ({
      method: 'POST',
      name: `a transfer ${name}`,
      path: '/v1/workspaces/{id}/transfers',
      body: { path: 'a', size_bytes: 1, sha256: 'a'.repeat(64), ...more },
      headers: { 'content-type': 'application/json' },
      ...bad(400, 'invalid_request'),
    })),
    {
      method: 'POST',
      name: 'a transfer outside',
      path: '/v1/workspaces/{id}/transfers',
      body: { path: '../a', size_bytes: 1, sha256: 'a'.repeat(64) },
      headers: { 'content-type': 'application/json' },
      ...bad(400, 'invalid_path'),
    },
  ];
  let ids: Record<string, string>;

  beforeAll(async () => {
    const gone = await createProject(open);
    const archived = await createWorkspace(open, gone.id);
    await open.call('DELETE', `/v1/projects/${gone.id}`);
    const doomed = await createWorkspace(open, project);
    await open.call('DELETE', `/v1/workspaces/${doomed.id}`);
    await open.app.settle();
    ids = { id, archived: archived.id, doomed: doomed.id };
    put('here', 'here');
    mkdirSync(join(root, 'folder'), { recursive: true });
  });

  test.each(rows)(
    '$name → $status $code',
    async ({ method = 'PUT', path = `${at}?path=here`, body, headers = tags('*'), keyless, ...expected }) => {
      const reads = method === 'GET';
      const sent = body ?? (method === 'PUT' ? 'new' : undefined);
      const all = { ...(method === 'PUT' ? octets : {}), ...(reads || keyless ? {} : key()), ...headers };
      const before = await revision();
      const answer = await open.call(
        method,
        path.replace(/\{(\w+)\}/g, (_, name: string) => ids[name]!),
        sent,
        all,
      );
      expect({ status: answer.status, code: answer.body?.error?.code, text: answer.text }).toEqual({
        status: expected.status,
        code: expected.code,
        text: answer.text,
      });
      const { error } = answer.body;
      expect(error).toMatchObject({ type: failures[expected.code].type, retryable: failures[expected.code].retryable });
      expect(error.param).toBe(expected.param ?? error.param);
      expect(error.details).toMatchObject(expected.details ?? {});
      expect(answer.text).not.toContain(open.home.home);
      expect(answer.headers['x-request-id']).toBe(error.request_id);
      expect(readFileSync(join(root, 'here'), 'utf8')).toBe('here');
      expect(await revision()).toBe(before);
      expect((await open.call('GET', `/v1/workspaces/${id}`)).body.writer).toBeNull();
    },
  );

  test('a run’s workspace that never came to be says so', async () => {
    const path = join(realpathSync(tmpdir()), `agentctl-gone-${process.pid}`);
    mkdirSync(path);
    const ws = await createWorkspace(open, project, { source: { type: 'directory', path, mode: 'in_place' } });
    rmSync(path, { recursive: true });
    const url = `/v1/workspaces/${ws.id}/file?path=a`;
    expect(code(await open.call('GET', url))).toEqual([409, 'invalid_state']);
    expect(code(await open.call('PUT', url, 'x', { ...octets, ...key(), 'if-match': '"absent"' }))).toEqual([
      409,
      'invalid_state',
    ]);
  });
});
