import { Daemon, homeIn } from './daemon.ts';
import { type Line, line, median, now, say } from './measure.ts';
import { type Bench, Place } from './place.ts';
import { copyId, copyRuns, fillEvents, openToFill, seed, sqlNow } from './seed.ts';

/** Asks for one path and the other in turn, `times` times each, and answers the medians of `rounds` such rounds. */
async function compare(daemon: Daemon, rounds: number, times: number, paths: readonly string[]): Promise<number[]> {
  const all = paths.map((): number[] => []);
  for (let round = -1; round < rounds; round++) {
    const one = paths.map((): number[] => []);
    for (let time = 0; time < times; time++)
      for (const [index, path] of paths.entries()) {
        const began = now();
        const { status, body } = await daemon.ask('GET', path);
        one[index]!.push(now() - began);
        if (status !== 200) throw new Error(`${path} was answered with ${status}: ${body.slice(0, 200)}`);
        if (time === 0 && (JSON.parse(body) as { data: unknown[] }).data.length !== 100)
          throw new Error(`${path}: the page is not full.`);
      }
    // The first round is for warming up.
    if (round >= 0) for (const [index, values] of one.entries()) all[index]!.push(median(values));
  }
  return all.map(median);
}

/** P6: what lies deep costs no more than what lies on top. */
export default async function depth(bench: Bench): Promise<Line[]> {
  await using place = new Place();
  const root = place.at('home');
  const home = homeIn(root);
  const seeded = await seed(home);
  const sqlite = openToFill(home);
  const depths: { id: string; depth: number }[] = [];
  const sizes = bench.quick ? [1_000_000] : [1_000_000, 10_000_000];
  let perMillion = 0;
  for (const [index, count] of sizes.entries()) {
    // Ten millions are looked at only where filling them takes a minute or so.
    if (perMillion * (count / 1e6) > 90_000) {
      say(`  A million events took ${Math.round(perMillion)} ms to fill in; ten are left out.`);
      continue;
    }
    const id = copyId(1_000_000 + index);
    copyRuns(sqlite, seeded, 1, 1_000_000 + index, {});
    const { key } = sqlite.prepare('SELECT key FROM runs WHERE id = ?').get(id) as { key: number };
    const began = now();
    fillEvents(sqlite, seeded, { id, key }, count);
    perMillion ||= now() - began;
    depths.push({ id, depth: count });
    say(`  ${count.toLocaleString('en-US')} events are there after ${((now() - began) / 1000).toFixed(1)} s`);
  }
  const many = 100_000;
  copyRuns(sqlite, seeded, many, 1, {
    status: `iif(n % 100 = 0, 'failed', 'completed')`,
    finished_at: sqlNow,
    last_sequence: '1',
    created_at: `strftime('%Y-%m-%dT%H:%M:%fZ', 1767225600 + n * 60, 'unixepoch')`,
  });
  sqlite
    .prepare("UPDATE runs SET status = 'completed', stop_reason = 'end_turn', finished_at = created_at WHERE id = ?")
    .run(seeded.run);
  sqlite.pragma('wal_checkpoint(TRUNCATE)');
  sqlite.close();

  const daemon = await Daemon.start(bench, place, root);
  const times = bench.quick ? 60 : 150;
  const lines: Line[] = [];
  const add = async (what: string, paths: [deep: string, shallow: string], goal = true) => {
    const [deep = 0, shallow = 0] = await compare(daemon, bench.rounds, times, paths);
    lines.push(
      line({
        id: 'P6',
        what,
        unit: 'ms',
        product: deep,
        floor: shallow,
        goals: goal ? [{ of: 'ratio', most: 1.2 }] : [],
      }),
    );
  };
  for (const { id, depth: count } of depths) {
    const page = (after: number) => `/v1/runs/${id}/events?limit=100&after=${after}`;
    await add(`page of 100 events at depth ${count.toLocaleString('en-US')} | at depth 0`, [
      page(count - 102),
      page(0),
    ]);
  }

  const list = '/v1/runs?limit=100';
  await add('list of 100 runs among 100,000: before the last page | the first', [
    `${list}&cursor=${await beforeLast(daemon, list)}`,
    list,
  ]);
  const failed = `${list}&status=failed`;
  await add('the same, only failed ones (1 in 100)', [`${failed}&cursor=${await beforeLast(daemon, failed)}`, failed]);
  const hours = (from: number, to: number) =>
    `&from=${new Date((1_767_225_600 + from * 60) * 1000).toISOString()}&to=${new Date((1_767_225_600 + to * 60) * 1000).toISOString()}`;
  await add('the same, of 100 minutes: the oldest | the newest', [
    `${list}${hours(1, 101)}`,
    `${list}${hours(many - 100, many)}`,
  ]);
  await daemon.stop();
  return lines;
}

/** The cursor of the last full page of a list. */
async function beforeLast(daemon: Daemon, list: string): Promise<string> {
  const cursors: string[] = [];
  for (;;) {
    const path = cursors.length === 0 ? list : `${list}&cursor=${cursors.at(-1)}`;
    const { next_cursor } = JSON.parse((await daemon.ask('GET', path)).body) as { next_cursor: string | null };
    if (next_cursor === null) return cursors.at(-2)!;
    cursors.push(next_cursor);
  }
}
