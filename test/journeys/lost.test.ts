import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import type { Event } from '../../src/api/client.ts';
import { until } from '../kit/app.ts';
import { createHome, type TestDaemon, type TestHome } from '../kit/daemon.ts';

let home: TestHome;
let daemon: TestDaemon;
afterEach(async () => {
  await daemon.stop();
  home.remove();
});

/** Children in the shell's group, in a session of their own, without the environment, and deaf to SIGTERM. */
const family = `
echo $$ >> pids
sleep 987 & echo $! >> pids
setsid sh -c 'echo $$ >> pids; exec sleep 987' &
(setsid sh -c 'echo $$ >> pids; trap "" TERM; while :; do sleep 0.1; done' &)
env -i PATH="$PATH" setsid sh -c 'echo $$ >> pids; exec sleep 987' &
while [ "$(wc -l < pids)" -lt 5 ]; do sleep 0.01; done
echo ready
sleep 987
`;

const isRunning = (pid: string) => {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1]![0] !== 'Z';
  } catch {
    return false;
  }
};

async function startFamily() {
  home = createHome('[runs]\ngrace_seconds = 0.2\n');
  daemon = await home.serve();
  const { id: project_id } = await daemon.call('POST', '/v1/projects', { name: 'lost' });
  const { run_id, workspace_id } = await daemon.call('POST', '/v1/runs', {
    project_id,
    harness: 'shell',
    sandbox: 'none',
    prompt: family,
  });
  await until('the script', async () => {
    const { data } = (await daemon.call('GET', `/v1/runs/${run_id}/events`)) as { data: Event[] };
    return data.some((event) => event.type === 'tool.output' && event.data.text.includes('ready'));
  });
  const { path } = await daemon.call('GET', `/v1/workspaces/${workspace_id}`);
  const pids = readFileSync(join(path, 'pids'), 'utf8').trim().split('\n');
  expect(pids.filter(isRunning)).toHaveLength(5);
  const runner = JSON.parse(readFileSync(join(home.folder, 'data/runs', run_id, 'runner.json'), 'utf8')) as {
    pid: number;
  };
  return { run_id, workspace_id, pids, runner };
}

const ended = (run_id: string) =>
  until('the end', async () => {
    const run = await daemon.call('GET', `/v1/runs/${run_id}`);
    return ['completed', 'failed', 'cancelled'].includes(run.status) && run;
  });

test('kill -9 of the runner: the run fails with harness_lost within seconds, and its process tree is gone', async () => {
  const { run_id, workspace_id, pids, runner } = await startFamily();
  const before = performance.now();
  process.kill(runner.pid, 'SIGKILL');
  const run = await ended(run_id);
  const took = performance.now() - before;
  expect(run).toMatchObject({
    status: 'failed',
    stop_reason: 'harness_lost',
    error: { code: 'harness_lost', retryable: true },
  });
  expect(pids.filter(isRunning)).toEqual([]);
  console.info(`harness_lost after ${Math.round(took)} ms`);
  expect(await daemon.call('GET', `/v1/workspaces/${workspace_id}`)).toMatchObject({ writer: null });
  const { data } = (await daemon.call('GET', `/v1/runs/${run_id}/events`)) as { data: Event[] };
  expect(data.at(-1)?.type).toBe('run.failed');
  expect(data.filter(({ type }) => type === 'run.failed')).toHaveLength(1);
});

test('kill -9 of the runner while no daemon runs: the next daemon finds out, and ends what was left', async () => {
  const { run_id, pids, runner } = await startFamily();
  await daemon.kill();
  process.kill(runner.pid, 'SIGKILL');
  daemon = await home.serve();
  expect(await ended(run_id)).toMatchObject({ status: 'failed', error: { code: 'harness_lost' } });
  expect(pids.filter(isRunning)).toEqual([]);
});

test('cancel leaves no process behind, also none that left the group, and removes what only the run needed', async () => {
  const { run_id, pids, runner } = await startFamily();
  const asked = await daemon.call('POST', `/v1/runs/${run_id}/cancel`, {});
  expect(asked.status).toBe('cancelling');
  expect(await ended(run_id)).toMatchObject({ status: 'cancelled', stop_reason: 'cancelled', error: null });
  expect(pids.filter(isRunning)).toEqual([]);
  await until('the end of the runner', () => !isRunning(String(runner.pid)));
  await until('the removal', () => !existsSync(join(home.folder, 'data/runs', run_id, 'spool')));
  const again = await daemon.call('POST', `/v1/runs/${run_id}/cancel`, {});
  expect(again.status).toBe('cancelled');
});

test('a cancel that was asked for just before the daemon died is carried out by the next one', async () => {
  const { run_id, pids } = await startFamily();
  const asking = daemon.call('POST', `/v1/runs/${run_id}/cancel`, {});
  await asking;
  await daemon.kill();
  daemon = await home.serve();
  expect(await ended(run_id)).toMatchObject({ status: 'cancelled' });
  expect(pids.filter(isRunning)).toEqual([]);
});

test('a daemon that stops leaves runs running, and the next one brings their end', async () => {
  const { run_id, pids } = await startFamily();
  await daemon.stop();
  expect(pids.filter(isRunning)).toHaveLength(5);
  daemon = await home.serve();
  expect(await daemon.call('GET', `/v1/runs/${run_id}`)).toMatchObject({ status: 'running', attempt: 1 });
  await daemon.call('POST', `/v1/runs/${run_id}/cancel`, {});
  expect(await ended(run_id)).toMatchObject({ status: 'cancelled' });
});
