import { chmodSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { spawn } from 'node:child_process';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { locate } from '../../src/api/home.ts';
import { until } from '../kit/app.ts';
import { binary, createHome, type Finished, type TestDaemon, type TestHome } from '../kit/daemon.ts';

/** These start the real binary: build it first (`npx rolldown -c`). */
const mode = (path: string) => (statSync(path).mode & 0o777).toString(8);

/** `agentctl serve` that is expected to end by itself. */
function serveToEnd(home: TestHome, env: Record<string, string> = {}): Promise<Finished> {
  const child = spawn(process.execPath, [binary, 'serve'], {
    env: { ...home.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const finished: Finished = { code: null, stdout: '', stderr: '' };
  child.stdout.on('data', (text: Buffer) => {
    finished.stdout += text.toString();
    // It was not to start: the test says so rather than waiting for it.
    child.kill('SIGTERM');
  });
  child.stderr.on('data', (text: Buffer) => (finished.stderr += text.toString()));
  return new Promise((resolve) => child.once('close', (code) => resolve({ ...finished, code })));
}

interface Got {
  status: number;
  headers: Record<string, string>;
  text: string;
}

/** A request over TCP or the unix socket. */
function ask(
  to: { socketPath: string } | { port: number },
  path: string,
  headers: Record<string, string> = {},
): Promise<Got> {
  return new Promise((resolve, reject) => {
    const sent = request({ ...to, host: '127.0.0.1', path, headers }, (answer) => {
      const parts: Buffer[] = [];
      answer.on('data', (bytes: Buffer) => parts.push(bytes));
      answer.on('end', () =>
        resolve({
          status: answer.statusCode!,
          headers: answer.headers as never,
          text: Buffer.concat(parts).toString('utf8'),
        }),
      );
    });
    sent.on('error', reject);
    sent.end();
  });
}

describe('a daemon that runs', () => {
  let home: TestHome;
  let daemon: TestDaemon;
  let paths: ReturnType<typeof locate>;
  beforeAll(async () => {
    home = createHome();
    paths = locate(home.env);
    daemon = await home.serve();
  });
  afterAll(async () => {
    await daemon?.stop();
    home.remove();
  });

  const port = () => ({ port: Number(new URL(daemon.url).port) });
  const socket = () => ({ socketPath: daemon.socket! });
  const bearer = () => ({ authorization: `Bearer ${home.token()}` });

  test('prints where it is, and daemon.json says the same', () => {
    expect(daemon).toMatchObject({
      url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
      pid: daemon.process.pid,
      home: home.folder,
    });
    const { url, socket: path, pid, version } = daemon;
    expect(JSON.parse(readFileSync(paths.info, 'utf8'))).toEqual({
      url,
      socket: path,
      pid,
      version,
      home: home.folder,
    });
  });

  test('listens on 127.0.0.1 alone', async () => {
    // Any other loopback address is ours too, and nobody listens there.
    const answer = fetch(daemon.url.replace('127.0.0.1', '127.0.0.2')).then(
      () => 'open',
      () => 'closed',
    );
    expect(await answer).toBe('closed');
  });

  test('keeps its files to the user: folders 0700, token, socket, database, lock and log 0600', () => {
    for (const folder of [paths.data, paths.state, paths.runtime])
      expect([folder, mode(folder)]).toEqual([folder, '700']);
    const files = [
      paths.token,
      daemon.socket!,
      paths.info,
      paths.log,
      join(paths.data, 'agentctl.db'),
      join(paths.data, 'agentctl.db-wal'),
      join(paths.data, 'daemon.lock'),
    ];
    for (const file of files) expect([file, mode(file)]).toEqual([file, '600']);
  });

  test('the token has the form ags_… and at least 256 bits', () => {
    expect(home.token()).toMatch(/^ags_[A-Za-z0-9_-]{43,}$/);
  });

  test('the unix socket asks for the token, too', async () => {
    expect((await ask(socket(), '/v1/me', bearer())).status).toBe(200);
    for (const headers of [{}, { authorization: 'Bearer ags_wrong' }] as Record<string, string>[]) {
      const answer = await ask(socket(), '/v1/me', headers);
      expect(answer.status).toBe(401);
      expect(answer.headers['www-authenticate']).toMatch(/^Bearer/);
    }
  });

  test('the unix socket has the same door: foreign hosts and origins stay out', async () => {
    expect((await ask(socket(), '/v1/me', { ...bearer(), host: 'example.org' })).status).toBe(421);
    expect((await ask(socket(), '/v1/me', { ...bearer(), origin: 'https://example.org' })).status).toBe(403);
    expect((await ask(socket(), '/nothing')).status).toBe(404);
  });

  test('a header that is too long is refused with an Error body', async () => {
    const answer = await ask(port(), '/v1/me', { ...bearer(), 'x-long': 'x'.repeat(20_000) });
    expect(answer.status).toBe(431);
    expect(JSON.parse(answer.text)).toMatchObject({
      error: { type: 'invalid_request_error', message: expect.any(String) },
    });
  });

  test('a second daemon on the same data ends with 7, says why, and leaves the first alone', async () => {
    const before = readFileSync(paths.info, 'utf8');
    const { code, stdout, stderr } = await serveToEnd(home);
    expect({ code, stdout }).toEqual({ code: 7, stdout: '' });
    expect(stderr).toMatch(/^agentctl: .*already running/);
    expect(stderr).not.toMatch(/\n\s+at /);
    expect(readFileSync(paths.info, 'utf8')).toBe(before);
    expect((await ask(port(), '/v1/me', bearer())).status).toBe(200);
    expect((await ask(socket(), '/v1/me', bearer())).status).toBe(200);
  });

  test('the reference page loads, and all that it needs comes from here', async () => {
    const page = await ask(port(), '/docs');
    expect(page.status).toBe(200);
    const seen = new Map<string, string>();
    const base = new URL('/docs/', daemon.url);
    const open = [...page.text.matchAll(/(?:src|href)\s*=\s*["']([^"']+)["']/g)].map(([, link]) => link!);
    expect(open.length).toBeGreaterThan(3);
    expect(page.text).not.toMatch(/["'(]\s*(https?:)?\/\//);
    for (const link of open) {
      const url = new URL(link, base);
      expect(url.origin).toBe(base.origin);
      const { status, text, headers } = await ask(port(), url.pathname);
      expect([url.pathname, status]).toEqual([url.pathname, 200]);
      expect(headers['x-request-id']).toBeDefined();
      seen.set(url.pathname, text);
    }
    const ends = (end: string) => [...seen].filter(([path]) => path.endsWith(end)).map(([, text]) => text);
    for (const text of ends('.css')) expect(text).not.toMatch(/url\(\s*["']?(https?:)?\/\/|@import/);
    for (const text of ends('initializer.js'))
      expect(text.replaceAll(/http:\/\/127\.0\.0\.1:\d+/g, '')).not.toMatch(/["'](https?:)?\/\/[a-z]/);
  });

  test('the reference page may not ask for anything from outside either', async () => {
    const { headers } = await ask(port(), '/docs');
    const rules = headers['content-security-policy'] ?? '';
    expect(rules).toMatch(/default-src '(self|none)'/);
    expect(rules).not.toMatch(/https?:(\s|;|\/)|[a-z]\.[a-z]/);
  });

  test('the OpenAPI document names no place outside but the example of an issuer', async () => {
    const { status, text } = await ask(port(), '/v1/openapi.json');
    expect(status).toBe(200);
    const places = new Set([...text.matchAll(/"(https?:\/\/[^"/]+)/g)].map(([, place]) => place!));
    expect([...places].toSorted()).toEqual(['http://127.0.0.1:4788', 'https://issuer.example']);
  });
});

describe('a daemon that starts or stops', () => {
  let home: TestHome;
  const running: TestDaemon[] = [];
  const fresh = (config?: string) => (home = createHome(config));
  const serve = async () => {
    const daemon = await home.serve();
    running.push(daemon);
    return daemon;
  };
  afterEach(async () => {
    for (const daemon of running.splice(0)) await daemon.stop();
    home.remove();
  });

  const loosen = (loose: string): string => {
    const { data } = locate(fresh().env);
    mkdirSync(data, { recursive: true, mode: 0o700 });
    chmodSync(data, Number.parseInt(loose, 8));
    return data;
  };

  test.each(['755', '710', '707'])(
    'a data directory of mode %s is refused, with the way to close it',
    async (loose) => {
      const data = loosen(loose);
      const { code, stdout, stderr } = await serveToEnd(home);
      expect({ started: stdout !== '', failed: code !== 0 }).toEqual({ started: false, failed: true });
      expect(stderr).toContain(`chmod 700 ${data}`);
      expect(mode(data)).toBe(loose);
    },
  );

  test('a refusal that the user can mend is said in one line, without a stack', async () => {
    loosen('755');
    const { stderr } = await serveToEnd(home);
    expect(stderr).toMatch(/^agentctl: [^\n]+\n$/);
  });

  test('a taken port is named, with what to do, and nothing is left behind', async () => {
    const paths = locate(fresh().env);
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    const { port } = other.address() as AddressInfo;
    const { code, stdout, stderr } = await serveToEnd(home, { AGENTCTL_PORT: String(port) });
    other.close();
    expect({ code, stdout }).toEqual({ code: 7, stdout: '' });
    expect(stderr).toMatch(new RegExp(`^agentctl: Port ${port} .*AGENTCTL_PORT`));
    expect(stderr).not.toMatch(/\n\s+at /);
    expect(existsSync(paths.info)).toBe(false);
    expect((await serve()).pid).toBeGreaterThan(0);
  });

  test.each(['70000', 'x', '-1', '80 '])('AGENTCTL_PORT=%s is no port', async (port) => {
    fresh();
    const { code, stderr } = await serveToEnd(home, { AGENTCTL_PORT: port });
    expect({ code, stderr }).toEqual({ code: 2, stderr: `agentctl: "${port}" is no port.\n` });
  });

  test('an unknown setting ends the start with 2 and names the nearest known one', async () => {
    fresh('[server]\nprot = 1\n');
    const { code, stderr } = await serveToEnd(home);
    expect(code).toBe(2);
    expect(stderr).toMatch(/config\.toml.*"server\.prot".*"port"/);
  });

  test('down stops it and leaves no socket and no daemon.json', async () => {
    const paths = locate(fresh().env);
    const daemon = await serve();
    const { code } = await home.cli(['down']);
    expect(code).toBe(0);
    await until('the daemon to be gone', () => daemon.process.exitCode !== null);
    expect(daemon.process.exitCode).toBe(0);
    expect(existsSync(daemon.socket!)).toBe(false);
    expect(existsSync(paths.info)).toBe(false);
    await expect(fetch(`${daemon.url}/healthz`)).rejects.toThrow(/fetch failed/);
  });

  test('a killed daemon’s leftovers do not keep the next one from starting, with the same token', async () => {
    fresh();
    const first = await serve();
    const token = home.token();
    await first.kill();
    expect(existsSync(first.socket!)).toBe(true);
    const second = await serve();
    expect(home.token()).toBe(token);
    expect((await ask({ socketPath: second.socket! }, '/v1/me', { authorization: `Bearer ${token}` })).status).toBe(
      200,
    );
  });

  test('a token that others could read is replaced', async () => {
    const paths = locate(fresh().env);
    mkdirSync(paths.state, { recursive: true, mode: 0o700 });
    writeFileSync(paths.token, `ags_${'A'.repeat(43)}\n`);
    chmodSync(paths.token, 0o644);
    const daemon = await serve();
    expect(mode(paths.token)).toBe('600');
    expect(home.token()).not.toBe(`ags_${'A'.repeat(43)}`);
    expect(
      await daemon.call('GET', '/v1/me', undefined, { authorization: `Bearer ags_${'A'.repeat(43)}` }),
    ).toMatchObject({ error: { code: 'unauthenticated' } });
  });

  test('neither the token nor a prompt is in the log', async () => {
    const paths = locate(fresh('[log]\nlevel = "debug"\n').env);
    const daemon = await serve();
    const { id } = await daemon.call('POST', '/v1/projects', { name: 'x' });
    await daemon.call('POST', '/v1/runs', { project_id: id, harness: 'shell', prompt: 'echo a-very-secret-prompt' });
    await daemon.call('POST', '/v1/runs', { project_id: 'x', prompt: 'a-very-secret-prompt' });
    await daemon.stop();
    const log = readFileSync(paths.log, 'utf8');
    expect(log).not.toBe('');
    expect(log).not.toContain(home.token());
    expect(log).not.toContain('a-very-secret-prompt');
  });
});
