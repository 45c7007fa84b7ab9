import { rmSync } from 'node:fs';
import { createServer as createHttp, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { FastifyInstance } from 'fastify';

/** How HTTP is spoken on every listener. */
export const httpOptions = { maxHeaderSize: 16_384, requireHostHeader: false, headersTimeout: 10_000 };

export interface Listening {
  url: string;
  socket: string | null;
  close(): Promise<void>;
}

/** Listens on 127.0.0.1 (`port` 0 takes a free one) and, where there is room for its path, on a unix socket of mode 0600. */
export async function listen(server: FastifyInstance, port: number, socket: string | null): Promise<Listening> {
  await server.listen({ host: '127.0.0.1', port });
  const { port: taken } = server.server.address() as AddressInfo;
  const second = socket === null ? undefined : await listenOn(server, socket);
  return {
    url: `http://127.0.0.1:${taken}`,
    socket,
    async close() {
      second?.closeAllConnections();
      second?.close();
      await server.close();
    },
  };
}

/** The lock says that nobody else listens here, so a socket that is left over is a dead daemon's. */
async function listenOn(server: FastifyInstance, socket: string): Promise<Server> {
  rmSync(socket, { force: true });
  const http = createHttp(httpOptions, server.routing);
  const before = process.umask(0o177);
  try {
    await new Promise<void>((resolve, reject) => {
      http.once('error', reject);
      http.listen(socket, resolve);
    });
  } finally {
    process.umask(before);
  }
  return http;
}
