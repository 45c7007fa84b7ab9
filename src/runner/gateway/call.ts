import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ModelCall } from '../../api/usage.ts';
import { type Clock, iso } from '../../base/clock.ts';
import type { Loose } from '../../harness/loose.ts';
import type { Priced, Prices, Tokens } from '../../providers/prices.ts';
import type { ProviderAccess } from '../../providers/access.ts';
import { type Asked, messageIn, type Target } from './dialect.ts';
import type { ModelFailure } from '../verdict.ts';
import type { Hold } from './purse.ts';
import { Tally } from './tally.ts';
import { headersBack, send } from './upstream.ts';

/** A call that is through. */
export interface Done {
  call: ModelCall;
  cost: bigint | null;
  failure: ModelFailure | null;
  /** The harness hung up: what came of the call says nothing about the provider. */
  left: boolean;
}

interface Needs {
  clock: Clock;
  provider: ProviderAccess;
  prices: Prices;
  target: Target;
  asked: Asked;
  request: { query: URLSearchParams; headers: IncomingMessage['headers']; body: Buffer };
  response: ServerResponse;
  hold: Hold;
  /** Aborts when the harness hangs up or the gateway closes. */
  signal: AbortSignal;
  seen(): void;
  /** A provider that asks for patience gets it: tried again at `at`. */
  retry(attempt: number, at: number, reason: string): void;
}

/** How often a provider that says 429 is asked, in all. */
export const mostAttempts = 6;
/** Milliseconds for which the gateway waits by itself: agents give an answer up that takes much longer to begin. */
const longestWait = 120_000;
const longestError = 1_048_576;
const noTokens: Tokens = {
  input_tokens: 0,
  cached_input_tokens: 0,
  cache_write_tokens: 0,
  output_tokens: 0,
  reasoning_tokens: 0,
};

/** Milliseconds that a provider asks for; null when it names no time. */
function askedFor({ headers }: IncomingMessage, now: number): number | null {
  const ms = Number(headers['retry-after-ms']);
  if (headers['retry-after-ms'] !== undefined && Number.isFinite(ms)) return Math.max(0, ms);
  const after = headers['retry-after'];
  if (after === undefined) return null;
  const seconds = Number(after);
  const wait = Number.isFinite(seconds) ? seconds * 1000 : Date.parse(after) - now;
  return Number.isFinite(wait) ? Math.max(0, wait) : null;
}

const pause = (clock: Clock, ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const cancel = clock.timer(ms, resolve);
    signal.addEventListener('abort', () => (cancel(), resolve()), { once: true });
  });

/** All bytes, as far as they are few. */
async function readAll(from: IncomingMessage, most: number): Promise<Buffer> {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of from as AsyncIterable<Buffer>) {
    length += part.length;
    if (length > most) break;
    parts.push(part);
  }
  return Buffer.concat(parts);
}

/** The answer of the provider, after as many attempts as it took. */
async function ask({ clock, provider, target, request, signal, retry }: Needs): Promise<IncomingMessage> {
  for (let attempt = 1; ; attempt++) {
    const answer = await send(provider, target, { ...request, signal });
    if (answer.statusCode !== 429 || attempt === mostAttempts) return answer;
    const wait = askedFor(answer, clock.now()) ?? Math.min(30_000, 500 * 2 ** attempt);
    if (wait > longestWait) return answer;
    const said = messageIn(parsed(await readAll(answer, longestError)));
    answer.destroy();
    retry(attempt + 1, clock.now() + wait, said ?? 'The provider asks for patience (429).');
    await pause(clock, wait, signal);
    signal.throwIfAborted();
  }
}

const parsed = (bytes: Buffer): unknown => {
  try {
    return JSON.parse(bytes.toString('utf8'));
  } catch {
    return null;
  }
};

/** Hands an error on, should it repeat the key without it. */
async function passError(answer: IncomingMessage, { provider, response }: Needs): Promise<ModelFailure> {
  const bytes = await readAll(answer, longestError).catch(() => Buffer.alloc(0));
  const said = bytes.toString('utf8');
  const safe = provider.key === null ? said : said.replaceAll(provider.key, '[key]');
  response.writeHead(answer.statusCode ?? 502, headersBack(answer.headers));
  response.end(safe);
  const words = messageIn(parsed(Buffer.from(safe))) ?? safe.slice(0, 500);
  const message = `${provider.id} answered ${answer.statusCode}${words ? `: ${words}` : '.'}`;
  return { http_status: answer.statusCode ?? null, message: message.slice(0, 2000) };
}

