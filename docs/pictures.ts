// Makes the pictures of the README from a real terminal: `npm run build && node docs/pictures.ts`. The real daemon runs a scripted
// agent in a home of its own; what differs from time to time (ids, spinner) is made the same in the picture.
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { open, type Terminal } from '../test/cli/terminal.ts';
import { harnessConfig } from '../test/kit/harness-config.ts';
import { type Action, scriptedAgent } from '../test/kit/scripted-agent.ts';
import { svg } from './svg.ts';

const binary = process.argv[2] ?? join(import.meta.dirname, '../bin/agentctl.js');
const images = join(import.meta.dirname, 'img');
const base = mkdtempSync(join(tmpdir(), 'agentctl-pictures-'));
const folder = join(base, 'shop');
const env = { AGENTCTL_HOME: join(base, 'home'), AGENTCTL_PORT: '0', HOME: base };

const plan = (done: number): Action => ({
  update: {
    sessionUpdate: 'plan',
    entries: ['Find the failing test', 'Count days in UTC in src/date.ts', 'Run all tests'].map((content, n) => ({
      content,
      priority: 'high',
      status: n < done ? 'completed' : n === done ? 'in_progress' : 'pending',
    })),
  },
});
const said = (text: string) => [{ type: 'content', content: { type: 'text', text } }];
const prompt = 'fix the failing date test';
const script: Action[] = [
  plan(0),
  { say: 'I’ll run the **failing test** first.\n', id: 'm1' },
  { tool: { id: 't1', title: '`npm test`', kind: 'execute', status: 'in_progress' } },
  { wait: 1200 },
  {
    tool_update: {
      id: 't1',
      status: 'completed',
      content: said(
        ' ✓ test/cart.test.ts (12 tests)\n ✗ test/date.test.ts (1 of 4 failed)\n   expected 2026-01-01 to be 2026-01-02\n',
      ),
    },
  },
  plan(1),
  { say: 'The test is right: `day()` takes the **local** time zone where UTC is meant.\n', id: 'm2' },
  {
    tool: {
      id: 't2',
      title: 'Edit src/date.ts',
      kind: 'edit',
      status: 'in_progress',
      locations: [{ path: 'src/date.ts' }],
    },
  },
  { write: { path: 'src/date.ts', text: 'export const day = (d: Date): string => d.toISOString().slice(0, 10);\n' } },
  { wait: 1100 },
  { tool_update: { id: 't2', status: 'completed' } },
  { cost: 0.0412 },
  plan(2),
  { tool: { id: 't3', title: '`npm test -- --run`', kind: 'execute', status: 'in_progress' } },
  { wait: 800 },
  { tool_update: { id: 't3', content: said(' ✓ test/cart.test.ts (12 tests)\n ✓ test/date.test.ts (4 tests)\n') } },
  { wait: 2500 },
  { tool_update: { id: 't3', status: 'completed' } },
  {
    ask: { id: 't4', title: '`git commit -am "Count days in UTC"`', kind: 'execute' },
    allowed: [{ tool_update: { id: 't4', status: 'completed' } }],
  },
  plan(3),
  { cost: 0.0618 },
  { say: 'Fixed: `day()` counts in **UTC** now, all 16 tests pass, and the change is committed.', id: 'm3' },
];

const agentctl = (...args: string[]): string =>
  execFileSync(process.execPath, [binary, ...args], {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env.PATH, ...env },
    encoding: 'utf8',
  });
const start = (args: string[], rows = 24): Terminal => open(binary, args, env, 84, rows, folder);
const picture = (name: string, command: string, terminal: Terminal): void => {
  writeFileSync(join(images, `${name}.svg`), svg(terminal.emulator, `agentctl ${command}`));
  process.stdout.write(`docs/img/${name}.svg\n`);
};

mkdirSync(join(folder, 'src'), { recursive: true });
mkdirSync(env.AGENTCTL_HOME, { recursive: true });
mkdirSync(images, { recursive: true });
execFileSync('git', ['init', '-q', folder]);
writeFileSync(
  join(folder, 'src/date.ts'),
  'export const day = (d: Date): string => `${d.getFullYear()}-${d.getMonth() + 1}-${d.getDate()}`;\n',
);
const identity = ['-c', 'user.name=demo', '-c', 'user.email=demo@example.org'];
execFileSync('git', ['-C', folder, 'add', '.']);
execFileSync('git', ['-C', folder, ...identity, 'commit', '-qm', 'start']);
writeFileSync(
  join(env.AGENTCTL_HOME, 'config.toml'),
  `default_harness = "demo"\n[sandbox]\nunavailable = "allow"\n${harnessConfig('demo', scriptedAgent({ prompts: [script] }))}`,
);
try {
  agentctl('up');
  agentctl('run', '--harness', 'shell', 'git log --oneline');
  const run = start(['run', prompt, '--max-cost', '0.50', '--timeout', '20m']);
  const command = `run "${prompt}" --max-cost 0.50 --timeout 20m`;
  await run.until(/✓ test\/date\.test\.ts \(4 tests\)/);
  picture('run', command, run);
  await run.until(/needs you[\s\S]*r {2}reject/);
  picture('question', command, run);
  run.write('y');
  await run.until(/agentctl logs/);
  await run.exited;
  picture('finished', command, run);
  agentctl('run', '-d', '--worktree', '--harness', 'shell', 'sleep 20');
  const asks = agentctl('run', '-d', 'sort the imports').trim();
  for (let tries = 0; tries < 100 && !agentctl('inbox', '-q').trim(); tries++)
    await new Promise((resolve) => setTimeout(resolve, 100));
  const ps = start(['ps', '-a'], 8);
  await ps.exited;
  picture('ps', 'ps -a', ps);
  agentctl('cancel', asks);
  agentctl('cancel', agentctl('ps', '-q', '--status', 'running').trim());
} finally {
  agentctl('down', '--drain', '10s');
  rmSync(base, { recursive: true, force: true });
}
