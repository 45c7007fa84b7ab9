import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { guideIn, instructionsFor } from '../../../src/agent/instructions.ts';
import { edit, read, write } from '../../../src/agent/tools/files.ts';
import { glob, grep } from '../../../src/agent/tools/search.ts';
import { shell } from '../../../src/agent/tools/shell.ts';
import { until } from '../../kit/runner.ts';
import type { Tool } from '../../../src/agent/tools/tool.ts';

let root = '';
let outside = '';
beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), 'agentctl-tools-')));
  outside = realpathSync(mkdtempSync(join(tmpdir(), 'agentctl-outside-')));
});
afterEach(() => {
  for (const folder of [root, outside]) rmSync(folder, { recursive: true, force: true });
});

const env = { PATH: process.env.PATH ?? '/usr/bin:/bin', HOME: '/nonexistent' };
const put = (path: string, text: string): void => {
  mkdirSync(join(root, path, '..'), { recursive: true });
  writeFileSync(join(root, path), text);
};
const use = async (tool: Tool, input: Record<string, unknown>, signal = new AbortController().signal) => {
  let shown = '';
  const done = await tool.run(input, { root, env, signal, show: (text) => (shown += text) });
  return { ...done, shown };
};
const text = async (tool: Tool, input: Record<string, unknown>): Promise<string> => (await use(tool, input)).text;

test('read: numbered lines, parts of them, folders; what is no text is said to be none', async () => {
  put('a.txt', 'one\ntwo\nthree\n');
  put('sub/b.txt', '');
  put('c.bin', 'x\0y');
  put('long.txt', Array.from({ length: 3000 }, (_, n) => `line ${n} of many`).join('\n'));
  expect(await text(read, { path: 'a.txt' })).toBe('1\tone\n2\ttwo\n3\tthree');
  expect(await text(read, { path: 'a.txt', offset: 2, limit: 1 })).toBe('2\ttwo\n[1 more lines; the next is 3]');
  expect(await text(read, { path: join(root, 'sub/b.txt') })).toBe('The file is empty.');
  expect(await text(read, { path: '.' })).toBe('a.txt\nc.bin\nlong.txt\nsub/');
  const long = await text(read, { path: 'long.txt' });
  expect(long).toContain('characters left out');
  expect(long).toContain('[1000 more lines; the next is 2001]');
  expect(long.length).toBeLessThan(31_000);
  await expect(text(read, { path: 'c.bin' })).rejects.toThrow('not a text file');
  await expect(text(read, { path: 'none' })).rejects.toThrow('There is no none.');
  await expect(text(read, { path: 'a.txt', offset: 9 })).rejects.toThrow('only 3 lines');
  await expect(text(read, { path: 'a.txt', offset: 0 })).rejects.toThrow('"offset"');
});

test('nothing outside of the workspace is touched, by no way, and nothing in .git is written', async () => {
  symlinkSync(outside, join(root, 'link'));
  writeFileSync(join(outside, 'x'), 'theirs');
  for (const path of ['../x', join(outside, 'x'), 'link/x', 'link/new', '/etc/passwd'])
    for (const [tool, more] of [
      [read, {}],
      [write, { content: 'ours' }],
      [edit, { old_string: 'theirs', new_string: 'ours' }],
    ] as const)
      await expect(text(tool, { path, ...more })).rejects.toThrow('outside of the workspace');
  for (const path of ['.git/hooks/pre-commit', 'sub/.GIT/config'])
    await expect(text(write, { path, content: 'x' })).rejects.toThrow('.git');
  expect(readFileSync(join(outside, 'x'), 'utf8')).toBe('theirs');
  expect(existsSync(join(outside, 'new'))).toBe(false);
});

test('write and edit: the diff is told; a piece must be there once', async () => {
  const path = 'deep/er/a.txt';
  expect((await use(write, { path, content: 'a b a\n' })).diff).toEqual({
    path: join(root, path),
    oldText: null,
    newText: 'a b a\n',
  });
  await expect(text(edit, { path, old_string: 'a', new_string: 'c' })).rejects.toThrow('occurs 2 times');
  await expect(text(edit, { path, old_string: 'x', new_string: 'c' })).rejects.toThrow('does not occur');
  await expect(text(edit, { path, old_string: '', new_string: 'c' })).rejects.toThrow('empty');
  expect((await use(edit, { path, old_string: 'a', new_string: '$&', replace_all: true })).diff).toMatchObject({
    oldText: 'a b a\n',
    newText: '$& b $&\n',
  });
  expect(readFileSync(join(root, path), 'utf8')).toBe('$& b $&\n');
});

