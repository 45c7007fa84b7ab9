import { Agent, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Run } from '../src/api/runs.ts';
import { Daemon, send, textOf } from './daemon.ts';
import { alternate, type Line, line, now } from './measure.ts';
import { type Bench, Place } from './place.ts';

/** Longer than the daemon waits before it warms up the next runner, and that one needs to be up. */
const breath = 700;

interface Started {
  ms: number;
  id: string;
}

/** Starts a run and follows it: answers when the first output of its command is here. */
async function start(url: URL, headers: Record<string, string>, agent: Agent, body: object): Promise<Started> {
  const began = now();
  const accepted = await send(url, { method: 'POST', path: '/v1/runs', headers, agent }, body);
  const { id } = JSON.parse(await textOf(accepted)) as { id: string };
  const stream = await send(url, { path: `/v1/runs/${id}/stream`, headers, agent });
  return { ms: await untilOutput(stream, began), id };
}

async function untilOutput(stream: IncomingMessage, began: number): Promise<number> {
  let text = '';
  let ms = Number.NaN;
  for await (const part of stream) {
    text += (part as Buffer).toString('latin1');
    if (Number.isNaN(ms) && text.includes('event: tool.output\n')) ms = now() - began;
  }
  return ms;
}

/** P4: from the request for a run to the first output of its command at a client. */
export default async function begin(bench: Bench): Promise<Line[]> {
  await using place = new Place();
  const daemon = await Daemon.start(bench, place, place.at('home'));
  const cold = await Daemon.start(bench, place, place.at('cold'), { config: '[runs]\nwarm_runners = 0\n' });
  const bare = place.node({
    args: [join(import.meta.dirname, 'floors/spawn-server.js')],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const url = new URL((await bare.next<{ url: string }>()).url);
  const agent = new Agent({ keepAlive: true });
  const prompt = 'echo hi';

  const prepare = async (server: Daemon) => {
    const { id: project_id } = await server.json<{ id: string }>('POST', '/v1/projects', { name: 'bench' });
    const made = await server.json<{ id: string; workspace_id: string }>('POST', '/v1/runs', {
      project_id,
      harness: 'shell',
      prompt,
    });
    await server.ended(made.id);
    return { workspace_id: made.workspace_id, harness: 'shell', prompt };
  };
  const body = await prepare(daemon);
  const coldBody = await prepare(cold);
  for (let warm = 0; warm < 3; warm++) {
    await sleep(breath);
    await start(daemon.url, daemon.headers, daemon.agent, body);
    await start(cold.url, cold.headers, cold.agent, coldBody);
    await start(url, {}, agent, { prompt });
  }
  const colds: number[] = [];
  const { product, floor } = await alternate(
    bench.quick ? 7 : 15,
    async () => {
      await sleep(breath);
      const one = await start(daemon.url, daemon.headers, daemon.agent, body);
      await sleep(50);
      colds.push((await start(cold.url, cold.headers, cold.agent, coldBody)).ms);
      return one;
    },
    async () => {
      await sleep(50);
      return start(url, {}, agent, { prompt });
    },
  );
  const run = await daemon.json<Run>('GET', `/v1/runs/${product.at(-1)!.id}`);
  agent.destroy();
  await Promise.all([daemon.stop(), cold.stop()]);
  // What the run itself says of how it was kept, so that the table stays true when this comes.
  const level = run.isolation?.level ?? 'none';
  const sandbox = level === 'none' ? 'there is no sandbox yet' : `sandbox ${level}`;
  const checkpoint = run.checkpoint_ids.before === null ? 'no checkpoint yet' : 'with checkpoint';
  const times = floor.map(({ ms }) => ms);
  return [
    line({
      id: 'P4',
      what: `POST run → first output of "echo hi" (${sandbox}, ${checkpoint}) | spawned by bare node http`,
      unit: 'ms',
      product: product.map(({ ms }) => ms),
      floor: times,
      goals: [
        { of: 'ratio', most: 8 },
        { of: 'product', most: 60 },
      ],
    }),
    line({ id: 'P4', what: 'the same with no runner kept warm', unit: 'ms', product: colds, floor: times }),
  ];
}
