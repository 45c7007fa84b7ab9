import { type ClientRequest, type IncomingMessage, request as plain } from 'node:http';
import { request as secure } from 'node:https';
import type { ProviderAccess } from '../../providers/access.ts';
import type { Target } from './dialect.ts';

/** Headers of a harness that a provider gets to see. */
const passedOn = ['content-type', 'accept', 'anthropic-version', 'anthropic-beta', 'openai-beta', 'user-agent'];
/** Headers of a provider that a harness gets to see, and beginnings of such. */
const passedBack =
  'content-type cache-control retry-after retry-after-ms request-id x-request-id x-should-retry anthropic-ratelimit- x-ratelimit- openai-'.split(
    ' ',
  );

type Headers = IncomingMessage['headers'];

/** The headers of an answer that go on to the harness. */
export const headersBack = (headers: Headers): Record<string, string | string[]> =>
  Object.fromEntries(
    Object.entries(headers).filter(
      (entry): entry is [string, string | string[]] =>
        entry[1] !== undefined &&
        passedBack.some((name) => (name.endsWith('-') ? entry[0].startsWith(name) : entry[0] === name)),
    ),
  );

/** The whole address of a target at a provider. */
export function addressOf({ base_url, kind }: ProviderAccess, { version, path }: Target, query: URLSearchParams): URL {
  const url = new URL(base_url);
  const isWhole = kind === 'openai_compatible' ? url.pathname !== '/' : /\/v\d\w*$/.test(url.pathname);
  url.pathname = `${url.pathname.replace(/\/$/, '')}${isWhole ? '' : `/${version}`}${path}`;
  for (const name of ['alt', 'beta']) {
    const value = query.get(name);
    if (value !== null) url.searchParams.set(name, value);
  }
  return url;
}

const credential = ({ key }: ProviderAccess, { dialect }: Target): Record<string, string> => {
  if (key === null) return {};
  if (dialect === 'anthropic') return { 'x-api-key': key };
  if (dialect === 'gemini') return { 'x-goog-api-key': key };
  return { authorization: `Bearer ${key}` };
};

/** Milliseconds of silence after which a provider is given up: a model may think for long before its first word. */
const patience = 900_000;

/**
 * Sends a call to the provider with the provider's own key. Redirects are not followed: they are answers. Rejects when the
 * provider cannot be reached, is silent for too long, or `signal` aborts.
 */
export function send(
  provider: ProviderAccess,
  target: Target,
  { query, headers, body, signal }: { query: URLSearchParams; headers: Headers; body: Buffer; signal: AbortSignal },
): Promise<IncomingMessage> {
  const url = addressOf(provider, target, query);
  const own = Object.fromEntries(
    passedOn.flatMap((name) => (headers[name] === undefined ? [] : [[name, headers[name]]])),
  );
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const request: ClientRequest = (url.protocol === 'https:' ? secure : plain)(
    url,
    {
      method: 'POST',
      signal,
      headers: {
        ...own,
        ...(target.dialect === 'anthropic' && own['anthropic-version'] === undefined
          ? { 'anthropic-version': '2023-06-01' }
          : {}),
        ...credential(provider, target),
        'accept-encoding': 'identity',
        'content-length': body.length,
      },
    },
    resolve,
  );
  request.on('error', reject);
  request.setTimeout(patience, () => request.destroy(new Error('The provider was silent for 15 minutes.')));
  request.end(body);
  return promise;
}