describe.each(['a plain folder', 'a git repository'])('search in %s', (kind) => {
  test('names and lines are found, but not in what is passed over', async () => {
    if (kind === 'a git repository') execFileSync('git', ['init', '-q', root]);
    put('src/a.ts', 'export const NEEDLE = 1;\n');
    put('src/deep/b.js', 'needle\n');
    put('node_modules/x/c.ts', 'NEEDLE\n');
    put('.gitignore', 'node_modules\n');
    expect(await text(glob, { pattern: '**/*.ts' })).toBe('src/a.ts');
    expect(await text(glob, { pattern: '*.md' })).toBe('No file fits.');
    await expect(text(glob, { pattern: '../*' })).rejects.toThrow('relative');
    expect(await text(grep, { pattern: 'NEEDLE|nothing' })).toBe('src/a.ts:1:export const NEEDLE = 1;');
    expect((await text(grep, { pattern: 'needle', ignore_case: true })).split('\n').toSorted()).toEqual([
      'src/a.ts:1:export const NEEDLE = 1;',
      'src/deep/b.js:1:needle',
    ]);
    expect(await text(grep, { pattern: 'needle', ignore_case: true, include: '*.js' })).toBe('src/deep/b.js:1:needle');
    expect(await text(grep, { pattern: 'NEEDLE', path: 'src/deep' })).toBe('Nothing was found.');
    expect(await text(grep, { pattern: '-e x' })).toBe('Nothing was found.');
    await expect(text(grep, { pattern: '(' })).rejects.toThrow(/[Uu]nmatched|parenthes/);
  });
});

/** Whether a process is there, and no more than a name that waits to be taken off the list. */
const isRunning = (pid: string): boolean => {
  try {
    return !execFileSync('ps', ['-o', 'stat=', '-p', pid], { encoding: 'utf8' }).startsWith('Z');
  } catch {
    return false;
  }
};

describe('shell', () => {
  test('output, exit code, environment; long output is cut in the middle', async () => {
    expect(await use(shell, { command: 'echo out; echo err >&2; pwd; exit 4' })).toMatchObject({
      text: `out\nerr\n${root}\n[exit code 4]`,
      exit_code: 4,
      shown: `out\nerr\n${root}\n`,
    });
    expect(await text(shell, { command: 'true' })).toBe('[no output]');
    const long = await text(shell, { command: 'head -c 200000 /dev/zero | tr "\\0" x; echo end' });
    expect(long.length).toBeLessThan(31_000);
    expect(long).toMatch(/^x+\n\[… \d+ characters left out …\]\nx+end$/);
    await expect(text(shell, { command: ' ' })).rejects.toThrow('empty');
  });

  test('a time limit and a cancel end all of it; a background child does not hold it up', async () => {
    const since = performance.now();
    const pids = join(root, 'pids');
    const slow = await use(shell, { command: `sleep 300 & echo $! > '${pids}'; wait`, timeout_seconds: 1 });
    expect(slow).toMatchObject({ text: '[ended after 1 s]' });
    const controller = new AbortController();
    const going = use(shell, { command: `sleep 300 & echo $! >> '${pids}'; wait` }, controller.signal);
    setTimeout(() => controller.abort(), 50);
    await going;
    expect(await text(shell, { command: `sleep 1 & echo begun` })).toBe('begun');
    expect(performance.now() - since).toBeLessThan(4000);
    for (const pid of readFileSync(pids, 'utf8').trim().split('\n'))
      await until(() => !isRunning(pid), `end of ${pid}`, 2000);
  });
});

test('the repository’s own words for agents are part of the instructions', () => {
  expect(guideIn(root)).toBeNull();
  put('CLAUDE.md', 'Be brief.');
  expect(guideIn(root)).toEqual({ name: 'CLAUDE.md', text: 'Be brief.' });
  put('AGENTS.md', `Use tabs. ${'x'.repeat(40_000)}`);
  const told = instructionsFor(root, '2026-01-31', 'linux', 'Speak French.');
  expect(told).toContain('Use tabs.');
  expect(told).toContain('The rest of AGENTS.md is left out.');
  expect(told).toContain(`Working directory: ${root}`);
  expect(told.endsWith('Speak French.')).toBe(true);
});
