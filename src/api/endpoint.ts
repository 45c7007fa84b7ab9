import type { Static, TSchema } from 'typebox';

export const scopes = [
  'projects:read',
  'projects:write',
  'files:read',
  'files:write',
  'runs:read',
  'runs:write',
  'connections:read',
  'connections:write',
  'keys:write',
  'webhooks:read',
  'webhooks:write',
  'usage:read',
] as const;
export type Scope = (typeof scopes)[number];

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** One operation of /v1. Handlers, client, OpenAPI document and reference page are all made from these rows. */
export interface Endpoint {
  method: Method;
  /** With `{name}` for each path parameter; all of them are uuids. */
  path: string;
  summary: string;
  /** What the credential must have; null where any credential will do. */
  scope: Scope | null;
  /**
   * `read` changes nothing. `write` is one transaction with its idempotency record. `call` does more than a transaction can hold
   * and keeps the record by itself: those operations need a key.
   */
  effect: 'read' | 'write' | 'call';
  query?: TSchema;
  /** Request headers that mean something here, by their lower-case names; all of them may be left out. */
  headers?: TSchema;
  /** A JSON body. Absent: the operation takes none. */
  body?: TSchema;
  /** The body is raw bytes: application/octet-stream, or no type. */
  bodyBytes?: true;
  /** Largest body in bytes; 1 MiB when absent. */
  maxBytes?: number;
  /** How to send what is larger than that. */
  larger?: string;
  /** The Idempotency-Key must be given; such an operation is a `call`. */
  keyRequired?: true;
  /**
   * Something must be found out before the transaction, such as where a name leads: the handler resolves to what is then done in
   * it. Asked only when there is no record of the key yet.
   */
  checkedFirst?: true;
  /** Asked without a credential: the body is one. An Idempotency-Key means nothing here. */
  open?: true;
  /** The member of the answer that is shown once: a repeated request gets it for ten minutes, then null. */
  secret?: string;
  /** The status of success. */
  status: 200 | 201 | 202 | 204;
  /** The shape of the answer; absent with 204 and with `stream`. */
  reply?: TSchema;
  /** The answer is text/event-stream. */
  stream?: true;
  /** The answer is raw bytes: application/octet-stream. With `reply`: or JSON of that shape, for those who prefer it. */
  replyBytes?: true;
  /** What these bytes are, where it is something else. */
  replyType?: string;
  /** Other statuses of success, and what they mean. */
  also?: { [status: number]: string };
}

/** `row('GET /v1/projects', { … })`: an endpoint whose types are kept for handlers and client. */
export function row<
  const Route extends `${Method} /${string}`,
  const E extends Omit<Endpoint, 'method' | 'path' | 'effect'>,
>(route: Route, rest: E): E & { route: Route } & Endpoint {
  const [method, path] = route.split(' ') as [Method, string];
  const effect = method === 'GET' ? 'read' : rest.keyRequired ? 'call' : 'write';
  return { ...rest, route, method, path, effect };
}

type Parameters<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? Name | Parameters<Rest>
  : never;

/**
 * What a handler is given and what a client's caller gives: path parameters, query and body, as the row has them. Row by row: of
 * all rows at once the compiler would multiply every path with every query and every body.
 */
export type Input<E> = E extends unknown ? InputOfOne<E> : never;
type InputOfOne<E> = (E extends { route: infer R extends string }
  ? [Parameters<R>] extends [never]
    ? object
    : { path: Record<Parameters<R>, string> }
  : object) &
  (E extends { query: infer Q extends TSchema } ? { query: Static<Q> } : object) &
  (E extends { headers: infer H extends TSchema } ? { headers: Static<H> } : object) &
  (E extends { body: infer B extends TSchema } ? { body: Static<B> } : object) &
  (E extends { bodyBytes: true } ? { bytes: Buffer } : object);

/** What the operation answers; null for an empty answer. */
export type Reply<E> = E extends { reply: infer R extends TSchema } ? Static<R> : null;
