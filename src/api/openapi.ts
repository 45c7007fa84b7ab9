import type { TSchema } from 'typebox';
import { api } from './api.ts';
import { ErrorReply, IdempotencyKeyPattern } from './common.ts';
import { type Endpoint, scopes } from './endpoint.ts';
import { failures } from './error.ts';
import { apiVersion } from './server.ts';

type Json = Record<string, unknown>;

/** The OpenAPI 3.1.0 document of every operation, made from the rows. */
export function openApi(): Json {
  const schemas: Record<string, Json> = {};

  /** Copies a schema; what bears a title is put among the components and referred to. */
  const write = (schema: unknown): unknown => {
    if (Array.isArray(schema)) return schema.map(write);
    if (typeof schema !== 'object' || schema === null) return schema;
    const { title, ...rest } = schema as Json;
    const copy = Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, write(value)]));
    if (typeof title !== 'string') return copy;
    schemas[title] ??= copy;
    return { $ref: `#/components/schemas/${title}` };
  };

  const paths: Record<string, Json> = {};
  for (const [operationId, endpoint] of Object.entries(api) as [string, Endpoint][]) {
    const { method, path } = endpoint;
    (paths[path] ??= {})[method.toLowerCase()] = describe(operationId, endpoint, write);
  }
  write(ErrorReply);
  return {
    openapi: '3.1.0',
    info: {
      title: 'agentctl',
      version: apiVersion,
      summary: 'Agent projects and runs on your own machine',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: 'http://127.0.0.1:4788' }],
    paths,
    components: {
      securitySchemes: {
        ApiKeyAuth: { type: 'http', scheme: 'bearer', description: 'An API key, in Authorization: Bearer.' },
        DashboardSession: {
          type: 'http',
          scheme: 'bearer',
          description: 'The local session: what `agentctl auth token` prints.',
        },
        CustomerOAuth: {
          type: 'oauth2',
          description: 'A JWT access token of a configured issuer.',
          flows: {
            clientCredentials: {
              tokenUrl: 'https://issuer.example/token',
              scopes: Object.fromEntries(scopes.map((scope) => [scope, ''])),
            },
          },
        },
      },
      schemas,
    },
  };
}

function describe(operationId: string, endpoint: Endpoint, write: (schema: unknown) => unknown): Json {
  const { summary, scope, path, query, headers, body, status, reply, stream, effect } = endpoint;
  const parameters: Json[] = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string', format: 'uuid' },
  }));
  for (const [name, schema] of Object.entries(
    (query as { properties?: Record<string, TSchema> } | undefined)?.properties ?? {},
  )) {
    const { description, ...rest } = write(schema) as Json;
    const required = ((query as { required?: string[] }).required ?? []).includes(name);
    parameters.push({ name, in: 'query', required, ...(description ? { description } : {}), schema: rest });
  }
  for (const [name, schema] of Object.entries(
    (headers as { properties?: Record<string, TSchema> } | undefined)?.properties ?? {},
  )) {
    // It may not be described as a parameter: the types of the answer say it.
    if (name === 'accept') continue;
    const { description, ...rest } = write(schema) as Json;
    parameters.push({ name: headerName(name), in: 'header', required: false, description, schema: rest });
  }
  parameters.push({
    name: 'X-Organization-Id',
    in: 'header',
    required: false,
    description: 'Selects one of several memberships.',
    schema: { type: 'string', format: 'uuid' },
  });
  if (effect !== 'read' && !endpoint.open)
    parameters.push({
      name: 'Idempotency-Key',
      in: 'header',
      required: endpoint.keyRequired ?? false,
      description: 'The same request with the same key has its effect once, and gets the same answer for seven days.',
      schema: { type: 'string', pattern: IdempotencyKeyPattern },
    });
  if (stream)
    parameters.push({
      name: 'Last-Event-ID',
      in: 'header',
      required: false,
      description: 'Go on after this sequence; beats `after`.',
      schema: { type: 'string', pattern: '^[0-9]+$' },
    });

  const success: Json = { description: successes[status], headers: { 'X-Request-Id': { schema: { type: 'string' } } } };
  if (stream) success.content = { 'text/event-stream': { schema: { type: 'string' } } };
  else if (endpoint.replyBytes) {
    if (endpoint.replyType)
      success.content = {
        [endpoint.replyType]: { schema: { type: 'string' } },
        ...(reply ? { 'application/json': { schema: write(reply) } } : {}),
      };
    else {
      success.content = raw;
      success.headers = { ...(success.headers as Json), ETag: { schema: { type: 'string' } } };
    }
  } else if (reply) success.content = { 'application/json': { schema: write(reply) } };
  const needs = scope === null ? [] : [scope];
  return {
    operationId,
    summary,
    tags: [tagOf(path)],
    security: endpoint.open ? [] : [{ ApiKeyAuth: [] }, { DashboardSession: [] }, { CustomerOAuth: needs }],
    ...(scope === null ? {} : { 'x-required-scope': scope }),
    parameters,
    ...(body ? { requestBody: { required: true, content: { 'application/json': { schema: write(body) } } } } : {}),
    ...(endpoint.bodyBytes ? { requestBody: { required: false, content: raw } } : {}),
    responses: {
      [status]: success,
      ...Object.fromEntries(Object.entries(endpoint.also ?? {}).map(([code, description]) => [code, { description }])),
      ...(stream ? { 204: { description: 'The run has ended and the cursor is at its end.' } } : {}),
      default: {
        description: `A failure: ${[...new Set(Object.values(failures).map((failure) => failure.type))].join(', ')}.`,
        content: { 'application/json': { schema: write(ErrorReply) } },
      },
    },
  };
}

const raw = { 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } };

/** `if-match` is written `If-Match`. */
const headerName = (name: string): string => name.replace(/\b[a-z]/g, (letter) => letter.toUpperCase());

const successes = { 200: 'Done.', 201: 'Made.', 202: 'Accepted; it goes on by itself.', 204: 'Done; nothing to say.' };

/** `/v1/projects/{project_id}/workspaces` belongs to `workspaces`. */
const tagOf = (path: string): string => {
  const words = path.split('/').filter((part) => part !== '' && part !== 'v1' && !part.startsWith('{'));
  const [first = '', second] = words;
  return second === 'workspaces' ? second : first;
};
