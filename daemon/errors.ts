import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { api } from '../src/api/api.ts';
import { Fault } from '../src/api/error.ts';

/** Answers a fault: the one place where codes become statuses. */
export function sendFault(reply: FastifyReply, fault: Fault): FastifyReply {
  return reply
    .code(fault.status)
    .headers(fault.headers)
    .type('application/json; charset=utf-8')
    .send(JSON.stringify(fault.body(reply.request.id)));
}

/** Answers a request that fastify refuses before any hook has run. */
export function refuse(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  void sendFault(reply.header('x-request-id', request.id), toFault(error, request));
}

/** What went wrong, as the contract has it. What is not of our making becomes `internal_error` and says nothing. */
function toFault(error: unknown, request: FastifyRequest): Fault {
  if (error instanceof Fault) return error;
  const { code, message } = error as FastifyError;
  switch (code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE': {
      const max = request.routeOptions.bodyLimit;
      const { larger } = request.routeOptions.config;
      return new Fault(
        'payload_too_large',
        `The body is over the limit of ${max} bytes${larger ? `; ${larger}` : ''}.`,
        {
          details: { max_bytes: max, ...(larger ? { larger } : {}) },
        },
      );
    }
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return new Fault(
        'unsupported_media_type',
        `Send the body as Content-Type: ${request.routeOptions.config.bodyType ?? 'application/json'}.`,
      );
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
    case 'ERR_STREAM_PREMATURE_CLOSE':
    case 'ECONNRESET':
      return new Fault('invalid_json', 'The body ended before its announced length.', { cause: error });
    case 'FST_ERR_BAD_URL':
    case 'FST_ERR_MAX_PARAM_LENGTH':
      return new Fault('route_not_found', `This is no address: ${message}`);
    default:
      return new Fault('internal_error', 'This failed inside agentctl. Its log has the request id and says more.', {
        cause: error,
      });
  }
}

const alone = ['/healthz', '/readyz', '/v1/openapi.json'].map((path) => ({ method: 'GET', path }));
const patterns = [...Object.values(api), ...alone].map(({ method, path }) => ({
  method,
  path: new RegExp(`^${path.replace(/\{\w+\}/g, '[^/]+')}$`),
}));

/** Makes every failure of the server an Error body. */
export function handleErrors(app: FastifyInstance): void {
  app.setErrorHandler((error, request, reply) => {
    const fault = toFault(error, request);
    if (fault.code === 'internal_error') request.log.error({ err: error }, 'A request failed inside.');
    return sendFault(reply, fault);
  });
  app.setNotFoundHandler((request, reply) => {
    const [path = ''] = request.url.split('?');
    const allowed = patterns.filter((pattern) => pattern.path.test(path)).map(({ method }) => method);
    if (allowed.length === 0)
      return sendFault(reply, new Fault('route_not_found', `There is nothing at ${request.method} ${path}.`));
    return sendFault(
      reply,
      new Fault('method_not_allowed', `${path} does not take ${request.method}.`, {
        headers: { allow: allowed.join(', ') },
      }),
    );
  });
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** How a body that is too large here is sent. */
    larger?: string;
    /** What a body must be. */
    bodyType?: string;
  }
}
