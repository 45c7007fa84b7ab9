import Database from 'better-sqlite3';
import fastify from 'fastify';
import { createHash, timingSafeEqual } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { liveText, serveAppends } from '../live.ts';
import { now } from '../measure.ts';

/**
 * The floor of P2: fastify, better-sqlite3 with WAL and FULL, and one raw write of the same bytes to every client after each
 * commit. `node stream-server.ts <database> <run id> <token>` answers `{ url }`, then as `live.ts` says.
 */
const [path = '', run = '', token = ''] = process.argv.slice(2);
const sqlite = new Database(path);
sqlite.pragma('journal_mode = WAL');
sqlite.pragma('synchronous = FULL');
sqlite.exec(`
  CREATE TABLE events (key INTEGER PRIMARY KEY AUTOINCREMENT, run INTEGER NOT NULL, sequence INTEGER NOT NULL, type TEXT NOT NULL,
                       body TEXT NOT NULL) STRICT;
  CREATE UNIQUE INDEX events_of_run ON events (run, sequence);`);
const insert = sqlite.prepare('INSERT INTO events (run, sequence, type, body) VALUES (1, ?, ?, ?)');

const hash = (text: string) => createHash('sha256').update(text).digest();
const expected = hash(token);
const clients = new Set<ServerResponse>();
const server = fastify({ logger: false, forceCloseConnections: true });
server.get('/v1/runs/:id/stream', (request, reply) => {
  const [, given = ''] = /^Bearer +(\S+)$/.exec(request.headers.authorization ?? '') ?? [];
  if (!timingSafeEqual(hash(given), expected)) return reply.code(401).send();
  reply.hijack();
  reply.raw.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
  reply.raw.write('retry: 1000\n\n');
  clients.add(reply.raw);
  reply.raw.on('close', () => clients.delete(reply.raw));
  return reply;
});
await server.listen({ host: '127.0.0.1', port: 0 });

let sequence = 0;
serveAppends(() => {
  sequence += 1;
  const body = `{"id":"${sequence}","sequence":${sequence},"run_id":"${run}","session_id":"${run}",${liveText().slice(1)}`;
  insert.run(sequence, 'message.delta', body);
  const at = now();
  const bytes = Buffer.from(`id: ${sequence}\nevent: message.delta\ndata: ${body}\n\n`);
  for (const client of clients) client.write(bytes);
  return [sequence, at];
});
process.send!({ url: `http://127.0.0.1:${(server.server.address() as AddressInfo).port}` });
