import { writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { Daemon, forgetHighest, homeIn, resident } from './daemon.ts';
import { alternate, type Line, line, now } from './measure.ts';
import { type Bench, Place } from './place.ts';
import { fillEvents, openToFill, seed } from './seed.ts';

interface Replay {
  ms: number;
  firstByte: number;
  bytes: Buffer[];
}

/** Reads a whole answer over a bare socket. The first byte is that of the first event, not of the headers. */
function read(url: URL, path: string, headers: Record<string, string>, keep: boolean): Promise<Replay> {
  const began = now();
  return new Promise((resolve, reject) => {
    const socket = connect(Number(url.port), url.hostname);
    const bytes: Buffer[] = [];
    let firstByte = 0;
    let count = 0;
    socket.on('connect', () => {
      const own = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
      socket.write(`GET ${path} HTTP/1.1\r\nHost: ${url.host}\r\n${own.join('')}Connection: close\r\n\r\n`);
    });
    socket.on('data', (part) => {
      if (firstByte === 0 && (count > 4096 || part.includes('id: 1\n'))) firstByte = now() - began;
      count += part.length;
      if (keep) bytes.push(part);
    });
    socket.on('close', () => resolve({ ms: now() - began, firstByte, bytes }));
    socket.on('error', reject);
  });
}

/** The body of an answer in chunks. */
function unchunk(answer: Buffer): Buffer {
  const parts: Buffer[] = [];
  let at = answer.indexOf('\r\n\r\n') + 4;
  for (;;) {
    const end = answer.indexOf('\r\n', at);
    const length = Number.parseInt(answer.toString('latin1', at, end), 16);
    if (!(length > 0)) return Buffer.concat(parts);
    parts.push(answer.subarray(end + 2, end + 2 + length));
    at = end + 2 + length + 2;
  }
}

/** P3: the whole stored history of a run to one client. */
export default async function replay(bench: Bench): Promise<Line[]> {
  await using place = new Place();
  const events = 100_000;
  const root = place.at('home');
  const home = homeIn(root);
  const seeded = await seed(home);
  const sqlite = openToFill(home);
  fillEvents(sqlite, seeded, { id: seeded.run, key: seeded.key }, events);
  sqlite.close();

  const daemon = await Daemon.start(bench, place, root);
  const path = `/v1/runs/${seeded.run}/stream`;
  const first = await read(daemon.url, path, daemon.headers, true);
  const body = unchunk(Buffer.concat(first.bytes));
  const got = body.toString('latin1').split('\nevent: ').length - 1;
  if (got !== events) throw new Error(`${got} of ${events} events came.`);
  writeFileSync(place.at('body'), body);
  const bare = place.node({ args: [join(import.meta.dirname, 'floors/static-file.js'), place.at('body')] });
  const url = new URL((await bare.next<{ url: string }>()).url);
  await read(url, '/', {}, false);
  await read(daemon.url, path, daemon.headers, false);

  const { product, floor } = await alternate(
    Math.max(5, bench.rounds),
    async () => {
      const before = resident(daemon.child.pid);
      forgetHighest(daemon.child.pid);
      const one = await read(daemon.url, path, daemon.headers, false);
      return { ...one, growth: Math.max(0, resident(daemon.child.pid, 'VmHWM') - before) };
    },
    () => read(url, '/', {}, false),
  );
  await daemon.stop();
  const rate = ({ ms }: Replay) => (events / ms) * 1000;
  return [
    line({
      id: 'P3',
      what: `replay of 100,000 events (${Math.round(body.length / 1e6)} MB) to one client | static file over node http`,
      unit: 'events/s',
      product: product.map(rate),
      floor: floor.map(rate),
      goals: [{ of: 'ratio', least: 0.5 }],
    }),
    line({
      id: 'P3',
      what: 'its first event at the client | first byte of the file',
      unit: 'ms',
      product: product.map(({ firstByte }) => firstByte),
      floor: floor.map(({ firstByte }) => firstByte),
      goals: [{ of: 'product', most: 20 }],
    }),
    line({
      id: 'P3',
      what: 'highest memory of the daemon during a replay, above what it had before (flat: no more than 16 MB)',
      unit: 'MB',
      product: product.map(({ growth }) => growth / 1e6),
      goals: [{ of: 'product', most: 16 }],
    }),
  ];
}
