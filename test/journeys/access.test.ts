import { afterAll, beforeAll, expect, test } from 'vitest';
import { createHome, type TestDaemon, type TestHome } from '../kit/daemon.ts';

let home: TestHome;
let daemon: TestDaemon;

beforeAll(async () => {
  home = createHome('[runs]\nwarm_runners = 0\n');
  daemon = await home.serve();
});
afterAll(async () => {
  await daemon.stop();
  home.remove();
});

const agentctl = (...args: string[]) => home.cli(args, { cwd: home.folder });
const fetchWith = (token: string, path: string) =>
  fetch(daemon.url + path, { headers: { authorization: `Bearer ${token}` } });

test('a key is printed once, works where its scopes allow, and is refused when it is revoked', async () => {
  const made = await agentctl('keys', 'new', 'ci', '--scope', 'runs:read, projects:read', '--expires', '90d');
  expect(made).toMatchObject({ code: 0, stderr: expect.stringContaining('the only time') });
  const key = made.stdout.trim();
  expect((await fetchWith(key, '/v1/projects')).status).toBe(200);
  expect((await fetchWith(key, '/v1/api-keys')).status).toBe(403);
  const list = await agentctl('keys', 'ls');
  expect(list.stdout).toContain(`${key.slice(0, 8)}…${key.slice(-4)}`);
  expect(list.stdout).not.toContain(key);
  expect(await agentctl('keys', 'revoke', 'ci', '-y')).toMatchObject({ code: 0 });
  expect((await fetchWith(key, '/v1/projects')).status).toBe(401);
  expect(await agentctl('keys', 'new', 'x', '--scope', 'run:read')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('the scopes are: projects:read'),
  });
});

test('the browser’s address lets in once; a rotated token does not disturb the command line', async () => {
  const { stdout } = await agentctl('open', '--print');
  const code = new URL(stdout.trim()).hash.replace('#code=', '');
  const enter = () =>
    fetch(`${daemon.url}/v1/auth/session`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ code }),
    });
  const first = await enter();
  expect(first.status).toBe(201);
  const { token } = (await first.json()) as { token: string };
  expect((await enter()).status).toBe(401);
  expect((await fetchWith(token, '/v1/me')).status).toBe(200);
  const before = (await agentctl('auth', 'token')).stdout.trim();
  expect(await agentctl('auth', 'rotate')).toMatchObject({ code: 0 });
  expect([(await fetchWith(token, '/v1/me')).status, (await fetchWith(before, '/v1/me')).status]).toEqual([401, 401]);
  expect(await agentctl('projects', 'ls')).toMatchObject({ code: 0 });
});

test('with a second organization commands go on in the first, until another is chosen', async () => {
  expect(await agentctl('projects', 'new', 'outside', '-q')).toMatchObject({ code: 0 });
  expect(await agentctl('orgs', 'new', 'Second')).toMatchObject({ code: 0 });
  expect((await agentctl('projects', 'ls', '-o', 'name')).stdout).toBe('outside\n');
  expect((await agentctl('--org', 'Second', 'projects', 'ls', '-o', 'name')).stdout).toBe('');
  expect(await agentctl('orgs', 'use', 'Sec')).toMatchObject({ code: 3 });
  expect(await agentctl('orgs', 'use', 'Second')).toMatchObject({ code: 0 });
  expect((await agentctl('projects', 'ls', '-o', 'name')).stdout).toBe('');
  expect((await agentctl('orgs', 'ls')).stdout).toMatch(/●\s+\S+\s+Second/);
});
