import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { createClient, type Event } from '../../src/api/client.ts';
import { until } from '../kit/app.ts';
import { createHome, type TestDaemon, type TestHome } from '../kit/daemon.ts';
import { harnessConfig } from '../kit/harness-config.ts';
import { freePort } from '../kit/port.ts';
import { rounds, seed, seeded } from '../kit/random.ts';
import { type Action, scriptedAgent } from '../kit/scripted-agent.ts';

const kills = rounds({ short: 30, long: 1000 });

let home: TestHome | undefined;
afterEach(() => home?.remove());

/** Ten things that happen, again and again until `count` tools were called; a pause after each. */
const script = (count: number): Action[] =>
  Array.from({ length: count }, (_, n): Action[] => [
    { say: `before ${n};`, id: `m${n}` },
    { tool: { id: `t${n}`, title: `tool ${n}`, kind: 'execute', rawInput: { n } } },
    { wait: 4 },
    { tool_update: { id: `t${n}`, status: 'completed', rawOutput: { n } } },
    { wait: 6 },
  ]).flat();

/** What must be the same whenever and however often the daemon was killed: everything but times and figures. */
const told = (events: Event[]) =>
  events.flatMap((event): unknown[] => {
    switch (event.type) {
      case 'tool.started':
        return [[event.type, event.data.tool_call_id, event.data.title, event.data.input]];
      case 'tool.completed':
        return [[event.type, event.data.tool_call_id, event.data.status]];
      case 'message.completed':
        return [[event.type, event.data.text]];
      case 'run.queued':
      case 'run.started':
      case 'run.completed':
      case 'run.failed':
      case 'run.cancelled':
        return [[event.type]];
      default:
        return [];
    }
  });

test(
  `the daemon is killed ${kills} times in the middle of a run: the history equals the script, and a reconnecting client sees each event once`,
  { timeout: 400_000 },
  async () => {
    const chosen = seed();
    console.info(`seed ${chosen}`);
    const random = seeded(chosen);
    // More than the kills can last: the run is told to end by a last word of the test.
    const count = 120 * kills;
    home = createHome();
    // Too long for an environment: the agent reads it from a file.
    const file = join(home.folder, 'script.json');
    writeFileSync(file, JSON.stringify({ prompts: [script(count)] }));
    const { command } = scriptedAgent({ prompts: [] });
    writeFileSync(
      join(home.folder, 'config.toml'),
      `[runs]\nwarm_runners = 0\n${harnessConfig('scripted', { command: [...command, file], env: {} })}`,
    );
    home.env.AGENTCTL_PORT = String(await freePort());

    let daemon: TestDaemon = await home.serve();
    const { id: project_id } = await daemon.call('POST', '/v1/projects', { name: 'kill' });
    const { run_id } = await daemon.call('POST', '/v1/runs', {
      project_id,
      harness: 'scripted',
      prompt: 'go',
      sandbox: 'none',
    });
    const seen: Event[] = [];
    const client = createClient({ url: daemon.url, token: home.token() });
    const following = (async () => {
      for await (const event of client.follow(run_id)) seen.push(event);
    })();

    for (let n = 0; n < kills; n++) {
      const before = seen.length;
      await until('an event after the restart', () => seen.length > before || undefined);
      await new Promise((resolve) => setTimeout(resolve, random() * 60));
      await daemon.kill();
      daemon = await home.serve();
    }
    await daemon.call('POST', `/v1/runs/${run_id}/cancel`, {});
    await following;

    const stored: Event[] = [];
    for (let path: string | null = `/v1/runs/${run_id}/events?limit=1000`; path;) {
      const page = await daemon.call('GET', path);
      stored.push(...page.data);
      path = page.next_cursor && `/v1/runs/${run_id}/events?limit=1000&cursor=${page.next_cursor}`;
    }
    const run = await daemon.call('GET', `/v1/runs/${run_id}`);
    await daemon.stop();

    expect(stored.map(({ sequence }) => sequence)).toEqual(stored.map((_, index) => index + 1));
    expect(seen).toEqual(stored);
    expect(run).toMatchObject({ status: 'cancelled', last_sequence: stored.length, attempt: 1 });

    const history = told(stored);
    const tools = stored.filter(({ type }) => type === 'tool.started').length;
    console.info(`${kills} kills, ${stored.length} events, ${tools} tools`);
    const expected: unknown[] = [['run.queued'], ['run.started']];
    for (let n = 0; n < tools; n++)
      expected.push(
        ['message.completed', `before ${n};`],
        ['tool.started', `t${n}`, `tool ${n}`, { n }],
        ['tool.completed', `t${n}`, 'completed'],
      );
    // The cancel may come while a message or a tool is under way: the end alone may differ from the script.
    expect(history.slice(0, 3 * tools)).toEqual(expected.slice(0, 3 * tools));
    expect(history.at(-1)).toEqual(['run.cancelled']);
    expect(history.length).toBeGreaterThanOrEqual(3 * tools);
    expect(history.length).toBeLessThanOrEqual(3 * tools + 5);
  },
);
