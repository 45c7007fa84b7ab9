import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { api } from '../../src/api/api.ts';
import type { Event } from '../../src/api/client.ts';
import { until } from '../kit/app.ts';
import { createHome, type TestDaemon } from '../kit/daemon.ts';
import { harnessConfig } from '../kit/harness-config.ts';
import { scriptedAgent } from '../kit/scripted-agent.ts';

/** Everything that a daemon passes while it does all that it can do; at each it is killed once. */
const points = [
  ...(Object.entries(api) as [string, { effect: string }][])
    .filter(([, { effect }]) => effect === 'write')
    .flatMap(([id]) => ['begin', 'before_commit', 'committed'].map((moment) => `${id}:${moment}`)),
  ...['project.archive', 'project.delete', 'workspace.create', 'workspace.delete'].flatMap((type) =>
    ['begin', 'running', 'worked'].map((moment) => `${type}:${moment}`),
  ),
  ...['begin', 'taken', 'committed', 'begun', 'attached'].map((moment) => `start:${moment}`),
  ...['started', 'session', 'usage', 'changed', 'input', 'final'].map((record) => `record.${record}:read`),
  ...['read', 'before_commit', 'committed'].map((moment) => `ingest:${moment}`),
  ...['completed', 'cancelled', 'failed'].map((status) => `run.${status}:before_commit`),
  'end:committed',
  'lost:found',
  'lost:swept',
  ...['locked', 'opened', 'listening', 'announced'].map((moment) => `daemon:${moment}`),
];

const agent = scriptedAgent({
  prompts: [
    [
      { say: 'about to ask' },
      {
        ask: { id: 'w', title: 'Write a file', kind: 'edit' },
        allowed: [{ write: { path: 'asked.txt', text: 'once' } }],
      },
      { cost: 0.001 },
      { say: 'done' },
    ],
  ],
});

const hasEnded = ({ status }: { status: string }) =>
  !['queued', 'running', 'awaiting_input', 'cancelling'].includes(status);

