import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { api, type InputOf, type OperationId, type ReplyOf } from '../src/api/api.ts';
import { IdempotencyKeyPattern } from '../src/api/common.ts';
import type { Endpoint } from '../src/api/endpoint.ts';
import { Fault } from '../src/api/error.ts';
import type { App } from '../src/app.ts';
import type { Tx } from '../src/base/db.ts';
import { crashPoint } from '../src/base/crash.ts';
import { fingerprint, type StoredAnswer } from '../src/base/idempotency.ts';
import { type Paging, paging } from '../src/base/page.ts';
import { streamRun } from './stream.ts';
import { checkBody, readQuery } from './validate.ts';

/** What a handler gets besides its input. */
export interface Context {
  principal: Principal;
  /** The list's limit and cursor, bound to this endpoint with these filters. */
  paging(): Paging;
  /** Aborts when the client has gone. */
  signal: AbortSignal;
  /** Headers of the answer, beside those that follow from the contract. */
  headers: Record<string, string>;
}

/** Who calls, as the app knows it. */
type Principal = ReturnType<App['access']['authenticate']>;

type Streaming = { [Id in OperationId]: (typeof api)[Id] extends { stream: true } ? Id : never }[OperationId];
type Effect<Id extends OperationId> = (typeof api)[Id]['route'] extends `GET ${string}` ? 'read' : 'write';

/**
 * A handler for every operation: one that is missing does not compile. Reading ones may wait; writing ones are plain
 * functions inside one transaction.
 */
export type Handlers = {
  [Id in Exclude<OperationId, Streaming>]: Effect<Id> extends 'read'
    ? (input: InputOf<Id>, context: Context) => ReplyOf<Id> | Promise<ReplyOf<Id>>
    : (input: InputOf<Id>, context: Context & { tx: Tx }) => ReplyOf<Id>;
};

type AnyHandler = (input: object, context: Context & { tx?: Tx }) => unknown;

/** A JSON body as it came and as it reads. */
export interface Body {
  raw: string;
  value: unknown;
}

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Makes a route of every row. */
export function bind(server: FastifyInstance, app: App, handlers: Handlers): void {
  for (const [id, endpoint] of Object.entries(api) as [OperationId, Endpoint][]) {
    const url = endpoint.path.replace(/\{(\w+)\}/g, ':$1');
    server.route({
      method: endpoint.method,
      url,
      bodyLimit: endpoint.maxBytes ?? 1_048_576,
      onRequest: async (request) => {
        request.principal = app.access.authenticate(
          request.headers.authorization,
          single(request, 'x-organization-id'),
        );
        assertScope(request.principal, endpoint);
      },
      handler: endpoint.stream
        ? (request, reply) => streamRun(app, request, reply, readInput(endpoint, request) as never)
        : (request, reply) => answer(app, id, endpoint, handlers[id as keyof Handlers] as AnyHandler, request, reply),
    });
  }
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
): { path?: object; query?: Record<string, unknown>; body?: unknown } {
  const path: Record<string, string> = {};
  for (const [name, value] of Object.entries(request.params as Record<string, string>)) {
    path[name] = value.toLowerCase();
    if (!uuid.test(path[name]!))
      throw new Fault('not_found', `There is no ${name.replace(/_id$/, '')} ${value.slice(0, 64)}.`);
  }
  const query = endpoint.query && readQuery(endpoint.query, request.query as Record<string, unknown>);
  const given = request.body as Body | null | undefined;
  if (endpoint.body) {
    if (!given) throw new Fault('invalid_json', 'This needs a JSON body.');
    checkBody(endpoint.body, given.value);
  } else if (given) checkBody({ type: 'object', additionalProperties: false, properties: {} } as never, given.value);
  return { path, ...(query ? { query } : {}), ...(endpoint.body ? { body: given!.value } : {}) };
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
  const organization = principal.organization_id;
  const input = readInput(endpoint, request);
  const headers: Record<string, string> = {};
  const gone = new AbortController();
  const context: Context = {
    principal,
    headers,
    signal: gone.signal,
    paging() {
      const { limit, cursor, ...filters } = input.query as { limit: number; cursor?: string };
      return paging(app.access.cursorSecret, [id, organization, input.path, filters], { limit, cursor });
    },
  };

  if (endpoint.effect === 'read') {
    reply.raw.once('close', () => gone.abort());
    const body = await handler(input, context);
    return reply
      .headers(headers)
      .code(endpoint.status)
      .type('application/json; charset=utf-8')
      .send(JSON.stringify(body));
  }

  const key = readKey(request);
  const print =
    key &&
    fingerprint({
      method: request.method,
      url: request.url,
      body: (request.body as Body | undefined)?.raw ?? '',
      ifMatch: single(request, 'if-match') ?? '',
      ifNoneMatch: single(request, 'if-none-match') ?? '',
    });
  crashPoint(id, 'begin');
  const { stored, replayed } = app.db.write((tx) => {
    const before = key && app.idempotency.find(organization, key, print!);
    if (before) return { stored: before, replayed: true };
    const body = handler(input, { ...context, tx });
    const fresh: StoredAnswer = {
      status: endpoint.status,
      headers: { ...headers, ...locate(endpoint, request, body) },
      body: body === null ? null : JSON.stringify(body),
    };
    crashPoint(id, 'before_commit');
    if (key) app.idempotency.store(organization, key, print!, (body as { id?: string } | null)?.id ?? null, fresh);
    return { stored: fresh, replayed: false };
  });
  crashPoint(id, 'committed');
  void reply.code(stored.status).headers(stored.headers);
  if (replayed) void reply.header('idempotent-replayed', 'true');
  if (stored.body === null) return reply.send();
  return reply.type('application/json; charset=utf-8').send(stored.body);
}

const keyPattern = new RegExp(IdempotencyKeyPattern);

function readKey(request: FastifyRequest): string | undefined {
  const values = request.raw.headersDistinct['idempotency-key'];
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
  if ((endpoint.reply as { title?: string } | undefined)?.title === 'Operation')
    return { location: `/v1/operations/${id}` };
  if (endpoint.status === 201 || endpoint.path === '/v1/runs')
    return { location: `${request.url.split('?')[0]}/${id}` };
  return {};
}

declare module 'fastify' {
  interface FastifyRequest {
    principal: Principal;
  }
}
