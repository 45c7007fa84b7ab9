import { hash } from 'node:crypto';
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteOptions } from 'fastify';
import { api, type InputOf, type OperationId, type ReplyOf } from '../src/api/api.ts';
import { IdempotencyKeyPattern } from '../src/api/common.ts';
import type { Endpoint } from '../src/api/endpoint.ts';
import { Fault } from '../src/api/error.ts';
import type { App } from '../src/app.ts';
import type { Tx } from '../src/base/db.ts';
import { crashPoint } from '../src/base/crash.ts';
import { fingerprint, type StoredAnswer } from '../src/base/idempotency.ts';
import { type Paging, paging, type TextPaging, textPaging } from '../src/base/page.ts';
import { type BytesReply, originOf, sendBytes } from './bytes.ts';
import { createLimits } from './limits.ts';
import { createLoad } from './load.ts';
import { streamRun } from './stream.ts';
import { checkBody, readId, readQuery } from './validate.ts';

/** What a handler gets besides its input. */
export interface Context {
  principal: Principal;
  /** The list's limit and cursor, bound to this endpoint with these filters. */
  paging(): Paging;
  /** The same for a list in the order of a text. */
  textPaging(): TextPaging;
  /** How the caller reaches this server: addresses that are given out begin with it. */
  origin: string;
  /** Aborts when the client has gone. */
  signal: AbortSignal;
  /** Headers of the answer, beside those that follow from the contract. */
  headers: Record<string, string>;
}

/** Who calls, as the app knows it. */
type Principal = Awaited<ReturnType<App['access']['authenticate']>>;

type Streaming = { [Id in OperationId]: (typeof api)[Id] extends { stream: true } ? Id : never }[OperationId];
type Effect<Id extends OperationId> = (typeof api)[Id]['route'] extends `GET ${string}`
  ? 'read'
  : (typeof api)[Id] extends { keyRequired: true }
    ? 'call'
    : (typeof api)[Id] extends { checkedFirst: true }
      ? 'checked'
      : 'write';
type ReadReply<Id extends OperationId> = (typeof api)[Id] extends { replyBytes: true } ? BytesReply : ReplyOf<Id>;

/** What keeps the answer of a call with its key, in the transaction of its effect. */
interface KeyRecord {
  key: string;
  keep(tx: Tx, body: { id: string }): void;
}

/**
 * A handler for every operation: one that is missing does not compile. Reading ones may wait; writing ones are plain
 * functions inside one transaction, which some of them answer after they have found something out. Calls check the words of the
 * request first and answer what goes to work, which is asked only when there is no record of the key yet.
 */
export type Handlers = {
  [Id in Exclude<OperationId, Streaming>]: Effect<Id> extends 'read'
    ? (input: InputOf<Id>, context: Context) => ReadReply<Id> | Promise<ReadReply<Id>>
    : Effect<Id> extends 'call'
      ? (input: InputOf<Id>, context: Context) => (record: KeyRecord) => Promise<ReplyOf<Id>>
      : Effect<Id> extends 'checked'
        ? (input: InputOf<Id>, context: Context) => Promise<(tx: Tx) => ReplyOf<Id>>
        : (input: InputOf<Id>, context: Context & { tx: Tx }) => ReplyOf<Id>;
};

type AnyHandler = (input: object, context: Context & { tx?: Tx }) => unknown;
type Call = (record: KeyRecord) => Promise<{ id: string }>;

/** A body as it came and, when it is JSON, as it reads. */
export interface Body {
  /** JSON as text; of raw bytes their SHA-256. */
  raw: string;
  value?: unknown;
  bytes?: Buffer;
}

/** Makes a route of every row. */
export function bind(server: FastifyInstance, app: App, handlers: Handlers): void {
  const limits = createLimits(app);
  const load = createLoad(app.clock, app.config.limits);
  for (const [id, endpoint] of Object.entries(api) as [OperationId, Endpoint][]) {
    const url = endpoint.path.replace(/\{(\w+)\}/g, ':$1');
    const route: RouteOptions = {
      method: endpoint.method,
      url,
      bodyLimit: endpoint.maxBytes ?? 1_048_576,
      config: {
        ...(endpoint.larger ? { larger: endpoint.larger } : {}),
        ...(endpoint.bodyBytes ? { bodyType: octets } : {}),
      },
      onRequest: async (request, reply) => {
        if (endpoint.open) return;
        const { authorization } = request.headers;
        request.principal = await app.access.authenticate(authorization, single(request, 'x-organization-id'));
        limits.admit(request.principal, reply);
        assertScope(request.principal, endpoint);
      },
      handler: endpoint.stream
        ? (request, reply) => streamRun(app, request, reply, readInput(endpoint, request) as never)
        : (request, reply) =>
            load.carry(() => answer(app, id, endpoint, handlers[id as keyof Handlers] as AnyHandler, request, reply)),
    };
    if (endpoint.bodyBytes) void server.register(async (scope) => takeBytes(scope).route(route));
    else server.route(route);
  }
}

