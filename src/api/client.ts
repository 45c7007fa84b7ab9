import type { ClientRequest, IncomingMessage } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { api, type CallInput, type OperationId, type ReplyOf } from './api.ts';
import type { Method } from './endpoint.ts';
import { Fault, type FaultOptions } from './error.ts';
import { type Event, terminalEvents } from './events.ts';
import { decode } from './sse.ts';

export { Fault } from './error.ts';
export type { ErrorCode } from './error.ts';
export type { CallInput, InputOf, OperationId, ReplyOf } from './api.ts';
export type { Event } from './events.ts';

/** Where the daemon is and who asks. With `socket` the unix socket is used and `url` only names the host. */
export interface Target {
  url: string;
  token?: string | null;
  socket?: string | null;
  /** The id of the organization to act in, where the caller has several. */
  organization?: string | null;
}

/** One HTTP exchange as a transport sees it. */
export interface Exchange extends Target {
  method: string;
  /** Path and query. */
  path: string;
  headers: Record<string, string>;
  body: string | Uint8Array | AsyncIterable<Uint8Array> | null;
  signal?: AbortSignal | undefined;
  /** Give up after this many milliseconds without a byte. */
  idleMs: number;
}

/** An answer whose body has not been read. */
export interface Answer {
  status: number;
  headers: Record<string, string>;
  body: AsyncIterable<Uint8Array>;
}

/** Sends an exchange. It throws Unreachable when there is no answer to be had. */
export type Transport = (exchange: Exchange) => Promise<Answer>;

/** Nobody answered, or the connection broke off. Repeating a request with the same Idempotency-Key is safe. */
export class Unreachable extends Error {
  override name = 'Unreachable';
  readonly url: string;
  constructor(url: string, cause: unknown) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    super(`The agentctl daemon at ${url} does not answer: ${reason}`, { cause });
    this.url = url;
  }
}

/** An answer that is not in the words of this API: a newer daemon's, or some other program's. */
export class UnexpectedAnswer extends Error {
  override name = 'UnexpectedAnswer';
  readonly status: number;
  readonly requestId: string | null;
  constructor(status: number, text: string, requestId: string | null) {
    const said = errorMessage(text);
    super(
      said ??
        `The server answered ${status}${text ? ` with something that is not of this API: ${text.slice(0, 200)}` : ''}.`,
    );
    this.status = status;
    this.requestId = requestId;
  }
}

/** What may be said besides an operation's own input. */
export interface CallOptions {
  idempotencyKey?: string | undefined;
  headers?: Record<string, string>;
  signal?: AbortSignal | undefined;
  /** Give up after this many milliseconds without a byte; 75 s when absent, longer than any long poll. */
  idleMs?: number;
}

/** A request in plain HTTP words, for what the rows do not cover. */
export interface RawRequest extends CallOptions {
  query?: Record<string, unknown> | undefined;
  /** Sent as JSON unless it is text already, or bytes, which may come in pieces. */
  body?: unknown;
}

/** A whole answer, whatever its status. */
export interface RawAnswer {
  status: number;
  headers: Record<string, string>;
  text: string;
}

/** `lost` while a stream is without a connection, `open` when it has one. */
export type ConnectionState = 'open' | 'lost';

export interface FollowOptions {
  /** The last sequence that is known already; 0 for everything. */
  after?: number;
  signal?: AbortSignal | undefined;
  onConnection?: (state: ConnectionState) => void;
  /** Events `from`..`to` are no longer kept and are left out. */
  onGap?: (gap: { from: number; to: number }) => void;
}

type CallArguments<Id extends OperationId> =
  object extends CallInput<Id>
    ? [input?: CallInput<Id>, options?: CallOptions]
    : [input: CallInput<Id>, options?: CallOptions];

interface AnyInput {
  path?: Record<string, string>;
  query?: Record<string, unknown>;
  body?: unknown;
  bytes?: Uint8Array;
  headers?: Record<string, string>;
}

