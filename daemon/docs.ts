import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import type { FastifyInstance } from 'fastify';
import { openApi } from '../src/api/openapi.ts';

/** The reference page at /docs, made from the same document as /v1/openapi.json; everything it loads comes from here. */
export async function serveDocs(server: FastifyInstance): Promise<void> {
  await server.register(swagger, { mode: 'static', specification: { document: openApi() as never } });
  await server.register(swaggerUi, {
    routePrefix: '/docs',
    // Nothing is loaded from outside; the page's own styles are inline.
    staticCSP:
      "default-src 'self'; base-uri 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; object-src 'none'",
    uiConfig: { docExpansion: 'none', deepLinking: true, displayOperationId: true, filter: true },
    theme: { title: 'agentctl API' },
  });
}
