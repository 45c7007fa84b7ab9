import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createClient, type Event } from '../../src/api/client.ts';
import { until } from '../kit/app.ts';
import { createHome, type TestDaemon, type TestHome } from '../kit/daemon.ts';
import { harnessConfig } from '../kit/harness-config.ts';
import { scriptedAgent } from '../kit/scripted-agent.ts';

let home: TestHome;
let folder: string;
let daemon: TestDaemon;

beforeAll(() => {
  const agent = scriptedAgent({
    resume: true,
    prompts: [
      [
        {
          ask: { id: 'c', title: 'make all', kind: 'execute', rawInput: { command: 'make all' } },
          allowed: [{ write: { path: 'made', text: 'yes' } }, { say: 'Made.' }],
          denied: [{ say: 'Not made.' }],
        },
      ],
      [{ recall: true }],
    ],
  });
  home = createHome(`[sandbox]\nunavailable = "allow"\n${harnessConfig('scripted', agent)}`);
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'agentctl-directory-')));
  execFileSync('git', ['init', '-q'], { cwd: folder });
});
afterAll(async () => {
  await daemon?.stop();
  home.remove();
  rmSync(folder, { recursive: true, force: true });
});

const agentctl = async (...args: string[]) => {
  const { code, stdout, stderr } = await home.cli(args, { cwd: folder });
  return { code, out: stdout.trim(), said: stderr };
};

test('a question outlives the daemon; answered for good from elsewhere, who follows the run sees it, and it is not asked again', async () => {
  daemon = await home.serve();
  const begun = await agentctl('run', '--harness', 'scripted', '--sandbox', 'none', '-d', 'make it');
  expect(begun).toMatchObject({ code: 0 });
  const run = begun.out;

  // Somebody follows the run all the while, as the live view does.
  const seen: Event[] = [];
  const where = () => ({ url: daemon.url, token: home.token() });
  const following = (async () => {
    for await (const event of createClient(where).follow(run)) seen.push(event);
  })();
  await until('the question', () => seen.some(({ type }) => type === 'input.requested'));

  await daemon.kill();
  daemon = await home.serve();
  const [request] = (await daemon.call('GET', `/v1/input-requests?status=pending&run_id=${run}`)).data;
  expect(request).toMatchObject({ run_id: run, title: 'make all', grant: { kind: 'command', pattern: 'make all' } });
  expect((await agentctl('inbox', '-q')).out).toBe(request.id);
  const answered = await agentctl('answer', request.id, '--always');
  expect(answered.code).toBe(0);
  expect(answered.said).toContain('always, in this project, just this: execute: make all\n');

  await following;
  const resolved = seen.filter(({ type }) => type === 'input.resolved');
  expect(resolved.map(({ data }) => data)).toMatchObject([{ request_id: request.id, status: 'answered' }]);
  expect(seen.map(({ sequence }) => sequence)).toEqual(seen.map((_, index) => index + 1));
  expect(seen.at(-1)?.type).toBe('run.completed');
  expect(existsSync(join(folder, 'made'))).toBe(true);

  // Killed once more: what was allowed for good is still allowed.
  await daemon.kill();
  daemon = await home.serve();
  rmSync(join(folder, 'made'));
  const again = await agentctl('run', '--harness', 'scripted', '--sandbox', 'none', '--on-input', 'fail', 'make it');
  expect(again).toMatchObject({ code: 0, out: 'Made.' });
  expect(existsSync(join(folder, 'made'))).toBe(true);
  const [grant] = (await agentctl('grants', 'ls', '-q')).out.split('\n');
  expect((await agentctl('grants', 'rm', grant!)).code).toBe(0);
  const asked = await agentctl('run', '--harness', 'scripted', '--sandbox', 'none', '--on-input', 'fail', 'make it');
  expect(asked.code).not.toBe(0);
});

test('an agent from a file, a conversation with it, a fork, and a run as one file', async () => {
  const file = join(home.folder, 'agents.json');
  writeFileSync(file, JSON.stringify({ name: 'maker', harness: 'scripted', instructions: 'Be brief.\nMake it.' }));
  expect((await agentctl('apply', '-f', file)).said).toMatch(/^maker: made/m);
  expect((await agentctl('apply', '-f', file)).said).toMatch(/^maker: as it was$/m);
  expect((await agentctl('agents', 'edit', 'maker', '--instructions', 'Be brief.\nMake all of it.')).code).toBe(0);
  expect((await agentctl('agents', 'diff', 'maker')).out).toBe(
    'instructions, from line 2\n- Make it.\n+ Make all of it.',
  );
  const run = await agentctl('run', '-a', 'maker', '--sandbox', 'none', '--permission', 'full', '-d', 'first');
  expect((await agentctl('wait', run.out)).code).toBe(0);
  const { session_id } = JSON.parse((await agentctl('runs', 'show', run.out, '--json')).out);
  const sent = await agentctl('send', session_id, 'second', '--reject');
  expect(sent).toMatchObject({ code: 0 });
  expect(sent.out).toMatch(/Make all of it\.[^]*first\|second$/);
  expect(JSON.parse((await agentctl('sessions', 'show', session_id, '--json')).out)).toMatchObject({
    run_count: 2,
    agent_revision: 2,
  });
  const fork = JSON.parse((await agentctl('sessions', 'fork', session_id, '--run', run.out, '--json')).out);
  expect(fork).toMatchObject({ agent_revision: 2, run_count: 0 });
  const kept = await agentctl('export', run.out);
  expect(kept.out).toContain('## Prompt\n\n```\nfirst\n```');
  expect(kept.out).toContain('Made.');
  expect(JSON.parse((await agentctl('export', run.out, '--format', 'json')).out).events.at(-1).type).toBe(
    'run.completed',
  );
  const retried = await agentctl('retry', run.out, '-d');
  expect((await agentctl('wait', retried.out)).code).toBe(0);
});
