import type { FastifyInstance } from 'fastify';
import { Fault } from '../src/api/error.ts';

/** The loopback names and addresses, as a Host header may write them. */
const loopback = ['127.0.0.1', 'localhost', 'agentctl.localhost', '[::1]'];

interface Door {
  /** Host names to answer to, besides the loopback ones. */
  hosts: string[];
  /** Web origins that may call. */
  origins: string[];
}

/**
 * The door (contract section 10), before anything else is looked at: only requests for a host that is ours, and none that a
 * web page of somebody else's sends, whatever credential it carries. That stops DNS rebinding and cross-site calls.
 */
export function guardDoor(app: FastifyInstance, { hosts, origins }: Door): void {
  const ours = new Set([...loopback, ...hosts.map((name) => name.toLowerCase())]);

  app.addHook('onRequest', async (request, reply) => {
    const { raw } = request;
    const given = raw.headersDistinct.host ?? [];
    const host = given.length === 1 ? given[0]!.toLowerCase() : '';
    const name = host.replace(/:\d{1,5}$/, '');
    if (!ours.has(name) || !raw.url?.startsWith('/'))
      throw new Fault(
        'host_not_allowed',
        'This daemon answers to loopback names only; others are set in server.hosts.',
      );

    const origin = raw.headersDistinct.origin;
    const site = raw.headersDistinct['sec-fetch-site'];
    if (origin?.length === 1 && origins.includes(origin[0]!)) {
      reply.headers({ 'access-control-allow-origin': origin[0], vary: 'Origin', 'access-control-expose-headers': '*' });
      if (request.method === 'OPTIONS')
        return reply
          .code(204)
          .headers({
            'access-control-allow-methods': 'GET, POST, PUT, PATCH, DELETE',
            'access-control-allow-headers':
              'Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, If-Range, Last-Event-ID, Range, X-File-Executable, X-Organization-Id',
            'access-control-max-age': '600',
          })
          .send();
    } else if (
      (origin && !(origin.length === 1 && origin[0] === `http://${host}`)) ||
      site?.some((value) => value === 'cross-site' || value === 'same-site')
    )
      throw new Fault(
        'origin_not_allowed',
        'Web pages of other origins may not call this daemon; they are set in server.origins.',
      );
    return undefined;
  });
}