/** The operations that answer a page, and what is on it. */
export type Listing = {
  [Id in OperationId]: ReplyOf<Id> extends { next_cursor: string | null } ? Id : never;
}[OperationId];
export type ItemOf<Id extends Listing> = ReplyOf<Id> extends { data: (infer Item)[] } ? Item : never;

/** The API of one daemon. Every method throws Fault, Unreachable or UnexpectedAnswer. */
export interface Client {
  /** Calls an operation by its name in `api`. */
  call<Id extends OperationId>(id: Id, ...rest: CallArguments<Id>): Promise<ReplyOf<Id>>;
  /** Calls a mutating operation until it is answered, always with the same Idempotency-Key; for at most `patienceMs`. */
  insist<Id extends OperationId>(
    id: Id,
    input: CallInput<Id>,
    options?: CallOptions & { patienceMs?: number },
  ): Promise<ReplyOf<Id>>;
  /** Every item of a listing, page by page. */
  each<Id extends Listing>(id: Id, input: CallInput<Id>, options?: CallOptions): AsyncGenerator<ItemOf<Id>, void, void>;
  /** Any request; the answer is given whatever its status. */
  raw(method: string, path: string, request?: RawRequest): Promise<RawAnswer>;
  /** The same, with the body still to be read: for bytes, and for more than fits into memory. */
  open(method: string, path: string, request?: RawRequest): Promise<Answer>;
  /** The events of a run, each once and in order, until its terminal event. Reconnects in silence for ever. */
  follow(runId: string, options?: FollowOptions): AsyncGenerator<Event, void, void>;
}

export interface ClientOptions {
  /** Default: node:http, over TCP or the unix socket. */
  transport?: Transport;
  /** Shown to the server as User-Agent. */
  userAgent?: string;
}

