import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { PassThrough } from 'node:stream';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { run } from '../../cli/program.ts';
import { createRegistry } from '../../src/harness/registry.ts';

let root = '';
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'agentctl-install-'));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

/** An npm that does what it is told here; `$4` of its arguments is the folder, `$name@$version` the last. */
const npm = (script: string): string => {
  const bin = join(root, 'bin');
  mkdirSync(bin, { recursive: true });
  writeFileSync(join(bin, 'npm'), `#!/bin/sh\n${script}\n`);
  chmodSync(join(bin, 'npm'), 0o755);
  return bin;
};
const good = `
for last; do :; done
version="\${last##*@}"; name="\${last%@*}"
mkdir -p "node_modules/$name" node_modules/.bin
echo "{\\"version\\": \\"$version\\"}" > "node_modules/$name/package.json"
printf '#!/bin/sh\\necho gemini %s\\n' "$version" > node_modules/.bin/gemini
chmod +x node_modules/.bin/gemini
`;

const agentctl = async (bin: string, ...argv: string[]): Promise<{ code: number; said: string }> => {
  const stream = () => Object.assign(new PassThrough(), { isTTY: false }) as unknown as NodeJS.WriteStream;
  const streams = { stdout: stream(), stderr: stream() };
  let said = '';
  for (const one of Object.values(streams)) one.on('data', (bytes: Buffer) => (said += bytes.toString()));
  const env = { AGENTCTL_HOME: root, HOME: root, PATH: [bin, '/usr/bin', '/bin'].join(delimiter) };
  const code = await run(argv, { env, version: '0', streams, stdin: process.stdin });
  return { code, said };
};
const folder = () => join(root, 'data', 'harnesses');
const registry = () =>
  createRegistry({ rows: {}, env: { PATH: dirname(process.execPath), HOME: root }, folder: folder() });

test('an installed harness is found at once, before one of PATH; uninstalled, it is gone', async () => {
  const bin = npm(good);
  const before = registry();
  expect((await before.describe('gemini'))?.status).toBe('not_installed');
  expect(await agentctl(bin, 'harnesses', 'install', 'gemini')).toMatchObject({ code: 0 });
  const path = join(folder(), 'gemini', '0.61.0', 'node_modules', '.bin', 'gemini');
  // The same registry: no restart is needed.
  expect(await before.describe('gemini')).toMatchObject({ version: '0.61.0', path, status: 'needs_login' });
  expect(before.launch('gemini')?.command).toEqual([path, '--acp']);
  // Not out of a workspace that holds it.
  expect(before.launch('gemini', root)).toBeUndefined();
  mkdirSync(join(root, '.gemini'));
  writeFileSync(join(root, '.gemini', 'oauth_creds.json'), '');
  expect((await before.describe('gemini'))?.status).toBe('available');

  expect((await agentctl(bin, 'harnesses', 'install', 'gemini')).said).toContain('installed already');
  expect(await agentctl(bin, 'harnesses', 'uninstall', 'gemini')).toMatchObject({ code: 0 });
  expect((await before.describe('gemini'))?.status).toBe('not_installed');
  expect((await agentctl(bin, 'harnesses', 'uninstall', 'gemini')).code).toBe(3);
});

test('an installation that fails, or brings something else, leaves nothing; what a killed one left is swept', async () => {
  mkdirSync(join(folder(), 'gemini', '.partial-999999999'), { recursive: true });
  const failed = await agentctl(
    npm('mkdir -p node_modules; echo "no such package" >&2; exit 1'),
    'harnesses',
    'install',
    'gemini',
  );
  expect(failed.code).toBe(1);
  expect(failed.said).toContain('no such package');
  expect(readdirSync(join(folder(), 'gemini'))).toEqual([]);
  const other = good.replaceAll('$version', '9.9.9');
  expect((await agentctl(npm(other), 'harnesses', 'install', 'gemini')).said).toContain('it is not used');
  expect(readdirSync(join(folder(), 'gemini'))).toEqual([]);
  const none = await agentctl(join(root, 'nowhere'), 'harnesses', 'install', 'nothing');
  expect([none.code, none.said.includes('claude, codex, gemini, opencode')]).toEqual([2, true]);
});

test('one that is broken off leaves nothing', async () => {
  const mark = join(root, 'begun');
  const bin = npm(`mkdir -p node_modules; touch '${mark}'; exec sleep 60`);
  const going = agentctl(bin, 'harnesses', 'install', 'gemini');
  while (!existsSync(mark)) await new Promise((resolve) => setTimeout(resolve, 5));
  process.emit('SIGINT');
  expect(await going).toMatchObject({ code: 130 });
  expect(readdirSync(join(folder(), 'gemini'))).toEqual([]);
});
