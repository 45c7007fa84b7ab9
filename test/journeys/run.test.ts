import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createHome, type TestHome } from '../kit/daemon.ts';
import { harnessConfig } from '../kit/harness-config.ts';
import { scriptedAgent } from '../kit/scripted-agent.ts';

let home: TestHome;
let repository: string;

beforeAll(() => {
  const agent = scriptedAgent({
    resume: true,
    prompts: [
      [
        { think: 'I should write.' },
        { say: 'I will write a file.' },
        { tool: { id: 'w1', title: 'Write note.txt', kind: 'edit' } },
        { write: { path: 'note.txt', text: 'by the agent\n' } },
        { tool_update: { id: 'w1', status: 'completed' } },
        { cost: 0.0125 },
        { say: 'Done: note.txt is written.' },
      ],
      [{ recall: true }],
    ],
  });
  home = createHome(harnessConfig('scripted', agent));
  repository = realpathSync(mkdtempSync(join(tmpdir(), 'agentctl-repository-')));
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@example.org', ...args], { cwd: repository });
  git('init', '-q');
  writeFileSync(join(repository, 'readme.md'), 'hello\n');
  git('add', '.');
  git('commit', '-qm', 'start');
});
afterAll(async () => {
  await home.cli(['down']);
  home.remove();
  rmSync(repository, { recursive: true, force: true });
});

const agentctl = (...args: string[]) => home.cli(args, { cwd: repository });

test('in a repository with no set-up, `agentctl run` starts the daemon and prints what the script prints', async () => {
  const run = await agentctl('run', '--harness', 'shell', 'echo hello; echo aside >&2; echo new > made.txt');
  expect(run).toMatchObject({ code: 0, stdout: 'hello\n' });
  expect(run.stderr).toContain('aside');
  expect(run.stderr).toContain('made.txt');
  expect(readFileSync(join(repository, 'made.txt'), 'utf8')).toBe('new\n');
});

test('the exit code tells the result', async () => {
  expect((await agentctl('run', '--harness', 'shell', 'exit 7')).code).toBe(1);
  expect((await agentctl('run', '--harness', 'shell', '--timeout', '1s', 'sleep 60')).code).toBe(6);
  expect((await agentctl('run', '--harness', 'nonesuch', 'x')).code).not.toBe(0);
  expect((await agentctl('run', '--no-such-flag')).code).toBe(2);
  expect((await agentctl('runs', 'show', '01234567')).code).toBe(3);
});

test('an agent over ACP needs a word that it may run without a sandbox; then it works, and -c goes on with the conversation', async () => {
  const refused = await agentctl('run', '--harness', 'scripted', 'first words');
  expect(refused).toMatchObject({ code: 4, stdout: '' });
  expect(refused.stderr).toContain('sandbox');

  const run = await agentctl(
    'run',
    '--harness',
    'scripted',
    '--sandbox',
    'none',
    '--permission',
    'full',
    'first words',
  );
  expect(run).toMatchObject({ code: 0 });
  expect(run.stdout.trim()).toBe('Done: note.txt is written.');
  expect(readFileSync(join(repository, 'note.txt'), 'utf8')).toBe('by the agent\n');

  const shown = JSON.parse((await agentctl('runs', 'show', '@last', '--json')).stdout);
  expect(shown).toMatchObject({ status: 'completed', usage: { cost_micro_usd: '12500', cost_source: 'reported' } });
  const result = JSON.parse((await agentctl('runs', 'result', '@last', '--json')).stdout);
  expect(result).toMatchObject({ final: true, changes: { files: [{ path: 'note.txt', change: 'added' }] } });

  const next = await agentctl('run', '-c', '--sandbox', 'none', 'second words');
  expect(next.code).toBe(0);
  expect(next.stdout).toContain('first words');
  const continued = JSON.parse((await agentctl('runs', 'show', '@last', '--json')).stdout);
  expect(continued.session_id).toBe(shown.session_id);
  expect(continued.harness).toBe('scripted');
});

test('--json prints each event once, as the history has it', async () => {
  const run = await agentctl('run', '--harness', 'shell', '--json', 'echo one; echo two');
  expect(run.code).toBe(0);
  const events = run.stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(events.map(({ sequence }) => sequence)).toEqual(events.map((_, index) => index + 1));
  const page = JSON.parse((await agentctl('api', 'GET', `/v1/runs/${events[0].run_id}/events`)).stdout);
  expect(page.data).toEqual(events);
});

test('detached: wait, logs and ps', async () => {
  const detached = await agentctl('run', '-d', '--harness', 'shell', 'echo later');
  expect(detached.code).toBe(0);
  const id = detached.stdout.trim();
  expect((await agentctl('wait', id)).code).toBe(0);
  expect((await agentctl('logs', id)).stdout).toContain('later');
  expect((await agentctl('ps', '-a', '-q')).stdout).toContain(id);
});

test('the same idempotency key starts one run', async () => {
  const args = ['run', '-d', '--harness', 'shell', '--idempotency-key', 'only-once', 'echo once >> once.txt'];
  const [a, b] = [await agentctl(...args), await agentctl(...args)];
  expect(a.stdout).toBe(b.stdout);
  await agentctl('wait', a.stdout.trim());
  expect(readFileSync(join(repository, 'once.txt'), 'utf8')).toBe('once\n');
});

test('--worktree leaves the repository alone', async () => {
  const run = await agentctl(
    'run',
    '--worktree',
    '--harness',
    'shell',
    'echo aside > only-there.txt; git rev-parse --abbrev-ref HEAD',
  );
  expect(run.code).toBe(0);
  expect(run.stdout).toContain('agentctl/');
  expect(existsSync(join(repository, 'only-there.txt'))).toBe(false);
});

test('down leaves nothing that answers, and says so', async () => {
  expect((await agentctl('down')).code).toBe(0);
  expect((await agentctl('status')).code).toBe(8);
  expect((await agentctl('ps', '--no-start')).code).toBe(8);
});