/** A client of the daemon at `target`. A function is asked anew for each request, so that it may follow a daemon that moves. */
export function createClient(target: Target | (() => Target | Promise<Target>), options: ClientOptions = {}): Client {
  const transport = options.transport ?? overHttp;
  const locate = typeof target === 'function' ? target : () => target;

  async function send(
    method: string,
    path: string,
    { query, body, ...call }: RawRequest,
    accept: string,
  ): Promise<Answer> {
    const where = await locate();
    const headers: Record<string, string> = { accept, 'user-agent': options.userAgent ?? 'agentctl-client' };
    if (where.token) headers.authorization = `Bearer ${where.token}`;
    if (where.organization) headers['x-organization-id'] = where.organization;
    if (call.idempotencyKey) headers['idempotency-key'] = call.idempotencyKey;
    const bytes = body === undefined || body === null ? null : isBytes(body) ? body : toText(body);
    if (bytes !== null) {
      headers['content-type'] = typeof bytes === 'string' ? 'application/json' : 'application/octet-stream';
      if (typeof bytes === 'string' || bytes instanceof Uint8Array)
        headers['content-length'] = String(Buffer.byteLength(bytes));
    }
    for (const [name, value] of Object.entries(call.headers ?? {})) headers[name.toLowerCase()] = value;
    const exchange = { ...where, method, path: path + search(query), headers, body: bytes };
    return transport({ ...exchange, signal: call.signal, idleMs: call.idleMs ?? 75_000 });
  }

  async function raw(method: string, path: string, request: RawRequest = {}): Promise<RawAnswer> {
    const { status, headers, body } = await send(method, path, request, 'application/json');
    return { status, headers, text: await textOf(body) };
  }

  const call: Client['call'] = async (id, ...[input, callOptions]) => {
    const { method, path } = api[id] as { method: Method; path: string };
    const { path: names, query, body, bytes, headers } = (input ?? {}) as AnyInput;
    const all = { ...callOptions?.headers, ...headers };
    const answer = await raw(method, fill(path, names), { ...callOptions, headers: all, query, body: bytes ?? body });
    if (answer.status >= 400) throw failureOf(answer);
    return (answer.text === '' ? null : parse(answer)) as never;
  };

  const insist: Client['insist'] = async (id, input, { patienceMs = 30_000, ...callOptions } = {}) => {
    const idempotencyKey = callOptions.idempotencyKey ?? crypto.randomUUID();
    const until = Date.now() + patienceMs;
    for (let attempt = 1; ; attempt++) {
      try {
        return await call(id, ...([input, { ...callOptions, idempotencyKey }] as unknown as CallArguments<typeof id>));
      } catch (error) {
        if (!mayPass(error) || Date.now() > until || callOptions.signal?.aborted) throw error;
        await pause(attempt, callOptions.signal);
      }
    }
  };

  async function* each<Id extends Listing>(id: Id, input: CallInput<Id>, callOptions: CallOptions = {}) {
    let cursor: string | null = null;
    do {
      const query = { ...(input as { query?: object }).query, ...(cursor ? { cursor } : {}) };
      const page = (await call(id, ...([{ ...input, query }, callOptions] as unknown as CallArguments<Id>))) as {
        data: ItemOf<Id>[];
        next_cursor: string | null;
      };
      yield* page.data;
      cursor = page.next_cursor;
    } while (cursor);
  }

  async function* follow(runId: string, { after = 0, signal, onConnection, onGap }: FollowOptions = {}) {
    const path = fill(api.streamRun.path, { run_id: runId });
    let last = after;
    let failed = 0;
    let refused = false;
    while (!signal?.aborted) {
      const openedAt = Date.now();
      let heard = false;
      try {
        const request = { query: { after: last }, headers: { 'last-event-id': String(last) }, signal, idleMs: 40_000 };
        const answer = await send('GET', path, request, 'text/event-stream');
        if (answer.status === 204) return;
        if (answer.status !== 200) throw failureOf({ ...answer, text: await textOf(answer.body) });
        onConnection?.('open');
        refused = false;
        for await (const { data } of decode(answer.body)) {
          const event = JSON.parse(data) as Event;
          if (event.sequence <= last) continue;
          heard = true;
          last = event.sequence;
          yield event;
          if (terminalEvents.includes(event.type)) return;
        }
      } catch (error) {
        if (signal?.aborted) return;
        if (error instanceof Fault && error.code === 'cursor_expired') {
          const oldest = Number(error.details.oldest_sequence);
          if (!(oldest > last + 1)) throw error;
          onGap?.({ from: last + 1, to: oldest - 1 });
          last = oldest - 1;
          continue;
        }
        // A daemon that has just been restarted may have a new token: read the credentials once more before giving up.
        const again = error instanceof Fault && error.code === 'unauthenticated' && !refused;
        if (again) refused = true;
        else if (!mayPass(error)) throw error;
      }
      // Streams are closed by plan between events; only one that ends at once is waited for.
      if (heard || Date.now() - openedAt > 5000) failed = 0;
      if (heard && failed === 0) continue;
      onConnection?.('lost');
      await pause(++failed, signal);
    }
  }

  const open: Client['open'] = (method, path, request = {}) => send(method, path, request, '*/*');

  return { call, insist, each, raw, open, follow };
}

/** Whether the same request may well succeed a little later. */
function mayPass(error: unknown): boolean {
  if (error instanceof Fault) {
    return ['unavailable', 'rate_limited', 'internal_error', 'idempotency_in_progress'].includes(error.code);
  }
  return error instanceof Unreachable || (error instanceof UnexpectedAnswer && error.status >= 500);
}

/** Waits 50 ms to 2 s, longer with each attempt, with jitter; returns early when aborted. */
async function pause(attempt: number, signal?: AbortSignal): Promise<void> {
  const ceiling = Math.min(2000, 50 * 2 ** Math.min(attempt - 1, 10));
  await sleep(ceiling * (0.5 + Math.random() / 2), undefined, signal ? { signal } : {}).catch(() => {});
}

