import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Appended } from './live.ts';
import { now, quantile } from './measure.ts';

/** What the listeners are asked: to open so many streams, or what came of them. */
export type Question =
  | { open: { url: string; path: string; token: string; clients: number } }
  | { answer: Appended }
  | { close: true };
/** How long it took from the commits to the clients, in milliseconds, and how much of what was due has come. */
export interface Latency {
  p50: number;
  p99: number;
  deliveries: number;
  missing: number;
}

/** The clients of P2, many in one process: bare sockets, so that they take as little as can be from the server's time. */
let sockets: Socket[] = [];
let arrivals: [sequence: number, at: number][] = [];

function listenOn(url: string, path: string, token: string): Promise<Socket> {
  const { hostname, port, host } = new URL(url);
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname);
    let rest = '';
    socket.setNoDelay(true);
    socket.on('connect', () =>
      socket.write(
        `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${token}\r\nAccept: text/event-stream\r\n\r\n`,
      ),
    );
    socket.on('data', (bytes) => {
      const at = now();
      const text = rest + bytes.toString('latin1');
      let read = 0;
      for (const { 1: sequence, 0: match, index } of text.matchAll(/(?:^|\n)id: (\d+)\n/g)) {
        arrivals.push([Number(sequence), at]);
        read = index + match.length;
      }
      rest = text.slice(Math.max(read, text.length - 32));
      if (text.includes('retry: 1000')) resolve(socket);
    });
    socket.on('error', reject);
  });
}

async function answer(question: Question): Promise<void> {
  if ('open' in question) {
    const { url, path, token, clients } = question.open;
    arrivals = [];
    while (sockets.length < clients)
      sockets.push(
        ...(await Promise.all(
          Array.from({ length: Math.min(50, clients - sockets.length) }, () => listenOn(url, path, token)),
        )),
      );
    await sleep(200);
    process.send!({});
  } else if ('answer' in question) {
    await sleep(300);
    const commits = new Map(question.answer.commits);
    const times = arrivals.flatMap(([sequence, at]) => (commits.has(sequence) ? [at - commits.get(sequence)!] : []));
    const due = commits.size * sockets.length;
    process.send!({
      p50: quantile(times, 0.5),
      p99: quantile(times, 0.99),
      deliveries: times.length,
      missing: due - times.length,
    } satisfies Latency);
    for (const socket of sockets) socket.destroy();
    sockets = [];
  } else process.exit(0);
}

process.on('message', (question: Question) => void answer(question));
process.on('disconnect', () => process.exit(0));
