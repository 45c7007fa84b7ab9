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
  /** `read` changes nothing. `write` is one transaction with its idempotency record. */
  effect: 'read' | 'write';
  query?: TSchema;
  /** A JSON body. Absent: the operation takes none. */
  body?: TSchema;
  /** Largest body in bytes; 1 MiB when absent. */
  maxBytes?: number;
  /** The status of success. */
  status: 200 | 201 | 202 | 204;
  /** The shape of the answer; absent with 204 and with `stream`. */
  reply?: TSchema;
  /** The answer is text/event-stream. */
  stream?: true;
}

/** `row('GET /v1/projects', { … })`: an endpoint whose types are kept for handlers and client. */
export function row<
  const Route extends `${Method} /${string}`,
  const E extends Omit<Endpoint, 'method' | 'path' | 'effect'>,
>(route: Route, rest: E): E & { route: Route } & Endpoint {
  const [method, path] = route.split(' ') as [Method, string];
  return { ...rest, route, method, path, effect: method === 'GET' ? 'read' : 'write' };
}

type Parameters<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? Name | Parameters<Rest>
  : never;

/** What a handler is given and what a client's caller gives: path parameters, query and body, as the row has them. */
export type Input<E> = (E extends { route: infer R extends string }
  ? [Parameters<R>] extends [never]
    ? object
    : { path: Record<Parameters<R>, string> }
  : object) &
  (E extends { query: infer Q extends TSchema } ? { query: Static<Q> } : object) &
  (E extends { body: infer B extends TSchema } ? { body: Static<B> } : object);

/** What the operation answers; null for an empty answer. */
export type Reply<E> = E extends { reply: infer R extends TSchema } ? Static<R> : null;
