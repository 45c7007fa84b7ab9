import { timingSafeEqual } from 'node:crypto';
import { chmodSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { Dialect, ModelCall } from '../../api/usage.ts';
import type { Clock } from '../../base/clock.ts';
import { type Loose, record } from '../../harness/loose.ts';
import { Prices } from '../../providers/prices.ts';
import { dialectsOf } from '../../providers/access.ts';
import { socketAddress } from '../address.ts';
import { type GatewaySpec, runFiles } from '../protocol.ts';
import type { ModelFailure } from '../verdict.ts';
import { carryOut, type Done, mostAttempts } from './call.ts';
import { type Asked, askedOf, dialectNear, type Refusal, refusalOf, type Target, targetOf } from './dialect.ts';
import { Purse } from './purse.ts';
import { send } from './upstream.ts';

/** Why the gateway let no more calls through. */
export type Shut =
  | { kind: 'cost'; spent: string; limit: string }
  | { kind: 'turns'; limit: number }
  | { kind: 'unpriced'; model: string }
  | { kind: 'key'; message: string };

/** What a gateway needs, and whom it tells. */
export interface GatewayOptions {
  spec: GatewaySpec;
  /** The run's folder, absolute. */
  folder: string;
  clock: Clock;
  limits: { max_cost_micro_usd: string | null; max_turns: number | null };
  /** Whether to listen on 127.0.0.1 besides the socket in the folder. */
  tcp: boolean;
  /** Bytes of an answer came by. */
  seen(): void;
  /** A call is through. */
  called(call: ModelCall): void;
  /** A call was refused, and so will be all others: the run is to end. */
  shut(why: Shut): void;
  retry(data: { attempt: number; max_attempts: number; at: number; reason: string }): void;
}

/** Bytes of one request: models take pictures and whole books. */
const longestBody = 64 * 1_048_576;
/** Tokens that an answer is taken to have when a request sets no bound. */
const longestAnswer = 32_000;

/**
 * The only way of a run's harness to models: an HTTP server on a socket in the run's folder, and on 127.0.0.1 where there is no
 * sandbox. Whoever calls shows the run's own key; the provider's is put in here. Each call is metered and priced, and none is
 * let through when the run's money or turns are used up.
 */
export class Gateway {
  readonly #options: GatewayOptions;
  readonly #prices: Prices;
  readonly #purse: Purse;
  readonly #key: Buffer;
  readonly #servers: Server[] = [];
  readonly #closing = new AbortController();
  readonly #open = new Set<Promise<void>>();
  #turns = 0;
  #url: string | null = null;
  #isShut = false;
  #failure: ModelFailure | null = null;

  private constructor(options: GatewayOptions, prices: Prices) {
    this.#options = options;
    this.#prices = prices;
    this.#key = Buffer.from(options.spec.key);
    const { max_cost_micro_usd } = options.limits;
    this.#purse = new Purse(max_cost_micro_usd === null ? null : BigInt(max_cost_micro_usd));
  }

  /** Listens. Rejects when that cannot be. */
  static async open(options: GatewayOptions): Promise<Gateway> {
    const gateway = new Gateway(options, await Prices.open(options.spec.provider));
    const address = socketAddress(options.folder, runFiles.gateway);
    try {
      await gateway.#listen({ path: address.path });
      chmodSync(address.path, 0o600);
    } finally {
      address.release();
    }
    if (options.tcp) {
      const { port } = (await gateway.#listen({ host: '127.0.0.1', port: 0 })).address() as AddressInfo;
      gateway.#url = `http://127.0.0.1:${port}`;
    }
    return gateway;
  }

  /** Where it listens on 127.0.0.1; null when it does not. */
  get url(): string | null {
    return this.#url;
  }

  /** How the last of the agent's own calls failed; null when it was good, or there was none. */
  get failure(): ModelFailure | null {
    return this.#failure;
  }

  async #listen(where: { path: string } | { host: string; port: number }): Promise<Server> {
    const server = createServer({ requestTimeout: 0, headersTimeout: 30_000 }, (request, response) => {
      const work: Promise<void> = this.#handle(request, response)
        .catch(() => void response.destroy())
        .finally(() => this.#open.delete(work));
      this.#open.add(work);
    });
    this.#servers.push(server);
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(where, () => {
        server.off('error', reject);
        resolve();
      });
    });
    server.on('error', () => {});
    server.on('clientError', (_error, socket) => socket.destroy());
    return server;
  }

  #refuse(response: ServerResponse, dialect: Dialect, why: Refusal, message: string): void {
    if (response.headersSent) return void response.destroy();
    const { status, body } = refusalOf(dialect, why, message);
    response.writeHead(status, { 'content-type': 'application/json', 'x-should-retry': 'false' });
    response.end(body);
  }

  /** Shown in the place where the dialect has its key. */
  #isKnown({ headers }: IncomingMessage, query: URLSearchParams): boolean {
    const shown = [
      headers['x-api-key'],
      headers['x-goog-api-key'],
      /^Bearer (.+)$/i.exec(headers.authorization ?? '')?.[1],
      query.get('key'),
    ];
    return shown.some((one) => {
      const bytes = Buffer.from(typeof one === 'string' ? one : '');
      return bytes.length === this.#key.length && timingSafeEqual(bytes, this.#key);
    });
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://gateway');
    const path = url.pathname.replace(/\/$/, '');
    const near = dialectNear(path);
    response.on('error', () => {});
    if (!this.#isKnown(request, url.searchParams)) {
      request.resume();
      return this.#refuse(response, near, 'unauthenticated', 'This is not the key of this run.');
    }
    if (request.method === 'GET' && /^\/v1(beta)?\/models$/.test(path)) return this.#models(response);
    const target = request.method === 'POST' ? targetOf(path) : undefined;
    const { provider } = this.#options.spec;
    if (!target || !dialectsOf[provider.kind].includes(target.dialect)) {
      request.resume();
      const what = target ? `The provider ${provider.id} does not speak this interface` : 'There is nothing here';
      return this.#refuse(response, near, 'not_found', `${what}: ${request.method} ${path}`);
    }
    const bytes = await readBody(request);
    if (!bytes) return this.#refuse(response, near, 'too_large', `A request has at most ${longestBody} bytes.`);
    let body: Loose | null = null;
    try {
      body = record(JSON.parse(bytes.toString('utf8')));
    } catch {
      body = null;
    }
    if (!body) return this.#refuse(response, near, 'invalid', 'The body is no JSON object.');
    const gone = new AbortController();
    response.once('close', () => {
      if (!response.writableFinished) gone.abort();
    });
    const signal = AbortSignal.any([gone.signal, this.#closing.signal]);
    const whole = { query: url.searchParams, headers: request.headers, body: bytes };
    if (target.kind === 'count') return this.#count(target, { ...whole, signal }, response);
    await this.#call(
      target,
      askedOf(target, body),
      { ...whole, body: withUsage(target, body, bytes) },
      response,
      signal,
    );
  }

  #models(response: ServerResponse): void {
    const { provider, model } = this.#options.spec;
    const ids = [...new Set([...(model === null ? [] : [model]), ...Object.keys(provider.models)])];
    const data = ids.map((id) => ({
      id,
      type: 'model',
      object: 'model',
      display_name: id,
      created: 0,
      owned_by: provider.id,
    }));
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(
      JSON.stringify({ object: 'list', data, has_more: false, models: ids.map((id) => ({ name: `models/${id}` })) }),
    );
  }

  /** Counting costs nothing and says nothing about the run. */
  async #count(target: Target, what: Parameters<typeof send>[2], response: ServerResponse): Promise<void> {
    try {
      const answer = await send(this.#options.spec.provider, target, what);
      response.writeHead(answer.statusCode ?? 502, { 'content-type': 'application/json' });
      for await (const part of answer as AsyncIterable<Buffer>) response.write(part);
      response.end();
    } catch (error) {
      this.#refuse(response, target.dialect, 'unreachable', (error as Error).message);
    }
  }

  /** What forbids a call; null when nothing does. */
  #shutFor(asked: Asked, reserve: bigint | null): Shut | null {
    const { max_cost_micro_usd: limit, max_turns } = this.#options.limits;
    if (max_turns !== null && asked.main && this.#turns >= max_turns) return { kind: 'turns', limit: max_turns };
    if (limit === null) return null;
    if (reserve === null) return { kind: 'unpriced', model: asked.model };
    return this.#purse.isEmpty ? this.#spentAll(limit) : null;
  }

  #spentAll = (limit: string): Shut => ({ kind: 'cost', spent: String(this.#purse.spent), limit });

  #shut(response: ServerResponse, target: Target, asked: Asked, why: Shut): void {
    const sentence = {
      cost: 'The cost limit of this run is used up.',
      turns: 'This run has had as many turns as it may have.',
      unpriced: `No price is known for the model "${asked.model}", so the cost limit of this run cannot be kept.`,
      key: '',
    }[why.kind];
    this.#refuse(response, target.dialect, why.kind === 'unpriced' ? 'invalid' : 'spent', sentence);
    // A helper without a price may be done without.
    if (this.#isShut || (why.kind === 'unpriced' && !asked.main)) return;
    this.#isShut = true;
    this.#options.shut(why);
  }

  async #call(
    target: Target,
    asked: Asked,
    request: { query: URLSearchParams; headers: IncomingMessage['headers']; body: Buffer },
    response: ServerResponse,
    signal: AbortSignal,
  ): Promise<void> {
    const { clock, spec, limits } = this.#options;
    const reserve = this.#prices.most(asked.model, Math.ceil(request.body.length / 4), asked.most ?? longestAnswer);
    const why = this.#shutFor(asked, reserve);
    if (why) return this.#shut(response, target, asked, why);
    if (asked.main) this.#turns++;
    const hold = await this.#purse.hold(reserve ?? 0n, signal);
    if (!hold) {
      if (!signal.aborted) this.#shut(response, target, asked, this.#spentAll(limits.max_cost_micro_usd ?? '0'));
      return;
    }
    const done = await carryOut(
      {
        clock,
        provider: spec.provider,
        prices: this.#prices,
        target,
        asked,
        request,
        response,
        hold,
        signal,
        seen: this.#options.seen,
        retry: (attempt, at, reason) => this.#options.retry({ attempt, max_attempts: mostAttempts, at, reason }),
      },
      (message) => this.#refuse(response, target.dialect, 'unreachable', message),
    );
    this.#through(asked, done);
  }

  #through(asked: Asked, { call, failure, left }: Done): void {
    this.#options.called(call);
    if (asked.main && call.status === 'failed') this.#turns--;
    if (left || !asked.main) return;
    this.#failure = failure;
    // The key is the run's own, and will not get better by trying.
    if (failure?.http_status !== 401 || this.#isShut) return;
    this.#isShut = true;
    this.#options.shut({ kind: 'key', message: failure.message });
  }

  /** Ends what is on its way; resolves when all calls have been told. */
  async close(): Promise<void> {
    this.#closing.abort();
    for (const server of this.#servers) {
      server.close();
      server.closeAllConnections();
    }
    while (this.#open.size > 0) await Promise.all(this.#open);
    rmSync(join(this.#options.folder, runFiles.gateway), { force: true });
  }
}

/** A request's body; null when it is too long. */
async function readBody(request: IncomingMessage): Promise<Buffer | null> {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of request as AsyncIterable<Buffer>) {
    length += part.length;
    if (length <= longestBody) parts.push(part);
  }
  return length > longestBody ? null : Buffer.concat(parts);
}

/** Chat Completions say what a stream used only when they are asked to. */
function withUsage({ dialect }: Target, body: Loose, bytes: Buffer): Buffer {
  if (dialect !== 'chat' || body.stream !== true) return bytes;
  const options = record(body.stream_options);
  if (options?.include_usage === true) return bytes;
  return Buffer.from(JSON.stringify({ ...body, stream_options: { ...options, include_usage: true } }));
}
