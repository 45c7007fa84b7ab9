import { lookup } from 'node:dns/promises';
import { chmodSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import { connect, isIP, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Network } from '../../api/network.ts';
import { allowanceOf, isReachable } from './hosts.ts';

/** What an egress needs, and whom it tells. */
export interface EgressOptions {
  policy: Network;
  /** Absolute path of its socket, short enough for one. */
  path: string;
  /** A host was asked for and not allowed; told once for each. */
  refused(host: string, why: string): void;
  /** All addresses of a name. */
  resolve?: (host: string) => Promise<string[]>;
}

/** More connections than this wait. */
const mostConnections = 512;
/** Milliseconds to find and reach a host. */
const patience = 30_000;
/** Refusals that are told one by one; what comes after them is told once. */
const mostTold = 50;

class Refused extends Error {}

const addressesOf = async (host: string): Promise<string[]> =>
  (await lookup(host, { all: true, verbatim: true })).map(({ address }) => address);

/** Headers that are about one connection alone, and what only a proxy is told. */
const hop = new Set(
  'connection proxy-connection keep-alive proxy-authorization proxy-authenticate te trailer transfer-encoding upgrade'.split(
    ' ',
  ),
);

/**
 * The way out of a sandbox: an HTTP proxy (CONNECT, and plain http) on a unix socket in the runner, which connects to what the
 * policy allows and to nothing else. A name is resolved here, and the connection is made to the address that was checked.
 */
export class Egress {
  readonly #options: EgressOptions;
  readonly #server: Server;
  readonly #told = new Set<string>();
  readonly #sockets = new Set<Duplex>();

  private constructor(options: EgressOptions) {
    this.#options = options;
    this.#server = createServer((message, reply) => void this.#plain(message, reply));
    this.#server.maxConnections = mostConnections;
    this.#server.on('connection', (socket) => this.#keep(socket));
    this.#server.on('connect', (message, socket, head) => void this.#tunnel(message, socket, head));
    this.#server.on('clientError', (_error, socket) => socket.destroy());
  }

  /** Listens. Rejects when that cannot be. */
  static async open(options: EgressOptions): Promise<Egress> {
    const egress = new Egress(options);
    rmSync(options.path, { force: true });
    await new Promise<void>((resolve, reject) => {
      egress.#server.once('error', reject).listen(options.path, () => {
        egress.#server.off('error', reject).on('error', () => {});
        resolve();
      });
    });
    chmodSync(options.path, 0o600);
    return egress;
  }

  #keep<S extends Duplex>(socket: S): S {
    this.#sockets.add(socket);
    socket.on('error', () => socket.destroy());
    socket.on('close', () => this.#sockets.delete(socket));
    return socket;
  }

  #tell(host: string, why: string): void {
    if (this.#told.has(host) || this.#told.size > mostTold) return;
    this.#told.add(host);
    if (this.#told.size > mostTold) this.#options.refused('more hosts', 'These are no longer told one by one.');
    else this.#options.refused(host, why);
  }

  /** A connection to a host that the policy allows. Rejects with Refused, or with what the network says. */
  async #reach(host: string, port: number): Promise<Socket> {
    const { policy, resolve = addressesOf } = this.#options;
    const refuse = (why: string): never => {
      this.#tell(port === 80 || port === 443 ? host : `${host}:${port}`, why);
      throw new Refused(why);
    };
    const allowance = allowanceOf(policy, host, port);
    if (allowance === 'none') return refuse('It is not allowed.');
    const addresses = isIP(host) ? [host] : await resolve(host);
    const good = addresses.filter((address) => isReachable(allowance, host, address));
    const [address] = good;
    if (address === undefined) return refuse('It is on this machine or in a local network, and not named itself.');
    const socket = this.#keep(connect({ host: address, port, timeout: patience }));
    await new Promise<void>((done, fail) => {
      socket.once('connect', done).once('error', fail);
      socket.once('timeout', () => socket.destroy(new Error('The host does not answer.')));
    });
    socket.setTimeout(0);
    return socket;
  }

  async #tunnel(message: IncomingMessage, client: Duplex, head: Buffer): Promise<void> {
    this.#keep(client);
    const [, address, name, port = ''] = /^(?:\[([\da-f:.]+)\]|([^:[\]]+)):(\d{1,5})$/i.exec(message.url ?? '') ?? [];
    const host = address ?? name ?? '';
    if (host === '' || Number(port) > 65_535 || Number(port) === 0)
      return void client.end('HTTP/1.1 400 Bad Request\r\n\r\n');
    try {
      const far = await this.#reach(host, Number(port));
      client.write('HTTP/1.1 200 Connection Established\r\n\r\n');
      if (head.length > 0) far.write(head);
      client.pipe(far).pipe(client);
      client.on('close', () => far.destroy());
      far.on('close', () => client.destroy());
    } catch (error) {
      const text = sentence(error);
      const status = error instanceof Refused ? '403 Forbidden' : '502 Bad Gateway';
      client.end(
        `HTTP/1.1 ${status}\r\nContent-Type: text/plain\r\nContent-Length: ${Buffer.byteLength(text)}\r\nConnection: close\r\n\r\n${text}`,
      );
    }
  }

  async #plain(message: IncomingMessage, reply: ServerResponse): Promise<void> {
    const fail = (status: number, text: string) => {
      if (!reply.headersSent) reply.writeHead(status, { 'content-type': 'text/plain', connection: 'close' });
      reply.end(text);
    };
    const url = URL.parse(message.url ?? '');
    if (url?.protocol !== 'http:') return fail(400, 'This is a proxy.\n');
    const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
    try {
      const far = await this.#reach(host, Number(url.port || 80));
      const headers = Object.fromEntries(Object.entries(message.headers).filter(([name]) => !hop.has(name)));
      const onward = request({
        createConnection: () => far,
        method: message.method,
        path: url.pathname + url.search,
        headers: { ...headers, host: url.host, connection: 'close' },
      });
      onward.on('response', (answer) => {
        const back = Object.entries(answer.headers).filter(([name]) => !hop.has(name));
        reply.writeHead(answer.statusCode ?? 502, Object.fromEntries(back));
        answer.pipe(reply);
      });
      onward.on('error', (error) => fail(502, sentence(error)));
      reply.on('close', () => far.destroy());
      message.pipe(onward);
    } catch (error) {
      fail(error instanceof Refused ? 403 : 502, sentence(error));
    }
  }

  /** Ends all connections. */
  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const socket of this.#sockets) socket.destroy();
    this.#server.closeAllConnections();
    await closed;
    rmSync(this.#options.path, { force: true });
  }
}

const sentence = (error: unknown): string =>
  error instanceof Refused
    ? `The sandbox does not let this run reach this host. ${error.message}\n`
    : `The host could not be reached: ${(error as Error).message}\n`;
