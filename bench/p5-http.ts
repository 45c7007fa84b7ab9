import autocannon, { type Request } from 'autocannon';
import { randomUUID } from 'node:crypto';
import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { Daemon, homeIn, send, textOf } from './daemon.ts';
import { alternate, type Line, line, say } from './measure.ts';
import { type Bench, Place } from './place.ts';
import { copyId, copyRuns, openToFill, seed, sqlNow } from './seed.ts';

const json = { 'content-type': 'application/json' };
const create: Request = {
  method: 'POST',
  path: '/v1/projects',
  headers: json,
  body: JSON.stringify({ name: 'bench' }),
};

const cases: { what: string; request: Request }[] = [
  { what: 'GET a run', request: { path: `/v1/runs/${copyId(500)}` } },
  { what: 'GET a list of 20 runs', request: { path: '/v1/runs?limit=20' } },
  { what: 'POST a project', request: create },
  {
    what: 'POST a project with Idempotency-Key',
    request: {
      ...create,
      setupRequest: (request) => ({ ...request, headers: { ...request.headers, 'idempotency-key': randomUUID() } }),
    },
  },
];

/** P5: requests per second over 20 connections. */
export default async function http(bench: Bench): Promise<Line[]> {
  await using place = new Place();
  const root = place.at('home');
  const home = homeIn(root);
  const seeded = await seed(home);
  const sqlite = openToFill(home);
  copyRuns(sqlite, seeded, 1_000, 1, { status: `'completed'`, finished_at: sqlNow, last_sequence: '1' });
  sqlite.exec("UPDATE runs SET status = 'completed', stop_reason = 'end_turn', finished_at = created_at");
  sqlite.pragma('wal_checkpoint(TRUNCATE)');
  sqlite.close();
  copyFileSync(join(home.data, 'agentctl.db'), place.at('floor.db'));

  const daemon = await Daemon.start(bench, place, root);
  const token = daemon.headers.authorization!.slice('Bearer '.length);
  const args = [join(import.meta.dirname, 'floors/sql-server.ts'), place.at('floor.db'), seeded.organization, token];
  const bare = new URL((await place.node({ args }).next<{ url: string }>()).url);

  const seconds = bench.quick ? 1 : 2;
  const load = async (url: URL, request: Request): Promise<number> => {
    const headers = { ...daemon.headers, ...request.headers };
    const requests = [{ ...request, headers }];
    const result = await autocannon({ url: url.origin, connections: 20, duration: seconds, requests });
    const bad = result.non2xx + result.errors + result.timeouts;
    if (bad > 0) throw new Error(`${bad} of ${result.requests.total} requests to ${request.path} failed.`);
    return result['2xx'] / result.duration;
  };

  const lines: Line[] = [];
  for (const { what, request } of cases) {
    const size = async (url: URL) => {
      const { method, path = '', body } = request;
      const message = await send(
        url,
        { path, headers: daemon.headers, ...(method ? { method } : {}) },
        body === undefined ? undefined : (JSON.parse(body) as object),
      );
      return (await textOf(message)).length;
    };
    const [own, other] = [await size(daemon.url), await size(bare)];
    if (Math.abs(own - other) > 100) say(`  The answers differ: ${own} and ${other} bytes.`);
    await load(daemon.url, request);
    await load(bare, request);
    const { product, floor } = await alternate(
      bench.rounds,
      () => load(daemon.url, request),
      () => load(bare, request),
    );
    lines.push(
      line({
        id: 'P5',
        what: `${what}, 20 connections | bare fastify, same SQL, token check`,
        unit: 'req/s',
        product,
        floor,
        goals: [{ of: 'ratio', least: 0.6 }],
      }),
    );
  }
  await daemon.stop();
  return lines;
}
