import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { readGitFacts } from '../../../src/checkpoints/git-facts.ts';

let base: string;
let folder: string;
let count = 0;
beforeAll(() => {
  base = mkdtempSync(join(tmpdir(), 'agentctl-git-'));
});
afterAll(() => rmSync(base, { recursive: true, force: true }));
beforeEach(() => {
  folder = join(base, String((count += 1)));
  mkdirSync(folder);
});

const git = (...args: string[]): string =>
  execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b', ...args], {
    cwd: folder,
    env: { PATH: process.env.PATH, GIT_CONFIG_NOSYSTEM: '1', HOME: base },
    stdio: ['ignore', 'pipe', 'ignore'],
  })
    .toString()
    .trim();
const commit = (): string => {
  git('commit', '-q', '--allow-empty', '-m', 'x');
  return git('rev-parse', 'HEAD');
};

test('no repository, a fresh one, a branch with commits, one with a slash, a detached HEAD', () => {
  expect(readGitFacts(folder)).toBeNull();
  git('init', '-q', '-b', 'main');
  expect(readGitFacts(folder)).toEqual({ head: null, branch: 'main' });
  const head = commit();
  expect(readGitFacts(folder)).toEqual({ head, branch: 'main' });
  git('switch', '-q', '-c', 'feature/ünicode');
  expect(readGitFacts(folder)).toEqual({ head, branch: 'feature/ünicode' });
  git('switch', '-q', '--detach');
  expect(readGitFacts(folder)).toEqual({ head, branch: null });
});

test('packed refs, and a newer loose one beside an old packed one', () => {
  git('init', '-q', '-b', 'main');
  const first = commit();
  for (const name of ['mai', 'main2', 'x/main']) git('branch', name);
  git('tag', '-a', 'v1', '-m', 'v1');
  git('pack-refs', '--all');
  expect(readGitFacts(folder)).toEqual({ head: first, branch: 'main' });
  const second = commit();
  expect(readGitFacts(folder)).toEqual({ head: second, branch: 'main' });
});

test('a linked work tree, a submodule’s .git file, and a .git that is a link', () => {
  git('init', '-q', '-b', 'main');
  const head = commit();
  const linked = join(base, `${count}-linked`);
  git('worktree', 'add', '-q', '-b', 'side', linked);
  expect(readGitFacts(linked)).toEqual({ head, branch: 'side' });
  git('pack-refs', '--all');
  expect(readGitFacts(linked)).toEqual({ head, branch: 'side' });
  const moved = join(base, `${count}-moved`);
  mkdirSync(join(moved, 'sub'), { recursive: true });
  execFileSync('mv', [join(folder, '.git'), join(moved, 'git')]);
  writeFileSync(join(moved, 'sub/.git'), 'gitdir: ../git\n');
  expect(readGitFacts(join(moved, 'sub'))).toEqual({ head, branch: 'main' });
  symlinkSync(join(moved, 'git'), join(folder, '.git'));
  expect(readGitFacts(folder)).toEqual({ head, branch: 'main' });
});

test('what an agent may have written there says nothing and leads nowhere', () => {
  git('init', '-q', '-b', 'main');
  const head = commit();
  const secret = join(base, `${count}-secret`);
  writeFileSync(secret, `ref: refs/heads/main\n`);
  const path = join(folder, '.git/HEAD');
  const was = readFileSync(path);
  for (const text of [
    '',
    'nonsense',
    'ref: refs/heads/../../../secret',
    'ref: /etc/passwd',
    'ref: HEAD',
    'ref: refs/heads/.invalid',
    `ref: refs/heads/${'x'.repeat(5000)}`,
    Buffer.from([0x72, 0x65, 0x66, 0x3a, 0x20, 0xff]),
  ]) {
    writeFileSync(path, text);
    expect(readGitFacts(folder)).toBeNull();
  }
  rmSync(path);
  symlinkSync(secret, path);
  expect(readGitFacts(folder)).toBeNull();
  rmSync(path);
  execFileSync('mkfifo', [path]);
  expect(readGitFacts(folder)).toBeNull();
  rmSync(path);
  writeFileSync(path, was);
  writeFileSync(join(folder, '.git/refs/heads/loop'), 'ref: refs/heads/loop\n');
  expect(readGitFacts(folder)).toEqual({ head, branch: 'main' });
  writeFileSync(path, 'ref: refs/heads/loop\n');
  expect(readGitFacts(folder)).toEqual({ head: null, branch: 'loop' });
  writeFileSync(path, 'ref: refs/remotes/origin/x\n');
  expect(readGitFacts(folder)).toEqual({ head: null, branch: null });
});
