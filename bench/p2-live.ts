import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { homeIn } from './daemon.ts';
import type { Latency } from './listeners.ts';
import type { Appended } from './live.ts';
import { alternate, type Line, line, median, say } from './measure.ts';
import { type Bench, Place } from './place.ts';
import { copyId, copyRuns, openToFill, seed } from './seed.ts';

interface Load {
  clients: number;
  events: number;
  every: number;
}

/** How many clients, and how many events at which pace: slow enough that neither server falls behind. */
const loads: Load[] = [
  { clients: 1, events: 400, every: 5 },
  { clients: 100, events: 100, every: 20 },
  { clients: 1_000, events: 30, every: 100 },
];

/** P2: from an event's commit to its clients over SSE. */
export default async function live(bench: Bench): Promise<Line[]> {
  await using place = new Place();
  const root = place.at('home');
  const home = homeIn(root);
  const seeded = await seed(home);
  const run = copyId(1);
  const sqlite = openToFill(home);
  copyRuns(sqlite, seeded, 1, 1, { status: `'running'`, runner: 'NULL', last_sequence: '0' });
  sqlite.close();
  const token = readFileSync(home.token, 'utf8').trim();
  const path = `/v1/runs/${run}/stream`;

  const here = import.meta.dirname;
  const servers = {
    product: place.node({ args: [...bench.nodeArguments, join(here, 'serving.ts'), root, run] }),
    floor: place.node({ args: [join(here, 'floors/stream-server.ts'), place.at('floor.db'), run, token] }),
  };
  const listeners = place.node({ args: [join(here, 'listeners.ts')] });
  const urls = {
    product: (await servers.product.next<{ url: string }>()).url,
    floor: (await servers.floor.next<{ url: string }>()).url,
  };
  const last = { product: 0, floor: 0 };
  const measure = async (which: keyof typeof servers, { clients, events, every }: Load): Promise<Latency> => {
    await listeners.ask({ open: { url: urls[which], path: `${path}?after=${last[which]}`, token, clients } });
    const appended = await servers[which].ask<Appended>({ events, every });
    last[which] = appended.commits.at(-1)![0];
    const latency = await listeners.ask<Latency>({ answer: appended });
    if (latency.missing > 0)
      say(`  ${latency.missing} of ${latency.missing + latency.deliveries} deliveries are missing`);
    return latency;
  };

  const lines: Line[] = [];
  for (const full of loads) {
    const load = bench.quick ? { ...full, events: Math.ceil(full.events / 2) } : full;
    // What the first events meet is not yet compiled.
    await measure('product', load);
    await measure('floor', load);
    const { product, floor } = await alternate(
      bench.rounds,
      () => measure('product', load),
      () => measure('floor', load),
    );
    const clients = `${load.clients.toLocaleString('en-US')} ${load.clients === 1 ? 'client' : 'clients'}`;
    lines.push(
      line({
        id: 'P2',
        what: `commit → ${clients} over SSE, p50 | fastify, SQLite, raw write`,
        unit: 'ms',
        product: product.map(({ p50 }) => p50),
        floor: floor.map(({ p50 }) => p50),
        goals: [{ of: 'ratio', most: 1.5 }],
      }),
      line({
        id: 'P2',
        what: `the same, p99`,
        unit: 'ms',
        product: product.map(({ p99 }) => p99),
        floor: floor.map(({ p99 }) => p99),
      }),
    );
    say(`  ${clients}: ${median(product.map(({ p50 }) => p50)).toFixed(2)} ms`);
  }
  return lines;
}
