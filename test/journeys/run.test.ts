import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createHome, type TestHome } from '../kit/daemon.ts';
import { harnessConfig } from '../kit/harness-config.ts';
import { noSandbox } from '../kit/sandbox.ts';
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

test('without a sandbox an agent over ACP needs a word, and what asks for one is refused; a script runs', async () => {
  const bare = createHome(
    `[sandbox]\nprogram = "/nonexistent/bwrap"\n${harnessConfig('scripted', scriptedAgent({ prompts: [[{ say: 'hi' }]] }))}`,
  );
  const run = (...args: string[]) => bare.cli(['run', ...args], { cwd: repository });
  try {
    const refused = await run('--harness', 'scripted', 'first words');
    expect(refused).toMatchObject({ code: 4, stdout: '' });
    expect(refused.stderr).toMatch(/bubblewrap is not installed/);
    expect(refused.stderr).toMatch(/--sandbox none/);
    expect((await run('--harness', 'scripted', '--sandbox', 'none', 'x')).code).toBe(0);
    for (const args of [
      ['--sandbox', 'required'],
      ['--network', 'deny'],
      ['--allow-host', 'example.com'],
    ]) {
      const { code, stderr } = await run('--harness', 'shell', ...args, 'true');
      expect(code).toBe(4);
      expect(stderr).toMatch(/apt install bubblewrap/);
    }
    expect(await run('--harness', 'shell', 'echo $HOME')).toMatchObject({ code: 0, stdout: `${bare.env.HOME}\n` });
    const { stdout } = await bare.cli(['doctor']);
    expect(stdout).toMatch(/! sandbox +bubblewrap is not installed\.\n +→ Install bubblewrap: apt install bubblewrap/);
  } finally {
    await bare.cli(['down']);
    bare.remove();
  }
});

test('an agent over ACP works, in the sandbox where there is one, and -c goes on with the conversation', async () => {
  const anyway = noSandbox ? ['--sandbox', 'none'] : [];
  const run = await agentctl('run', '--harness', 'scripted', ...anyway, '--permission', 'full', 'first words');
  expect(run).toMatchObject({ code: 0 });
  expect(run.stderr).toContain(noSandbox ? 'no sandbox' : 'bubblewrap');
  expect(run.stdout.trim()).toBe('Done: note.txt is written.');
  expect(readFileSync(join(repository, 'note.txt'), 'utf8')).toBe('by the agent\n');

  const shown = JSON.parse((await agentctl('runs', 'show', '@last', '--json')).stdout);
  expect(shown).toMatchObject({ status: 'completed', usage: { cost_micro_usd: '12500', cost_source: 'reported' } });
  const result = JSON.parse((await agentctl('runs', 'result', '@last', '--json')).stdout);
  expect(result).toMatchObject({ final: true, changes: { files: [{ path: 'note.txt', change: 'added' }] } });

  const next = await agentctl('run', '-c', ...anyway, 'second words');
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