test(
  `a daemon that dies at any of ${points.length} points is found whole by the next one`,
  { timeout: 600_000 },
  async () => {
    const home = createHome(`[runs]\ngrace_seconds = 0.2\nwarm_runners = 0\n${harnessConfig('scripted', agent)}`);
    const restarts: number[] = [];
    let crashes = 0;
    let daemon: TestDaemon | undefined;

    const start = async () => {
      const before = performance.now();
      delete home.env.AGENTCTL_CRASH_AT;
      daemon = await home.serve();
      restarts.push(performance.now() - before);
    };

    /** Does a request until it is answered, as a client would: the same key, again after a restart. */
    const insist = async (method: string, path: string, body?: unknown) => {
      const key = `key-${Math.random()}`;
      for (;;) {
        try {
          return await daemon!.call(method, path, body, method === 'GET' ? {} : { 'idempotency-key': key });
        } catch {
          await until('the crash', () => daemon!.process.signalCode !== null);
          crashes += 1;
          await start();
        }
      }
    };
    const follow = async <T>(what: string, path: string, good: (seen: any) => boolean): Promise<any> =>
      until<T>(what, async () => {
        const seen = await insist('GET', path);
        return good(seen) && seen;
      }) as unknown;

    /** One of everything; each step holds whether or not the daemon died in it. */
    const everything = async () => {
      const project = await insist('POST', '/v1/projects', { name: 'crash' });
      await insist('PATCH', `/v1/projects/${project.id}`, { description: 'changed' });
      const { resource } = await insist('POST', `/v1/projects/${project.id}/workspaces`, { name: 'one' });
      await follow('the workspace', `/v1/workspaces/${resource.id}`, ({ status }) => status === 'ready');
      await insist('PATCH', `/v1/workspaces/${resource.id}`, { name: 'two' });

      const announced = { path: 'a', size_bytes: 1, sha256: '0'.repeat(64) };
      const transfer = await insist('POST', `/v1/workspaces/${resource.id}/transfers`, announced);
      expect(transfer).toMatchObject({ status: 'pending', path: 'a' });

      const { resource: made } = await insist('POST', `/v1/workspaces/${resource.id}/checkpoints`, {});
      await follow('the checkpoint', `/v1/checkpoints/${made.id}`, ({ status }) => status === 'verified');
      const restore = await insist('POST', `/v1/workspaces/${resource.id}/restore`, { checkpoint_id: made.id });
      await follow('the restore', `/v1/operations/${restore.id}`, ({ status }) => status === 'succeeded');
      await insist('DELETE', `/v1/checkpoints/${made.id}`);
      await follow('its removal', `/v1/checkpoints/${made.id}`, ({ error }) => error?.code === 'not_found');

      const once = { workspace_id: resource.id, harness: 'shell', prompt: 'echo ran >> ran.txt; echo out' };
      const first = await insist('POST', '/v1/runs', once);
      const completed = await follow('the end', `/v1/runs/${first.run_id}`, hasEnded);
      expect(completed.status).toBe('completed');
      const { path } = await insist('GET', `/v1/workspaces/${resource.id}`);
      expect(readFileSync(join(path, 'ran.txt'), 'utf8')).toBe('ran\n');

      const asking = await insist('POST', '/v1/runs', {
        workspace_id: resource.id,
        harness: 'scripted',
        sandbox: 'none',
        prompt: 'go',
      });
      await follow('the question', `/v1/runs/${asking.run_id}`, ({ pending_input }) => pending_input.length === 1);
      await insist('POST', `/v1/runs/${asking.run_id}/input`, { option_id: 'allow' }).then(async (answer) => {
        if (answer.error)
          await insist('POST', `/v1/runs/${asking.run_id}/input`, {
            option_id: answer.error.message.match(/offers: ([^,.]+)/)[1],
          });
      });
      const answered = await follow('the end', `/v1/runs/${asking.run_id}`, hasEnded);
      expect(answered).toMatchObject({ status: 'completed', usage: { cost_micro_usd: '1000' } });
      expect(readFileSync(join(path, 'asked.txt'), 'utf8')).toBe('once');

      const sleeper = await insist('POST', '/v1/runs', {
        workspace_id: resource.id,
        harness: 'shell',
        prompt: 'sleep 60',
      });
      await follow('the start', `/v1/runs/${sleeper.run_id}`, ({ status }) => status === 'running');
      await insist('POST', `/v1/runs/${sleeper.run_id}/cancel`, {});
      expect(await follow('the end', `/v1/runs/${sleeper.run_id}`, hasEnded)).toMatchObject({ status: 'cancelled' });

      const lost = await insist('POST', '/v1/runs', {
        workspace_id: resource.id,
        harness: 'shell',
        prompt: 'sleep 60',
      });
      await follow('the start', `/v1/runs/${lost.run_id}`, ({ status }) => status === 'running');
      const identity = join(home.folder, 'data/runs', lost.run_id, 'runner.json');
      process.kill((JSON.parse(readFileSync(identity, 'utf8')) as { pid: number }).pid, 'SIGKILL');
      expect(await follow('the end', `/v1/runs/${lost.run_id}`, hasEnded)).toMatchObject({
        status: 'failed',
        error: { code: 'harness_lost' },
      });

      for (const { run_id } of [first, asking, sleeper, lost]) {
        const { data } = (await insist('GET', `/v1/runs/${run_id}/events?limit=1000`)) as { data: Event[] };
        expect(data.map(({ sequence }) => sequence)).toEqual(data.map((_, index) => index + 1));
        expect(data.filter(({ type }) => /^run\.(completed|failed|cancelled)$/.test(type))).toHaveLength(1);
        expect(data.at(-1)!.type).toMatch(/^run\.(completed|failed|cancelled)$/);
      }
      const { data: runs } = await insist('GET', `/v1/runs?project_id=${project.id}`);
      expect(runs).toHaveLength(4);

      await insist('DELETE', `/v1/workspaces/${resource.id}`);
      await insist('DELETE', `/v1/workspaces/${resource.id}/deletion`);
      await insist('DELETE', `/v1/workspaces/${resource.id}?after_seconds=0`);
      await follow('the removal', `/v1/workspaces/${resource.id}`, ({ status }) => status === 'deleted');
      expect(existsSync(path)).toBe(false);
      await insist('DELETE', `/v1/projects/${project.id}`);
      await follow('the archive', `/v1/projects/${project.id}`, ({ status }) => status === 'archived');
      await insist('POST', `/v1/projects/${project.id}/deletion`, { after_seconds: 3_600 });
      await insist('DELETE', `/v1/projects/${project.id}/deletion`);
      await insist('POST', `/v1/projects/${project.id}/deletion`, { after_seconds: 0 });
      await follow('the removal', `/v1/projects/${project.id}`, ({ error }) => error?.code === 'not_found');
      const { data: open } = await insist('GET', '/v1/operations?status=queued,running');
      expect(open).toEqual([]);
    };

    const missed: string[] = [];
    try {
      for (const point of points) {
        home.env.AGENTCTL_CRASH_AT = point;
        const before = crashes;
        if (point.startsWith('daemon:')) {
          await home.serve().catch(() => (crashes += 1));
          await start();
        } else {
          daemon = await home.serve();
          await everything();
        }
        if (crashes === before) missed.push(point);
        await daemon!.stop();
      }
    } finally {
      daemon?.process.kill('SIGKILL');
      home.remove();
    }
    const sorted = restarts.toSorted((a, b) => a - b);
    console.info(
      `${points.length} points, ${crashes} crashes; restart p50 ${sorted[sorted.length >> 1]!.toFixed(0)} ms, p99 ${sorted[Math.floor(sorted.length * 0.99)]!.toFixed(0)} ms`,
    );
    expect(missed).toEqual([]);
  },
);
