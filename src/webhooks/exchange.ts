import { Agent as HttpAgent, type IncomingMessage, request as httpRequest } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import type { LookupFunction } from 'node:net';
import type { Clock } from '../base/clock.ts';
import { type Address, type Destination, Refused } from './destinations.ts';

/** What an attempt came to. */
export type Outcome =
  | { kind: 'answered'; status: number; excerpt: string }
  | { kind: 'failed'; code: string; message: string; status?: number; excerpt?: string };

/** For the whole exchange, from the name's resolution to the answer's last byte that is read. */
export const deadline = 10_000;
const mostBytes = 65_536;
const excerptLength = 1_024;

interface Sending {
  clock: Clock;
  /** Finds out where to, and whether that is allowed. Rejects with Refused. */
  destination: () => Promise<Destination>;
  headers: Record<string, string>;
  body: Buffer;
  /** Breaks it off. */
  signal: AbortSignal;
}

/**
 * One POST to addresses that were checked, and to no others: no proxy, no redirect, no connection that was there before. Never
 * rejects; undefined when it was broken off.
 */
export function exchange({ clock, destination, headers, body, signal }: Sending): Promise<Outcome | undefined> {
  return new Promise((resolve) => {
    let stop = () => {};
    let answer: IncomingMessage | undefined;
    let excerpt = Buffer.alloc(0);
    let over = false;
    const end = (outcome: Outcome | undefined) => {
      if (over) return;
      over = true;
      cancel();
      signal.removeEventListener('abort', abort);
      stop();
      resolve(outcome);
    };
    const abort = () => end(undefined);
    const fail = (code: string, message: string) =>
      end({
        kind: 'failed',
        code,
        message,
        ...(answer?.statusCode ? { status: answer.statusCode, excerpt: textOf(excerpt) } : {}),
      });
    const cancel = clock.timer(deadline, () => fail('timeout', 'The exchange was not over within ten seconds.'));
    signal.addEventListener('abort', abort);
    if (signal.aborted) return abort();

    destination().then(
      ({ url, addresses }) => {
        if (over) return;
        const isTls = url.protocol === 'https:';
        const agent = isTls ? new HttpsAgent({ keepAlive: false }) : new HttpAgent({ keepAlive: false });
        const sent = (isTls ? httpsRequest : httpRequest)(url, {
          method: 'POST',
          headers,
          agent,
          lookup: pinnedTo(addresses),
        });
        stop = () => {
          sent.destroy();
          agent.destroy();
        };
        sent.on('error', (error: NodeJS.ErrnoException) => fail(...reasonOf(error)));
        sent.on('response', (response) => {
          answer = response;
          let size = 0;
          const finish = () => end({ kind: 'answered', status: response.statusCode!, excerpt: textOf(excerpt) });
          response.on('data', (bytes: Buffer) => {
            size += bytes.length;
            if (excerpt.length < excerptLength * 4)
              excerpt = Buffer.concat([excerpt, bytes]).subarray(0, excerptLength * 4);
            if (size >= mostBytes) finish();
          });
          response.on('end', finish);
          response.on('error', (error: NodeJS.ErrnoException) => fail(...reasonOf(error)));
          response.on('close', () => fail('connection_failed', 'The connection broke off before the answer’s end.'));
        });
        sent.end(body);
      },
      (error: unknown) =>
        error instanceof Refused
          ? fail(error.code, error.message)
          : fail('internal_error', 'This failed inside agentctl.'),
    );
  });
}

/** Every name leads to these addresses, whatever a resolver says by now. */
const pinnedTo =
  (addresses: Address[]): LookupFunction =>
  (_host, { all }, callback) =>
    all ? callback(null, addresses) : callback(null, addresses[0]!.address, addresses[0]!.family);

/** The beginning of an answer as text that can be stored and shown. */
const textOf = (bytes: Buffer): string =>
  bytes
    .toString('utf8')
    // oxlint-disable-next-line no-control-regex -- control characters are what is taken out
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g, '\ufffd')
    .slice(0, excerptLength)
    .toWellFormed();

function reasonOf({ code = '', message }: NodeJS.ErrnoException): [code: string, message: string] {
  if (code.startsWith('HPE_')) return ['invalid_answer', `What came back is not HTTP (${code}).`];
  if (/CERT|SSL|TLS|SELF_SIGNED|UNABLE_TO_VERIFY|ALTNAME/.test(code)) return ['tls_failed', `${message} (${code}).`];
  return ['connection_failed', code ? `The connection failed (${code}).` : 'The connection failed.'];
}
