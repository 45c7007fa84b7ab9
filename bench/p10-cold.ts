import { once } from 'node:events';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { Daemon, homeIn } from './daemon.ts';
import { alternate, type Line, line, now } from './measure.ts';
import { type Bench, Place } from './place.ts';
import { fillEvents, openToFill, seed } from './seed.ts';

/** P10: from the start of the daemon's process to its first `ready`, with a million events stored. */
export default async function cold(bench: Bench): Promise<Line[]> {
  await using place = new Place();
  const root = place.at('home');
  const home = homeIn(root);
  const seeded = await seed(home);
  const sqlite = openToFill(home);
  fillEvents(sqlite, seeded, { id: seeded.run, key: seeded.key }, 1_000_000);
  sqlite.pragma('wal_checkpoint(TRUNCATE)');
  sqlite.close();

  const ready = async (folder: string): Promise<number> => {
    const began = now();
    const daemon = await Daemon.start(bench, place, folder);
    const { status } = await daemon.ask('GET', '/readyz');
    const ms = now() - began;
    if (status !== 200) throw new Error(`/readyz answered ${status}.`);
    await daemon.stop();
    return ms;
  };
  const imported = async (): Promise<number> => {
    const began = now();
    const args = [join(import.meta.dirname, 'floors/imports.js')];
    const child = place.node({ args, stdio: ['ignore', 'pipe', 'inherit'] });
    await once(child.process.stdout as Readable, 'data');
    const ms = now() - began;
    await child.end();
    return ms;
  };
  // Once before, for the compile cache.
  await ready(root);
  await imported();
  const empty: number[] = [];
  const { product, floor } = await alternate(
    bench.quick ? 5 : 11,
    async (round) => {
      empty.push(await ready(place.at(`empty-${round}`)));
      return ready(root);
    },
    imported,
  );
  return [
    line({
      id: 'P10',
      what: 'serve → /readyz, 1,000,000 events stored | node importing fastify and better-sqlite3',
      unit: 'ms',
      product,
      floor,
      goals: [
        { of: 'product', most: 400 },
        { of: 'ratio', most: 5 },
      ],
    }),
    line({ id: 'P10', what: 'the same on a new, empty home', unit: 'ms', product: empty, floor }),
  ];
}
