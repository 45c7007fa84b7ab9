import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { runFiles, type RunnerIdentity } from '../src/runner/protocol.ts';
import { Daemon, resident } from './daemon.ts';
import { type Line, line, say } from './measure.ts';
import { type Bench, type Child, Place } from './place.ts';

const agent = resolve(import.meta.dirname, '../test/kit/scripted-agent.ts');
const config = existsSync(agent)
  ? `[harnesses.scripted]
command = ${JSON.stringify([process.execPath, agent])}
[harnesses.scripted.env]
AGENTCTL_SCRIPT = ${JSON.stringify(JSON.stringify({ prompts: [[{ say: 'hello' }, { hang: true }]] }))}
AGENTCTL_SCRIPT_STATE = "{{home}}"
`
  : '';

/** P9: resident memory, idle. */
export default async function memory(bench: Bench): Promise<Line[]> {
  await using place = new Place();
  const here = import.meta.dirname;
  const root = place.at('home');

  const bare = place.node({ args: [join(here, 'floors/imports.js')] });
  const small = place.node({ args: ['--max-semi-space-size=1', join(here, 'floors/empty.js'), 'wait'] });
  const starts: number[] = [];
  for (let round = 0; round < bench.rounds; round++) {
    const one = await Daemon.start(bench, place, place.at(`home-${round}`));
    await sleep(1_500);
    starts.push(resident(one.child.pid));
    await one.stop();
  }

  const daemon = await Daemon.start(bench, place, root, { config });
  const { id: project_id } = await daemon.json<{ id: string }>('POST', '/v1/projects', { name: 'bench' });
  const start = (body: object) =>
    daemon.json<{ id: string }>('POST', '/v1/runs', { project_id, sandbox: 'none', ...body });
  const count = 100;
  for (let made = 0; made < count; made += 10) {
    const ten = await Promise.all(
      Array.from({ length: 10 }, () => start({ harness: 'shell', prompt: 'echo hi; ls /; seq 200' })),
    );
    for (const { id } of ten) {
      const status = await daemon.ended(id);
      if (status !== 'completed') throw new Error(`A run ended as ${status}.`);
    }
  }
  await sleep(1_500);
  const worked = resident(daemon.child.pid);

  const runner = async (body: object): Promise<number[]> => {
    const found: number[] = [];
    for (let round = 0; round < bench.rounds; round++) {
      const { id } = await start(body);
      const file = join(daemon.home.data, 'runs', id, runFiles.identity);
      for (let left = 100; left > 0 && !existsSync(file); left--) await sleep(50);
      await sleep(1_500);
      found.push(resident((JSON.parse(readFileSync(file, 'utf8')) as RunnerIdentity).pid));
      await daemon.json('POST', `/v1/runs/${id}/cancel`, {});
      await daemon.ended(id);
    }
    return found;
  };
  const shell = await runner({ harness: 'shell', prompt: 'echo hi; sleep 60' });
  const acp = config === '' ? null : await runner({ harness: 'scripted', prompt: 'go on' });
  const idle = { small: resident(small.pid), imports: resident(bare.pid) };
  await daemon.stop();
  if (acp === null) say('  There is no test/kit/scripted-agent.ts, so the ACP runner is left out.');

  const streams = await perStream(bench, place);
  const MB = (bytes: number) => bytes / 1e6;
  return [
    line({
      id: 'P9',
      what: 'daemon, resident 1.5 s after its start | node with fastify and better-sqlite3',
      unit: 'MB',
      product: starts.map(MB),
      floor: MB(idle.imports),
      goals: [{ of: 'product', most: 90 }],
    }),
    line({
      id: 'P9',
      what: `daemon, idle after ${count} runs | the same`,
      unit: 'MB',
      product: MB(worked),
      floor: MB(idle.imports),
      goals: [{ of: 'product', most: 90 }],
    }),
    line({
      id: 'P9',
      what: 'runner of a shell run | empty node',
      unit: 'MB',
      product: shell.map(MB),
      floor: MB(idle.small),
      goals: [{ of: 'product', most: 60 }],
    }),
    ...(acp === null
      ? []
      : [
          line({
            id: 'P9',
            what: 'runner of an ACP run (no gateway, no proxy yet) | empty node',
            unit: 'MB',
            product: acp.map(MB),
            floor: MB(idle.small),
            goals: [{ of: 'product', most: 90 }],
          }),
        ]),
    streams,
  ];
}

const open = (url: URL, path: string, headers: Record<string, string>): Promise<Socket> =>
  new Promise((done, reject) => {
    const socket = connect(Number(url.port), url.hostname);
    const own = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    socket.on('connect', () => socket.write(`GET ${path} HTTP/1.1\r\nHost: ${url.host}\r\n${own.join('')}\r\n`));
    socket.on('error', reject);
    socket.on('data', (bytes) => bytes.includes('retry: 1000') && done(socket));
  });

/** What an idle stream costs: 1,000 of them, after a collection of garbage before and after. */
async function perStream(bench: Bench, place: Place): Promise<Line> {
  const daemon = await Daemon.start(bench, place, place.at('streams'), { probed: true });
  const { id: project_id } = await daemon.json<{ id: string }>('POST', '/v1/projects', { name: 'bench' });
  const { id } = await daemon.json<{ id: string }>('POST', '/v1/runs', {
    project_id,
    harness: 'shell',
    prompt: 'sleep 100',
  });
  await sleep(1_000);
  const here = import.meta.dirname;
  const token = 'token';
  const bare = place.node({
    args: [
      '--import',
      import.meta.resolve('./probe.js'),
      join(here, 'floors/stream-server.ts'),
      place.at('streams.db'),
      id,
      token,
    ],
  });
  const url = new URL((await bare.next<{ url: string }>()).url);
  const many = 1_000;

  const cost = async (child: Child, where: URL, headers: Record<string, string>): Promise<number> => {
    const openAll = async () => {
      const sockets: Socket[] = [];
      while (sockets.length < many)
        sockets.push(
          ...(await Promise.all(Array.from({ length: 50 }, () => open(where, `/v1/runs/${id}/stream`, headers)))),
        );
      return sockets;
    };
    // Once before, so that only what each stream needs is counted and not what the first ones make the process keep.
    for (const socket of await openAll()) socket.destroy();
    await sleep(500);
    await child.ask({ probe: 'collect' });
    const before = resident(child.pid);
    const heapBefore = await child.ask<NodeJS.MemoryUsage>({ probe: 'collect' });
    const sockets = await openAll();
    await sleep(500);
    const heap = await child.ask<NodeJS.MemoryUsage>({ probe: 'collect' });
    const after = resident(child.pid);
    for (const socket of sockets) socket.destroy();
    const used = heap.heapUsed + heap.external - heapBefore.heapUsed - heapBefore.external;
    // Pages that were free already hold some of them, so the larger of both measures counts.
    return Math.max(after - before, used) / many;
  };
  const own = await cost(daemon.child, daemon.url, daemon.headers);
  const floor = await cost(bare, url, { authorization: `Bearer ${token}` });
  await daemon.json('POST', `/v1/runs/${id}/cancel`, {});
  await daemon.ended(id);
  await daemon.stop();
  return line({
    id: 'P9',
    what: 'each of 1,000 idle streams | of the bare server',
    unit: 'KB',
    product: own / 1000,
    floor: floor / 1000,
    goals: [{ of: 'product', most: 40 }],
  });
}