const octets = 'application/octet-stream';

/** Lets the routes of a scope take raw bytes, and nothing else. */
function takeBytes(scope: FastifyInstance): FastifyInstance {
  scope.removeAllContentTypeParsers();
  scope.addContentTypeParser('*', { parseAs: 'buffer' }, (request, bytes: Buffer, done) => {
    const type = request.headers['content-type'];
    if (type !== undefined && type.split(';')[0]!.trim().toLowerCase() !== octets)
      done(new Fault('unsupported_media_type', `Send the bytes as Content-Type: ${octets}.`));
    else done(null, { raw: hash('sha256', bytes, 'hex'), bytes } satisfies Body);
  });
  return scope;
}

function assertScope({ scopes }: Principal, { scope }: Endpoint): void {
  if (scope !== null && !scopes.includes(scope))
    throw new Fault('insufficient_scope', `This needs the scope ${scope}.`, { details: { required_scope: scope } });
}

/** A header that may be given once. */
function single(request: FastifyRequest, name: string): string | undefined {
  const values = request.raw.headersDistinct[name];
  if (values && values.length > 1)
    throw new Fault('invalid_parameter', `The header ${name} is given twice.`, { param: name });
  return values?.[0];
}

function readInput(
  endpoint: Endpoint,
  request: FastifyRequest,
): { path?: object; query?: Record<string, unknown>; headers?: object; body?: unknown; bytes?: Buffer } {
  const path: Record<string, string> = {};
  for (const [name, value] of Object.entries(request.params as Record<string, string>))
    path[name] = readId(name, value);
  const query = endpoint.query && readQuery(endpoint.query, request.query as Record<string, unknown>);
  if (query && 'path' in query) assertEncoded(request.url);
  const given = request.body as Body | null | undefined;
  const headers = endpoint.headers && readHeaders(endpoint.headers, request);
  const more = { ...(query ? { query } : {}), ...(headers ? { headers } : {}) };
  if (endpoint.bodyBytes) return { path, ...more, bytes: given?.bytes ?? Buffer.alloc(0) };
  if (endpoint.body) {
    if (!given) throw new Fault('invalid_json', 'This needs a JSON body.');
    checkBody(endpoint.body, given.value);
  } else if (given) checkBody({ type: 'object', additionalProperties: false, properties: {} } as never, given.value);
  return { path, ...more, ...(endpoint.body ? { body: given!.value } : {}) };
}

