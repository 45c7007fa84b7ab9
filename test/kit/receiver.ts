import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A request as it came. */
export interface Got {
  path: string;
  headers: IncomingHttpHeaders;
  body: string;
}

export interface Receiver {
  url: string;
  port: number;
  got: Got[];
  /** How requests are answered from now on; 200 and `ok` when nothing else is said. */
  answer(how: (response: ServerResponse, got: Got) => void): void;
  close(): Promise<void>;
}

/** Somebody who is told: an HTTP server on a free port of 127.0.0.1 that remembers what came. */
export async function createReceiver(host = '127.0.0.1'): Promise<Receiver> {
  const got: Got[] = [];
  let how: (response: ServerResponse, got: Got) => void = (response) => void response.end('ok');
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (bytes: Buffer) => parts.push(bytes));
    request.on('end', () => {
      const one = { path: request.url!, headers: request.headers, body: Buffer.concat(parts).toString('utf8') };
      got.push(one);
      how(response, one);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://${host}:${port}/hook`,
    port,
    got,
    answer: (next) => void (how = next),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
