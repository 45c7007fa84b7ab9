import type { FastifyReply, FastifyRequest } from 'fastify';
import { Fault } from '../src/api/error.ts';
import { isTerminal } from '../src/api/runs.ts';
import type { App } from '../src/app.ts';

/** Events read of the log at once. */
const pageOf = 500;
const heartbeatEvery = 15_000;
const rotateAfter = 55_000;
const rotateSpread = 3_000;
/** What a reader may leave unread, in bytes, before it is given no more; and for how long, in milliseconds, before it is cut off. */
const maxUnread = 262_144;
const patience = 15_000;

interface Stretch {
  /** The cursor that it comes after. */
  from: number;
  last: number;
  terminal: boolean;
  bytes: Buffer;
}

/** The newest stretch of a run's stream, encoded once for all who are up to date. */
const edges = new WeakMap<App, Map<number, Stretch>>();
const open = new WeakMap<App, number>();

/**
 * `GET /v1/runs/{id}/stream` (contract section 8). Each reader has its own cursor; after a wake-up it reads the log from
 * there, so that backlog and live are one loop with no seam. A slow reader is given no more until it has read.
 */
export async function streamRun(
  app: App,
  request: FastifyRequest,
  reply: FastifyReply,
  { path, query }: { path: { run_id: string }; query: { after?: string } },
): Promise<void> {
  const run = app.runs.find(request.principal.organization_id, path.run_id);
  const given = readCursor(request, query.after);
  let cursor = given ?? 0;
  if (isTerminal(run.status) && cursor >= run.last_sequence) {
    void reply.code(204).send();
    return;
  }
  if (given !== null) app.events.assertRetained(run, given);
  if (request.method === 'HEAD') {
    void reply.type('text/event-stream; charset=utf-8').send();
    return;
  }
  const count = open.get(app) ?? 0;
  if (count >= app.config.server.max_streams)
    throw new Fault('rate_limited', 'Too many event streams are open.', { headers: { 'retry-after': '5' } });
  open.set(app, count + 1);

  const { raw } = reply;
  reply.hijack();
  raw.writeHead(200, {
    ...(reply.getHeaders() as Record<string, string>),
    'content-type': 'text/event-stream; charset=utf-8',
    'x-accel-buffering': 'no',
  });
  raw.write('retry: 1000\n\n');

  let waiting = false;
  let ended = false;
  let cancelPatience = () => {};
  const { clock } = app;

  const pump = () => {
    if (waiting || ended) return;
    for (;;) {
      const block = nextBlock(app, run.key, cursor);
      if (!block) return;
      cursor = block.last;
      const room = raw.write(block.bytes);
      if (block.terminal) return finish();
      if (!room && raw.writableLength > maxUnread) {
        waiting = true;
        cancelPatience = clock.timer(patience, () => raw.destroy());
        return;
      }
    }
  };
  const finish = () => {
    ended = true;
    raw.end();
  };

  const unfollow = app.events.follow(run.key, pump);
  let cancelHeartbeat = () => {};
  const beat = () => {
    if (!waiting) raw.write(': heartbeat\n\n');
    cancelHeartbeat = clock.timer(heartbeatEvery, beat);
  };
  cancelHeartbeat = clock.timer(heartbeatEvery, beat);
  const spread = (clock.random(2).readUInt16LE() / 65_535) * 2 - 1;
  const cancelRotation = clock.timer(rotateAfter + spread * rotateSpread, finish);

  raw.on('drain', () => {
    cancelPatience();
    waiting = false;
    pump();
  });
  raw.on('error', () => {});
  raw.once('close', () => {
    ended = true;
    unfollow();
    cancelPatience();
    cancelHeartbeat();
    cancelRotation();
    open.set(app, (open.get(app) ?? 1) - 1);
  });
  pump();
}

/** The stretch after a cursor: the one that was just encoded for others, if it fits. */
function nextBlock(app: App, run: number, cursor: number): Stretch | undefined {
  let edge = edges.get(app);
  if (!edge) edges.set(app, (edge = new Map()));
  const known = edge.get(run);
  if (known?.from === cursor) return known;
  const block = app.events.block(run, cursor, pageOf);
  if (!block) return undefined;
  const fresh = { from: cursor, last: block.last, terminal: block.terminal, bytes: Buffer.from(block.text) };
  edge.delete(run);
  edge.set(run, fresh);
  // A handful of runs is watched at a time; the rest need no memory.
  if (edge.size > 64) edge.delete(edge.keys().next().value!);
  return fresh;
}

/** The sequence after which to go on, or null when none is given: Last-Event-ID beats `after`. Throws `invalid_cursor`. */
function readCursor(request: FastifyRequest, after: string | undefined): number | null {
  const header = request.raw.headersDistinct['last-event-id'];
  const [value] = header ?? [after];
  if (value === undefined) return null;
  if ((header && header.length > 1) || !/^[0-9]+$/.test(value))
    throw new Fault('invalid_cursor', 'A stream cursor is a sequence: digits only.', {
      param: header ? 'Last-Event-ID' : 'after',
    });
  return Math.min(Number(value), Number.MAX_SAFE_INTEGER);
}
