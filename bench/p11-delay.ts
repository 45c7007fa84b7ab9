import autocannon from 'autocannon';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Daemon, homeIn, send } from './daemon.ts';
import { type Line, line } from './measure.ts';
import { type Bench, type Child, Place } from './place.ts';
import { copyId, copyRuns, fillEvents, openToFill, seed, sqlNow } from './seed.ts';

interface Delay {
  p50: number;
  p99: number;
  p999: number;
  most: number;
}

/** P11: how long the daemon's event loop keeps others waiting while it has all of this to do. */
export default async function delay(bench: Bench): Promise<Line[]> {
  await using place = new Place();
  const root = place.at('home');
  const home = homeIn(root);
  const seeded = await seed(home);
  const sqlite = openToFill(home);
  copyRuns(sqlite, seeded, 2_000, 1, { status: `'completed'`, finished_at: sqlNow, last_sequence: '1' });
  fillEvents(sqlite, seeded, { id: seeded.run, key: seeded.key }, 100_000);
  sqlite.close();

  const daemon = await Daemon.start(bench, place, root, { probed: true });
  // What a process that has nothing to do suffers beside it: two cores are shared with all that makes the load.
  const beside = place.node({
    args: ['--import', import.meta.resolve('./probe.js'), join(import.meta.dirname, 'floors/empty.js'), 'wait'],
  });
  const seconds = bench.quick ? 6 : 15;
  const of = async (child: Child, probe: 'begin' | 'end') => child.ask<Delay>({ probe });
  const lines: Line[] = [];

  const during = async (what: string, work: () => Promise<unknown>, goal: boolean) => {
    await Promise.all([of(daemon.child, 'begin'), of(beside, 'begin')]);
    await work();
    const [own, other] = await Promise.all([of(daemon.child, 'end'), of(beside, 'end')]);
    const goals = goal ? [{ of: 'product' as const, most: 50 }] : [];
    lines.push(
      line({
        id: 'P11',
        what: `event-loop delay p99.9, ${what} | idle process beside`,
        unit: 'ms',
        product: own.p999,
        floor: other.p999,
        goals,
      }),
      line({ id: 'P11', what: 'the longest', unit: 'ms', product: own.most, floor: other.most }),
    );
  };

  const { id: project_id } = await daemon.json<{ id: string }>('POST', '/v1/projects', { name: 'bench' });
  const run = (prompt: string) =>
    daemon.json<{ id: string }>('POST', '/v1/runs', { project_id, harness: 'shell', prompt });
  const watch = (id: string): void => {
    const { hostname, port, host } = daemon.url;
    const socket = connect(Number(port), hostname);
    socket.on('error', () => {}).resume();
    socket.write(
      `GET /v1/runs/${id}/stream HTTP/1.1\r\nHost: ${host}\r\nAuthorization: ${daemon.headers.authorization}\r\n\r\n`,
    );
    setTimeout(() => socket.destroy(), (seconds + 2) * 1000).unref();
  };
  const http = async (paced: { overallRate?: number }) =>
    autocannon({
      url: daemon.url.origin,
      duration: seconds,
      connections: 20,
      ...paced,
      headers: daemon.headers,
      requests: [
        { path: `/v1/runs/${copyId(500)}`, headers: daemon.headers },
        { path: '/v1/runs?limit=20', headers: daemon.headers },
        { path: `/v1/runs/${seeded.run}/events?limit=100&after=50000`, headers: daemon.headers },
        {
          method: 'POST',
          path: '/v1/projects',
          headers: { ...daemon.headers, 'content-type': 'application/json' },
          body: '{"name":"bench"}',
        },
      ],
    });
  const replays = async () => {
    for (const end = Date.now() + seconds * 1000; Date.now() < end;) {
      const stream = await send(daemon.url, { path: `/v1/runs/${seeded.run}/stream`, headers: daemon.headers });
      for await (const _ of stream) if (Date.now() > end) break;
    }
  };
  // Each says two hundred lines a second.
  const talk = `i=0; while [ $i -lt ${seconds * 5} ]; do seq 40; sleep 0.2; i=$((i+1)); done`;
  const starts = async () => {
    for (const end = Date.now() + seconds * 1000; Date.now() < end;) {
      const { id } = await run('echo hi');
      await daemon.ended(id, 60);
    }
  };

  await sleep(500);
  await during(
    '8 talking runs, 100 watchers, new runs',
    async () => {
      const talking = await Promise.all(Array.from({ length: 8 }, () => run(talk)));
      for (let n = 0; n < 100; n++) watch(talking[n % talking.length]!.id);
      await starts();
      for (const { id } of talking) await daemon.ended(id, 60);
    },
    true,
  );
  await during('as many requests as 20 connections bring', () => http({}), true);
  await during(
    'all of it (200 requests/s), and replays of 100,000 events',
    async () => {
      const talking = await Promise.all(Array.from({ length: 8 }, () => run(talk)));
      for (let n = 0; n < 100; n++) watch(talking[n % talking.length]!.id);
      await Promise.all([starts(), http({ overallRate: 200 }), replays()]);
      for (const { id } of talking) await daemon.ended(id, 60);
    },
    true,
  );
  await daemon.stop();
  return lines;
}
