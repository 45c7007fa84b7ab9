import { cpSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { draftText } from '../src/api/draft.ts';
import { identityOf } from '../src/runner/processes.ts';
import { runFiles } from '../src/runner/protocol.ts';
import { encodeFrame, spoolMagic } from '../src/runner/spool.ts';
import { homeIn } from './daemon.ts';
import { alternate, type Line, line } from './measure.ts';
import { type Bench, Place } from './place.ts';
import { copyId, copyRuns, openToFill, seed } from './seed.ts';

const runs = 16;

/** The bytes of a spool with so many events, of the kinds that an agent leaves: about 300 bytes each once they are stored. */
function spoolOf(count: number): Buffer {
  const source = 'harness';
  const frames: Buffer[] = [spoolMagic];
  for (let n = 1; n <= count; n++) {
    const created_at = new Date(1_767_225_600_000 + n).toISOString();
    const message_id = `m-${Math.floor(n / 50)}`;
    const text = `words, the ${n}th of them, as they come out of a model`;
    const draft =
      n % 50 === 0
        ? ({
            type: 'message.completed',
            source,
            created_at,
            data: { message_id, role: 'assistant', text: text.repeat(10) },
          } as const)
        : n % 20 === 0
          ? ({
              type: 'tool.output',
              source,
              created_at,
              data: { tool_call_id: 't-1', stream: 'stdout', text: text.repeat(5), truncated: false },
            } as const)
          : ({ type: 'message.delta', source, created_at, data: { message_id, text } } as const);
    frames.push(encodeFrame('e', draftText(draft)));
  }
  return Buffer.concat(frames);
}

/** P1: from spools on the disk to committed, 16 runs at once. */
export default async function ingest(bench: Bench): Promise<Line[]> {
  await using place = new Place();
  const perRun = bench.quick ? 3_000 : 10_000;
  const template = place.at('template');
  const home = homeIn(template);
  const seeded = await seed(home);
  const ids = Array.from({ length: runs }, (_, n) => copyId(n + 1));
  const runner = JSON.stringify({ ...identityOf(process.pid), nonce: 'bench' });
  const sqlite = openToFill(home);
  copyRuns(sqlite, seeded, runs, 1, { status: `'running'`, runner: `'${runner}'`, last_sequence: '0' });
  sqlite.prepare('DELETE FROM runs WHERE id = ?').run(seeded.run);
  sqlite.close();

  const root = place.at('home');
  const folders = join(homeIn(root).data, 'runs');
  const bytes = spoolOf(perRun);
  const servers: Server[] = [];
  const prepare = async () => {
    for (const server of servers.splice(0)) server.close();
    rmSync(root, { recursive: true, force: true });
    cpSync(template, root, { recursive: true });
    for (const id of ids) {
      mkdirSync(join(folders, id), { recursive: true, mode: 0o700 });
      writeFileSync(join(folders, id, runFiles.spool), bytes);
      // A runner's socket, for the daemon to attach to: that is what sets its reading going.
      const server = createServer((socket) => socket.on('error', () => {}).resume());
      servers.push(server);
      await new Promise<void>((done) => server.listen(join(folders, id, runFiles.socket), done));
      server.unref();
    }
  };

  const here = import.meta.dirname;
  const events = runs * perRun;
  const rate = ({ ms }: { ms: number }) => (events / ms) * 1000;
  const { product, floor } = await alternate(
    bench.rounds,
    async () => {
      await prepare();
      const child = place.node({
        args: [...bench.nodeArguments, join(here, 'ingesting.ts'), root, String(perRun), ...ids],
      });
      const answer = await child.next<{ ms: number }>();
      await child.ended();
      return rate(answer);
    },
    async (round) => {
      await prepare();
      const args = [join(here, 'floors/insert.ts'), place.at(`floor-${round}.db`), folders, seeded.session, ...ids];
      const child = place.node({ args });
      const answer = await child.next<{ ms: number }>();
      await child.ended();
      return rate(answer);
    },
  );
  for (const server of servers) server.close();
  return [
    line({
      id: 'P1',
      what: `ingest, ${runs} runs, ${events.toLocaleString('en-US')} events: spool → committed | bare inserts by 100`,
      unit: 'events/s',
      product,
      floor,
      goals: [
        { of: 'ratio', least: 0.6 },
        { of: 'product', least: 20_000 },
      ],
    }),
  ];
}
