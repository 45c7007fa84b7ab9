import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { App } from '../src/app.ts';
import { originOf, replyWith, sendBytes } from './bytes.ts';

/**
 * `/private/<token>`: addresses that are their own authority (contract section 4), so no credential is asked for; the door is the
 * same. A file or an artifact is fetched from there, or a transfer's bytes are put there. Bytes go through in pieces, however many there are.
 */
export async function servePrivate(server: FastifyInstance, { artifacts, files }: App): Promise<void> {
  server.removeAllContentTypeParsers();
  server.addContentTypeParser('*', (_request, payload, done) => done(null, payload));
  const tokenOf = (request: FastifyRequest) => (request.params as { '*': string })['*'];

  server.route({
    method: ['GET', 'HEAD'],
    url: '/private/*',
    exposeHeadRoute: false,
    async handler(request, reply) {
      const token = tokenOf(request);
      const file = artifacts.openPrivate(token) ?? (await files.openPrivate(token));
      const { name, size, active, tag: etag } = file;
      let taken = false;
      try {
        const answer = replyWith({ name, size, active, etag }, request.headers, (first, last) => {
          if (request.method === 'HEAD' || size === 0) return null;
          taken = true;
          return file.stream(first, last);
        });
        return sendBytes(reply, answer);
      } finally {
        if (!taken) file.close();
      }
    },
  });

  server.put('/private/*', async (request, reply) => {
    const { raw, headers } = request;
    const length = headers['content-length'] === undefined ? undefined : Number(headers['content-length']);
    // What is refused half-way is read to its end by the server, so that the sender hears why.
    const pieces = raw.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>;
    const transfer = await files.receive(tokenOf(request), pieces, length, originOf(request));
    return reply.type('application/json; charset=utf-8').send(JSON.stringify(transfer));
  });
}
