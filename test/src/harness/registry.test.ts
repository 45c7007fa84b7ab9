import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { version as packageVersion } from '../../../src/base/root.ts';
import { findProgram } from '../../../src/harness/program.ts';
import { createRegistry } from '../../../src/harness/registry.ts';

let root = '';
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'agentctl-registry-'));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const program = (path: string, text: string): string => {
  const file = join(root, path);
  mkdirSync(join(file, '..'), { recursive: true });
  writeFileSync(file, text);
  chmodSync(file, 0o755);
  return file;
};

test('a program is found in the first absolute folder of PATH that has it, executable', () => {
  const second = program('two/agent', '');
  program('one/agent', '');
  chmodSync(join(root, 'one/agent'), 0o644);
  mkdirSync(join(root, 'zero/agent'), { recursive: true });
  const path = ['.', '', 'two', join(root, 'none'), join(root, 'zero'), join(root, 'one'), join(root, 'two')].join(':');
  expect(findProgram('agent', path)).toBe(second);
  expect(findProgram('other', path)).toBeNull();
  expect(findProgram('two/agent', path)).toBeNull();
  expect(findProgram(second, '')).toBe(second);
});

test('what stands in the workspace is never started, not by a link either', () => {
  const inside = program('ws/bin/agent', '');
  const path = [join(root, 'ws/bin'), join(root, 'links')].join(':');
  mkdirSync(join(root, 'links'));
  symlinkSync(inside, join(root, 'links/agent'));
  symlinkSync(join(root, 'ws'), join(root, 'alias'));
  expect(findProgram('agent', path)).toBe(inside);
  expect(findProgram('agent', path, join(root, 'ws'))).toBeNull();
  expect(findProgram('agent', path, join(root, 'alias'))).toBeNull();
  expect(findProgram(inside, '', join(root, 'ws'))).toBeNull();
  expect(findProgram('agent', path, join(root, 'ws2'))).toBe(inside);
});

test('the list: what is installed, which version, what is broken', async () => {
  const bin = join(root, 'bin');
  program('bin/gemini', '#!/bin/sh\necho x >> "$(dirname "$0")/asked"; echo "gemini 0.61.0 (build 5)"\n');
  program('bin/codex-acp', '#!/there/is/none\n');
  program('bin/mine', '#!/bin/sh\nexit 3\n');
  const registry = createRegistry({
    rows: { mine: { command: ['mine', '--acp'], name: 'Mine' }, gemini: { env: { A: 'b' } } },
    env: { PATH: `${bin}:/usr/bin:/bin` },
  });
  const list = await registry.list();
  await registry.list();
  expect(Object.fromEntries(list.map(({ id, status, version }) => [id, [status, version]]))).toEqual({
    shell: ['available', null],
    builtin: ['needs_login', packageVersion],
    scripted: ['available', null],
    claude: ['not_installed', null],
    codex: ['broken', null],
    gemini: ['available', '0.61.0'],
    opencode: ['not_installed', null],
    mine: ['available', null],
  });
  expect(list.find(({ id }) => id === 'claude')).toMatchObject({
    installed: false,
    path: null,
    install_hint: 'agentctl harnesses install claude',
  });
  expect(readFileSync(join(bin, 'asked'), 'utf8')).toBe('x\n');
  // A program that was replaced is asked again.
  utimesSync(join(bin, 'gemini'), 1, 1);
  expect(await registry.describe('gemini')).toMatchObject({ version: '0.61.0' });
  expect(readFileSync(join(bin, 'asked'), 'utf8')).toBe('x\nx\n');
});

test('a launch is the row with its program', async () => {
  const found = program('bin/gemini', '');
  const registry = createRegistry({
    rows: { gemini: { env: { A: 'b' }, auth_method: 'key' } },
    env: { PATH: join(root, 'bin') },
  });
  expect(registry.launch('gemini')).toMatchObject({
    id: 'gemini',
    kind: 'acp',
    command: [found, '--acp'],
    env: { A: 'b', GEMINI_MODEL: '{{model}}' },
    auth_method: 'key',
  });
  expect(registry.launch('shell')).toMatchObject({ kind: 'shell', command: [] });
  expect(registry.launch('claude')).toBeUndefined();
  expect(registry.launch('unknown')).toBeUndefined();
  expect(registry.launch('gemini', root)).toBeUndefined();
  expect(registry.has('claude')).toBe(true);
  expect(registry.knowsCost('gemini')).toBe(false);
  expect(registry.knowsCost('claude')).toBe(true);
  expect(registry.hint('claude')).toBe('agentctl harnesses install claude');
  expect(registry.kind('shell')).toBe('shell');
});

test('an agent that nobody has logged in with is ready all the same where a key carries it, or the user has set it up', async () => {
  program('bin/codex-acp', '#!/bin/sh\necho 2.6.0\n');
  program('bin/claude-agent-acp', '#!/bin/sh\necho 0.100.0\n');
  const env = { PATH: join(root, 'bin'), HOME: root };
  const states = async (registry: ReturnType<typeof createRegistry>) =>
    Promise.all(['claude', 'codex', 'builtin'].map(async (id) => (await registry.describe(id))?.status));
  const none = () => false;
  const linux = process.platform === 'linux' ? 'needs_login' : 'available';
  expect(await states(createRegistry({ rows: {}, env, isCallable: none }))).toEqual([linux, linux, 'needs_login']);
  const openai = (dialect: string) => ['any', 'responses', 'chat'].includes(dialect);
  expect(await states(createRegistry({ rows: {}, env, isCallable: openai }))).toEqual([
    linux,
    'available',
    'available',
  ]);
  const rows = { claude: { pass_env: ['ANTHROPIC_API_KEY'] } };
  expect((await states(createRegistry({ rows, env, isCallable: none })))[0]).toBe('available');
  mkdirSync(join(root, '.codex'));
  writeFileSync(join(root, '.codex/auth.json'), '');
  expect((await states(createRegistry({ rows: {}, env, isCallable: none })))[1]).toBe('available');
});