/** node:http starts as fast as global fetch and speaks over a unix socket too. */
async function overHttp(exchange: Exchange): Promise<Answer> {
  const { url, socket, method, path, headers, body, signal, idleMs } = exchange;
  const base = new URL(url);
  // An import would read every export of these modules, some of which load much more: that costs a command 20 ms.
  const open = process.getBuiltinModule(base.protocol === 'https:' ? 'node:https' : 'node:http').request;
  const message = await new Promise<IncomingMessage>((resolve, reject) => {
    const broken = (cause: unknown) => reject(signal?.aborted ? (signal.reason as Error) : new Unreachable(url, cause));
    const where = socket ? { socketPath: socket } : { host: base.hostname.replace(/^\[|\]$/g, ''), port: base.port };
    const request = open({
      ...where,
      method,
      path: base.pathname.replace(/\/$/, '') + path,
      headers: { host: base.host, ...headers },
      signal,
    });
    request.on('response', resolve).on('error', broken);
    request.setTimeout(idleMs, () => request.destroy(new Error(`nothing came for ${idleMs / 1000} s`)));
    if (body === null || typeof body === 'string' || body instanceof Uint8Array) request.end(body ?? undefined);
    else pour(body, request).catch((error: Error) => request.destroy(error));
  });
  const answered = Object.entries(message.headers).map(([name, value]) => [
    name,
    Array.isArray(value) ? value.join(', ') : (value ?? ''),
  ]);
  return {
    status: message.statusCode ?? 0,
    headers: Object.fromEntries(answered),
    body: bytesOf(message, url, signal),
  };
}

/** Sends a body in pieces, no faster than they are taken. */
async function pour(body: AsyncIterable<Uint8Array>, request: ClientRequest): Promise<void> {
  for await (const piece of body) {
    if (request.destroyed) return;
    if (!request.write(piece)) await new Promise((resolve) => request.once('drain', resolve).once('close', resolve));
  }
  request.end();
}

const isBytes = (body: unknown): body is Uint8Array | AsyncIterable<Uint8Array> =>
  body instanceof Uint8Array || (typeof body === 'object' && body !== null && Symbol.asyncIterator in body);

const toText = (body: unknown): string => (typeof body === 'string' ? body : JSON.stringify(body));

async function* bytesOf(
  message: IncomingMessage,
  url: string,
  signal?: AbortSignal,
): AsyncGenerator<Uint8Array, void, void> {
  try {
    yield* message;
  } catch (error) {
    throw signal?.aborted ? signal.reason : new Unreachable(url, error);
  } finally {
    if (!message.complete) message.destroy();
  }
}

async function textOf(body: AsyncIterable<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of body) chunks.push(chunk);
  return Buffer.concat(chunks).toString('utf8');
}

/** `{run_id}` in a row's path becomes the escaped value. */
function fill(path: string, names: Record<string, string> = {}): string {
  return path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const value = names[name];
    if (!value) throw new TypeError(`The path ${path} needs a value for ${name}.`);
    return encodeURIComponent(value);
  });
}

function search(query: Record<string, unknown> = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
  return given.length
    ? `?${new URLSearchParams(given.map(([name, value]): [string, string] => [name, String(value)])).toString()}`
    : '';
}

function parse(answer: RawAnswer): unknown {
  try {
    return JSON.parse(answer.text);
  } catch {
    throw new UnexpectedAnswer(answer.status, answer.text, answer.headers['x-request-id'] ?? null);
  }
}

/** The error that an answer of 400 and above stands for. */
export function failureOf({ status, headers, text }: RawAnswer): Fault | UnexpectedAnswer {
  const requestId = headers['x-request-id'] ?? null;
  let fault: Fault | undefined;
  try {
    fault = Fault.from(JSON.parse(text), headers);
  } catch {
    // Not JSON: said below.
  }
  if (!fault) return new UnexpectedAnswer(status, text, requestId);
  if (fault.requestId || !requestId) return fault;
  const { code, message, param, details } = fault;
  const rest: FaultOptions = { details, headers, requestId, ...(param ? { param } : {}) };
  return new Fault(code, message, rest);
}

function errorMessage(text: string): string | null {
  try {
    const message = (JSON.parse(text) as { error?: { message?: unknown } }).error?.message;
    return typeof message === 'string' ? message : null;
  } catch {
    return null;
  }
}
