import { cpSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { homeIn } from './daemon.ts';
import type { Latency } from './listeners.ts';
import type { Appended } from './live.ts';
import { alternate, type Line, line, median, say } from './measure.ts';
import { type Bench, type Child, Place } from './place.ts';
import { copyId, copyRuns, openToFill, seed } from './seed.ts';

const here = import.meta.dirname;

/** How many clients, and how many events at which pace: slow enough that neither server falls behind. */
const loads = [
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
  let homes = 0;

  const measure = async (server: Child, { clients, events, every }: (typeof loads)[number], after = 0): Promise<Latency> => {
    const { url } = await server.next<{ url: string }>();
    const listeners = place.node({ args: [join(here, 'listeners.ts')] });
    // What the first events meet is not yet compiled.
    for (const warm of [true, false]) {
      await listeners.ask({ open: { url, path: `${path}?after=${after}`, token, clients } });
      const appended = await server.ask<Appended>({ events: warm ? Math.ceil(events / 4) : events, every });
      after = appended.commits.at(-1)![0];
      const latency = await listeners.ask<Latency>({ answer: appended });
      if (warm) continue;
      if (latency.missing > 0) say(`  ${latency.missing} of ${latency.missing + latency.deliveries} deliveries are missing`);
      listeners.process.send({ close: true });
      await Promise.all([listeners.ended(), server.end()]);
      await sleep(100);
      return latency;
    }
    throw new Error('unreachable');
  };

  const lines: Line[] = [];
  for (const full of loads) {
    const load = bench.quick ? { ...full, events: Math.ceil(full.events / 2) } : full;
    const { product, floor } = await alternate(
      bench.rounds,
      () => {
        const copy = place.at(`home-${++homes}`);
        cpSync(root, copy, { recursive: true });
        return measure(place.node({ args: [...bench.nodeArguments, join(here, 'serving.ts'), copy, run] }), load);
      },
      () => measure(place.node({ args: [join(here, 'floors/stream-server.ts'), place.at(`floor-${++homes}.db`), run, token] }), load),
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