/** A path must be written in percent-encoded UTF-8: what cannot be decoded would otherwise be taken as it stands. */
function assertEncoded(url: string): void {
  const [, search = ''] = /\?([^#]*)/.exec(url) ?? [];
  for (const pair of search.split('&'))
    if (pair.startsWith('path='))
      try {
        decodeURIComponent(pair);
      } catch {
        throw new Fault('invalid_path', 'The path is not percent-encoded UTF-8.', { param: 'path' });
      }
}

/** The headers that a row names. Throws `invalid_request` naming the header. */
function readHeaders(schema: object, request: FastifyRequest): Record<string, string> {
  const headers: Record<string, string> = {};
  const { properties = {} } = schema as { properties?: Record<string, { enum?: string[] }> };
  for (const [name, { enum: allowed }] of Object.entries(properties)) {
    const value = single(request, name);
    if (value === undefined) continue;
    if (allowed && !allowed.includes(value)) {
      const message = `${name} must be ${allowed.join(' or ')}`;
      throw new Fault('invalid_request', `${message}.`, {
        param: name,
        details: { errors: [{ path: name, message }] },
      });
    }
    headers[name] = value;
  }
  return headers;
}

async function answer(
  app: App,
  id: OperationId,
  endpoint: Endpoint,
  handler: AnyHandler,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { principal } = request;
  // Without a credential there is no organization, and nothing that would need one.
  const organization = endpoint.open ? '' : principal.organization_id;
  const input = readInput(endpoint, request);
  const headers: Record<string, string> = {};
  const gone = new AbortController();
  const cursors = <T>(read: typeof paging | typeof textPaging): T => {
    const { limit, cursor, ...filters } = input.query as { limit: number; cursor?: string };
    return read(app.access.cursorSecret, [id, organization, input.path, filters], { limit, cursor }) as T;
  };
  const context: Context = {
    principal,
    headers,
    signal: gone.signal,
    origin: originOf(request),
    paging: () => cursors(paging),
    textPaging: () => cursors(textPaging),
  };

  if (endpoint.effect === 'read') {
    reply.raw.once('close', () => {
      // Aborting makes an error with a stack: only for those who have really gone.
      if (!reply.raw.writableFinished) gone.abort();
    });
    const body = await handler(input, context);
    if (endpoint.replyBytes) return sendBytes(reply, body as BytesReply);
    return reply
      .headers(headers)
      .code(endpoint.status)
      .type('application/json; charset=utf-8')
      .send(JSON.stringify(body));
  }

  const key = readKey(request, endpoint);
  const print =
    key &&
    fingerprint({
      method: request.method,
      url: request.url,
      body: (request.body as Body | undefined)?.raw ?? '',
      ifMatch: single(request, 'if-match') ?? '',
      ifNoneMatch: single(request, 'if-none-match') ?? '',
    });
  const settle = (body: unknown): StoredAnswer => ({
    status: endpoint.status,
    headers: { ...headers, ...locate(endpoint, request, body) },
    ...withoutSecret(endpoint, body),
  });
  if (endpoint.effect === 'call') {
    const work = handler(input, context) as Call;
    const before = app.idempotency.find(organization, key!, print!);
    if (before) return sendStored(reply, before, true);
    const end = app.idempotency.begin(organization, key!);
    try {
      const keep = (_tx: Tx, body: { id: string }) =>
        app.idempotency.store(organization, key!, print!, body.id, settle(body));
      return sendStored(reply, settle(await work({ key: key!, keep })), false);
    } finally {
      end();
    }
  }

  // What is found out first takes time, and is not asked again when the request is only repeated.
  const known = endpoint.checkedFirst && key ? app.idempotency.find(organization, key, print!) : undefined;
  if (known) return sendStored(reply, known, true);
  const act = endpoint.checkedFirst ? ((await handler(input, context)) as (tx: Tx) => unknown) : undefined;

  crashPoint(id, 'begin');
  const { stored, replayed } = app.db.write((tx) => {
    const before = key && app.idempotency.find(organization, key, print!);
    if (before) return { stored: before, replayed: true };
    const body = act ? act(tx) : handler(input, { ...context, tx });
    const fresh = settle(body);
    crashPoint(id, 'before_commit');
    if (key) app.idempotency.store(organization, key, print!, (body as { id?: string } | null)?.id ?? null, fresh);
    return { stored: fresh, replayed: false };
  });
  crashPoint(id, 'committed');
  return sendStored(reply, stored, replayed);
}

/** The body as it is kept: what is shown once is apart. */
function withoutSecret({ secret: name }: Endpoint, body: unknown): Pick<StoredAnswer, 'body' | 'secret'> {
  if (body === null) return { body: null };
  if (name === undefined) return { body: JSON.stringify(body) };
  const value = (body as Record<string, string>)[name]!;
  return { body: JSON.stringify({ ...(body as object), [name]: null }), secret: { name, value } };
}

function sendStored(reply: FastifyReply, stored: StoredAnswer, replayed: boolean): FastifyReply {
  void reply.code(stored.status).headers(stored.headers);
  if (replayed) void reply.header('idempotent-replayed', 'true');
  const { body, secret } = stored;
  if (body === null) return reply.send();
  const shown = secret ? JSON.stringify({ ...(JSON.parse(body) as object), [secret.name]: secret.value }) : body;
  return reply.type('application/json; charset=utf-8').send(shown);
}

const keyPattern = new RegExp(IdempotencyKeyPattern);

function readKey(request: FastifyRequest, { keyRequired, open }: Endpoint): string | undefined {
  if (open) return undefined;
  const values = request.raw.headersDistinct['idempotency-key'];
  if (values === undefined && keyRequired)
    throw new Fault('idempotency_key_required', 'This needs an Idempotency-Key, so that it can be repeated safely.', {
      param: 'Idempotency-Key',
    });
  if (values === undefined) return undefined;
  const [key = ''] = values;
  if (values.length !== 1 || !keyPattern.test(key))
    throw new Fault('invalid_idempotency_key', 'An Idempotency-Key is 1 to 255 visible ASCII characters, given once.', {
      param: 'Idempotency-Key',
    });
  return key;
}

/** Where what was made can be found. */
function locate(endpoint: Endpoint, request: FastifyRequest, body: unknown): Record<string, string> {
  const { id } = (body ?? {}) as { id?: string };
  if (id === undefined) return {};
  const { title } = (endpoint.reply ?? {}) as { title?: string };
  if (title === 'Operation') return { location: `/v1/operations/${id}` };
  if (title === 'RunAccepted') return { location: `/v1/runs/${id}` };
  if (title === 'Session' && endpoint.status === 201) return { location: `/v1/sessions/${id}` };
  if (endpoint.status === 201 && canBeGot(endpoint)) return { location: `${request.url.split('?')[0]}/${id}` };
  return {};
}

/** Whether what was made has an address below the list's. */
const canBeGot = ({ path }: Endpoint): boolean =>
  (Object.values(api) as Endpoint[]).some(
    (other) => other.method === 'GET' && other.path.startsWith(`${path}/{`) && other.path.endsWith('}'),
  );

declare module 'fastify' {
  interface FastifyRequest {
    principal: Principal;
  }
}