/** Hands the answer on as it comes. True when it came to its end. */
async function passOn(answer: IncomingMessage, tally: Tally, { response, signal, seen }: Needs): Promise<boolean> {
  response.writeHead(answer.statusCode ?? 200, headersBack(answer.headers));
  response.flushHeaders();
  try {
    for await (const bytes of answer as AsyncIterable<Buffer>) {
      tally.push(bytes);
      seen();
      if (signal.aborted) return false;
      if (!response.write(bytes))
        await new Promise<void>((resolve) => {
          response.once('drain', resolve);
          signal.addEventListener('abort', () => resolve(), { once: true });
        });
    }
  } catch {
    return false;
  }
  return answer.complete;
}

/** What a call came to when the provider has not said it: what went there and what was seen, at four bytes a token. */
function guess({ prices, asked, request }: Needs, said: Priced | undefined, written: number): Priced {
  const seen = Math.ceil(written / 4);
  const tokens: Tokens = said
    ? { ...said.tokens, output_tokens: Math.max(said.tokens.output_tokens, seen) }
    : { ...noTokens, input_tokens: Math.ceil(request.body.length / 4), output_tokens: seen };
  const { input_tokens, cached_input_tokens, cache_write_tokens, output_tokens } = tokens;
  const cost = prices.cost(asked.model, {
    input_tokens: input_tokens + cached_input_tokens + cache_write_tokens,
    cache_read_tokens: cached_input_tokens,
    cache_write_tokens,
    output_tokens,
  });
  return { tokens, cost };
}

/** Carries one call out, from the request that was read to the last byte of its answer. Never rejects. */
export async function carryOut(needs: Needs, refuse: (message: string) => void): Promise<Done> {
  const { clock, provider, prices, target, asked, response, signal, hold } = needs;
  const began = clock.monotonic();
  const done = (how: Pick<ModelCall, 'status' | 'http_status'>, used: Priced, failure: ModelFailure | null): Done => {
    hold.settle(used.cost ?? 0n);
    const isGuess = how.status === 'cut';
    return {
      cost: used.cost,
      failure,
      left: signal.aborted,
      call: {
        call_id: clock.id(),
        at: iso(clock.now()),
        provider: provider.id,
        model: asked.model,
        dialect: target.dialect,
        main: asked.main,
        duration_ms: Math.round(clock.monotonic() - began),
        ...how,
        ...used.tokens,
        cost_micro_usd: used.cost === null ? null : String(used.cost),
        cost_source: used.cost === null ? 'unknown' : isGuess ? 'estimated' : 'reported',
      },
    };
  };
  const nothing: Priced = { tokens: noTokens, cost: 0n };

  let answer: IncomingMessage;
  try {
    answer = await ask(needs);
  } catch (error) {
    const message = `${provider.id} could not be reached: ${(error as Error).message}`;
    refuse(message);
    return done({ status: 'failed', http_status: null }, nothing, { http_status: null, message });
  }
  const http_status = answer.statusCode ?? 0;
  if (http_status < 200 || http_status > 299)
    return done({ status: 'failed', http_status }, nothing, await passError(answer, needs));

  const tally = new Tally(target.dialect, String(answer.headers['content-type'] ?? ''));
  const ended = await passOn(answer, tally, needs);
  if (ended) response.end();
  else response.destroy();
  answer.destroy();
  const { body, whole, error, written } = tally.read(ended);
  const said = body ? prices.read(target.dialect, asked.model, body as Loose) : undefined;
  const failure =
    error === null && ended ? null : { http_status, message: `${provider.id}: ${error ?? 'The answer was cut off.'}` };
  const isExact = said !== undefined && whole;
  if (isExact) return done({ status: error === null ? 'completed' : 'failed', http_status }, said, failure);
  return done({ status: 'cut', http_status }, guess(needs, said, written), failure);
}
