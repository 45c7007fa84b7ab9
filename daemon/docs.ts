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
  // What is tried out goes to the daemon that serves the page, wherever it listens.
  const document = { ...openApi(), servers: [{ url: '/' }] };
  await server.register(swagger, { mode: 'static', specification: { document: document as never } });
  await server.register(swaggerUi, {
    routePrefix: '/docs',
    // Nothing is loaded from outside; the page's own styles are inline.
    staticCSP:
      "default-src 'self'; base-uri 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; object-src 'none'",
    uiConfig: {
      docExpansion: 'none',
      deepLinking: true,
      displayOperationId: true,
      filter: true,
      requestInterceptor: authorize as never,
    },
    theme: { title: 'agentctl API', js: [{ filename: 'sign-in.js', content: signIn }] },
  });
  await server.ready();
  return server;
}

declare const sessionStorage: { getItem(name: string): string | null };

/** Runs in the page: what is tried out goes with the browser's session, unless a credential was typed in. */
function authorize(request: { headers: Record<string, string> }): object {
  const token = sessionStorage.getItem('agentctl-session');
  if (token && !request.headers.Authorization) request.headers.Authorization = `Bearer ${token}`;
  return request;
}

/**
 * Runs in the page: exchanges the code in the address for a session and keeps that in sessionStorage. No cookie: they are not
 * separated by port (contract section 10).
 */
const signIn = `
(async () => {
  const code = new URLSearchParams(location.hash.slice(1)).get('code');
  if (code) {
    history.replaceState(null, '', location.pathname);
    const headers = { 'content-type': 'application/json' };
    const answer = await fetch('/v1/auth/session', { method: 'POST', headers, body: JSON.stringify({ code }) });
    if (answer.ok) sessionStorage.setItem('agentctl-session', (await answer.json()).token);
  }
  if (sessionStorage.getItem('agentctl-session')) document.title += ' · signed in';
})();
`;
