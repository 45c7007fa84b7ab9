import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import fastify, { type FastifyInstance } from 'fastify';
import { openApi } from '../src/api/openapi.ts';
import { handleErrors } from './errors.ts';

/**
 * The reference page at /docs, made from the same document as /v1/openapi.json; everything it loads comes from here. A server of
 * its own that does not listen: its `routing` answers what the daemon's hands on.
 */
export async function createDocs(): Promise<FastifyInstance> {
  const server = fastify({ logger: false, exposeHeadRoutes: true });
  handleErrors(server);
  await server.register(swagger, { mode: 'static', specification: { document: openApi() as never } });
  await server.register(swaggerUi, {
    routePrefix: '/docs',
    // Nothing is loaded from outside; the page's own styles are inline.
    staticCSP:
      "default-src 'self'; base-uri 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; object-src 'none'",
    uiConfig: { docExpansion: 'none', deepLinking: true, displayOperationId: true, filter: true },
    theme: { title: 'agentctl API' },
  });
  await server.ready();
  return server;
}
