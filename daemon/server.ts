import fastify, { type FastifyBaseLogger, type FastifyInstance, LogController } from 'fastify';
import { Fault } from '../src/api/error.ts';
import { openApi } from '../src/api/openapi.ts';
import type { App } from '../src/app.ts';
import { version } from '../src/base/root.ts';
import { bind, type Body } from './bind.ts';
import { guardDoor } from './door.ts';
import { handleErrors, refuse } from './errors.ts';
import { parseJson } from './json.ts';
import { httpOptions } from './listen.ts';
import { servePrivate } from './private.ts';
import { accessRoutes } from './routes/access.ts';
import { agentRoutes } from './routes/agents.ts';
import { artifactRoutes } from './routes/artifacts.ts';
import { checkpointRoutes } from './routes/checkpoints.ts';
import { fileRoutes } from './routes/files.ts';
import { grantRoutes } from './routes/grants.ts';
import { operationRoutes } from './routes/operations.ts';
import { projectRoutes } from './routes/projects.ts';
import { runRoutes } from './routes/runs.ts';
import { serverRoutes } from './routes/server.ts';
import { storageRoutes } from './routes/storage.ts';
import { sessionRoutes } from './routes/sessions.ts';
import { usageRoutes } from './routes/usage.ts';
import { webhookRoutes } from './routes/webhooks.ts';
import { workspaceRoutes } from './routes/workspaces.ts';

/** Said with every answer. */
const always = {
  'cache-control': 'no-store',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'agentctl-version': version,
};

/** The HTTP server over an app, not listening yet. */
export async function createServer(app: App, loggerInstance?: FastifyBaseLogger): Promise<FastifyInstance> {
  const server = fastify({
    ...(loggerInstance ? { loggerInstance } : { logger: false }),
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: () => app.clock.requestId(),
    bodyLimit: 1_048_576,
    requestTimeout: 30_000,
    keepAliveTimeout: 30_000,
    forceCloseConnections: true,
    exposeHeadRoutes: true,
    frameworkErrors: refuse,
    trustProxy: false,
    routerOptions: { maxParamLength: 16_384, ignoreTrailingSlash: false },
    http: httpOptions,
    clientErrorHandler(error, socket) {
      if (!socket.writable) return socket.destroy();
      const id = app.clock.requestId();
      const tooLarge = (error as NodeJS.ErrnoException).code === 'HPE_HEADER_OVERFLOW';
      const body = JSON.stringify(new Fault('invalid_request', 'This is no well-formed HTTP request.').body(id));
      const lines = [
        `HTTP/1.1 ${tooLarge ? '431 Request Header Fields Too Large' : '400 Bad Request'}`,
        `X-Request-Id: ${id}`,
        'Content-Type: application/json; charset=utf-8',
        `Content-Length: ${Buffer.byteLength(body)}`,
        'Connection: close',
      ];
      socket.end(`${lines.join('\r\n')}\r\n\r\n${body}`);
      return undefined;
    },
  });

  server.removeAllContentTypeParsers();
  server.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_request, bytes: Buffer, done) => {
    try {
      done(null, { raw: bytes.toString('latin1'), value: parseJson(bytes) } satisfies Body);
    } catch (error) {
      done(error as Error);
    }
  });

  server.addHook('onRequest', async (request, reply) => {
    reply.headers({ ...always, 'x-request-id': request.id });
  });
  guardDoor(server, app.config.server);
  handleErrors(server);

  let ready = true;
  server.addHook('preClose', () => {
    ready = false;
  });
  server.get('/healthz', async () => ({ status: 'ok', version, pid: process.pid }));
  server.get('/readyz', async (_request, reply) => {
    const draining = app.supervisor.draining() || !ready;
    return reply.code(draining ? 503 : 200).send({ status: draining ? 'draining' : 'ready' });
  });
  server.get('/v1/openapi.json', async (_request, reply) =>
    reply.type('application/json; charset=utf-8').send(JSON.stringify(openApi())),
  );
  // Made when it is first looked at: few do, and it costs 9 MB and a part of the start.
  let docs: Promise<FastifyInstance> | undefined;
  for (const url of ['/docs', '/docs/*'])
    server.get(url, async (request, reply) => {
      const { routing } = await (docs ??= import('./docs.ts').then(({ createDocs }) => createDocs()));
      reply.hijack();
      for (const [name, value] of Object.entries(reply.getHeaders()))
        if (value !== undefined) reply.raw.setHeader(name, value);
      routing(request.raw, reply.raw);
    });

  server.addHook('onListen', async () => {
    for (const address of server.addresses()) if (typeof address === 'object') app.webhooks.listensOn(address.port);
  });
  await server.register(async (scope) => servePrivate(scope, app));
  bind(server, app, {
    ...projectRoutes(app),
    ...workspaceRoutes(app),
    ...fileRoutes(app),
    ...checkpointRoutes(app),
    ...storageRoutes(app),
    ...agentRoutes(app),
    ...artifactRoutes(app),
    ...sessionRoutes(app),
    ...runRoutes(app),
    ...grantRoutes(app),
    ...operationRoutes(app),
    ...webhookRoutes(app),
    ...accessRoutes(app),
    ...usageRoutes(app),
    ...serverRoutes(app),
  });
  return server;
}
