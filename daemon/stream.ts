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

type Block = NonNullable<ReturnType<App['events']['block']>>;

/** What the readers of a run have in common. */
interface Edge {
  readers: number;
  /** The newest stretch and the cursor that it comes after: encoded once for all who are up to date. */
  newest: { from: number; block: Block } | undefined;
  /** After this sequence there is nothing until the next wake-up: readers who are up to date need not ask, each for himself. */
  end: number | undefined;
  unfollow: () => void;
}
const edges = new WeakMap<App, Map<number, Edge>>();
/** Streams that are open: of each credential, and `all`. */
const open = new WeakMap<App, Map<string, number>>();

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
  const leave = enter(app, request.principal);

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
      const block = nextBlock(app, run.key, edge, cursor);
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

  const edge = joinEdge(app, run.key);
  const unfollow = app.events.follow(run.key, pump);
  let cancelHeartbeat = () => {};
  const beat = () => {
    if (!waiting) raw.write(': heartbeat\n\n');
    cancelHeartbeat = clock.timer(heartbeatEvery, beat);
  };
  cancelHeartbeat = clock.timer(heartbeatEvery, beat);
  const spread = (clock.random(2).readUInt16LE() / 65_535) * 2 - 1;
  const cancelRotation = clock.timer(rotateAfter + spread * rotateSpread, finish);

  // What a reader on this machine is given is gone at once, and `drain` comes before the loop has turned: the others first.
  raw.on('drain', () => {
    if (!waiting) return;
    cancelPatience();
    setImmediate(() => {
      waiting = false;
      pump();
    });
  });
  raw.on('error', () => {});
  raw.once('close', () => {
    ended = true;
    unfollow();
    leaveEdge(app, run.key, edge);
    cancelPatience();
    cancelHeartbeat();
    cancelRotation();
    leave();
  });
  pump();
}

/** Counts a stream, in all and of its credential; the answer counts it off. Throws `rate_limited`. */
function enter(app: App, { credential, id }: FastifyRequest['principal']): () => void {
  let counts = open.get(app);
  if (!counts) open.set(app, (counts = new Map()));
  const { server, limits } = app.config;
  const all = counts.get('all') ?? 0;
  const own = counts.get(id) ?? 0;
  if (all >= server.max_streams || (credential !== 'session' && own >= limits.streams))
    throw new Fault('rate_limited', 'Too many event streams are open.', { headers: { 'retry-after': '5' } });
  counts.set('all', all + 1).set(id, own + 1);
  return () => {
    counts.set('all', counts.get('all')! - 1);
    const left = counts.get(id)! - 1;
    if (left > 0) counts.set(id, left);
    else counts.delete(id);
  };
}

/** The run's edge. Its first reader makes it before he follows the run himself: so each wake-up reaches the edge first. */
function joinEdge(app: App, run: number): Edge {
  let all = edges.get(app);
  if (!all) edges.set(app, (all = new Map()));
  let edge = all.get(run);
  if (!edge) {
    const made: Edge = { readers: 0, newest: undefined, end: undefined, unfollow: () => {} };
    made.unfollow = app.events.follow(run, () => (made.end = undefined));
    all.set(run, (edge = made));
  }
  edge.readers += 1;
  return edge;
}

function leaveEdge(app: App, run: number, edge: Edge): void {
  edge.readers -= 1;
  if (edge.readers > 0) return;
  edge.unfollow();
  edges.get(app)?.delete(run);
}

/** The stretch after a cursor: the one that was just encoded for others, if it fits. */
function nextBlock(app: App, run: number, edge: Edge, cursor: number): Block | undefined {
  if (edge.end === cursor) return undefined;
  if (edge.newest?.from === cursor) return edge.newest.block;
  const block = app.events.block(run, cursor, pageOf);
  if (!block || block.count < pageOf) edge.end = block?.last ?? cursor;
  if (block) edge.newest = { from: cursor, block };
  return block;
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
