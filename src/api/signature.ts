import { createHmac, timingSafeEqual } from 'node:crypto';
import type { WebhookEvent } from './webhooks.ts';

export type { WebhookEvent, WebhookEventType } from './webhooks.ts';

/** What is signed: the two headers, as they are sent, and the body's bytes. */
interface Signed {
  id: string;
  timestamp: string;
  body: Uint8Array;
}

const prefix = 'whsec_';
/** The secret's own bytes: what stands after `whsec_`, decoded. */
const keyOf = (secret: string): Buffer =>
  Buffer.from(secret.startsWith(prefix) ? secret.slice(prefix.length) : secret, 'base64');

/** HMAC-SHA256 with the secret's text over `timestamp.body`. */
const hs256 = (secret: string, { timestamp, body }: Signed): string =>
  createHmac('sha256', secret).update(`${timestamp}.`).update(body).digest('hex');

/** As Standard Webhooks has it: HMAC-SHA256 with the secret's bytes over `id.timestamp.body`. */
const v1 = (secret: string, { id, timestamp, body }: Signed): string =>
  createHmac('sha256', keyOf(secret)).update(`${id}.${timestamp}.`).update(body).digest('base64');

/** The value of `Webhook-Signature`: two signatures for each secret, in the order given (newest first). */
export const sign = (secrets: string[], signed: Signed): string =>
  secrets.map((secret) => `hs256,${hs256(secret, signed)} v1,${v1(secret, signed)}`).join(' ');

/** A delivery that is not to be trusted. `reason` says why, for a program. */
export class WebhookVerificationError extends Error {
  override name = 'WebhookVerificationError';
  readonly reason: 'missing_header' | 'bad_timestamp' | 'too_old' | 'too_new' | 'bad_signature' | 'bad_body';
  constructor(reason: WebhookVerificationError['reason'], message: string) {
    super(message);
    this.reason = reason;
  }
}

/** A request as its receiver has it. */
export interface Received {
  /** The endpoint's secret, or several while one is being replaced. */
  secret: string | string[];
  /** The request's headers: a `Headers`, or an object whose names may be in any case. */
  headers: Headers | Record<string, string | string[] | undefined>;
  /** The body as it came, before any parsing. */
  body: string | Uint8Array;
  /** How many seconds the timestamp may be off; 300 when absent. */
  tolerance?: number;
  /** The time to compare with, in milliseconds; the clock's when absent. */
  now?: number;
}

/**
 * Checks a delivery and answers its event. Throws WebhookVerificationError. Whoever calls this should remember `event.id` for a
 * while and ignore what was seen before: deliveries may come twice.
 */
export function verify({ secret, headers, body, tolerance = 300, now = Date.now() }: Received): WebhookEvent {
  const fail = (reason: WebhookVerificationError['reason'], message: string) =>
    new WebhookVerificationError(reason, message);
  const header = (name: string): string => {
    const value =
      headers instanceof Headers
        ? headers.get(name)
        : Object.entries(headers).find(([key]) => key.toLowerCase() === name)?.[1];
    if (typeof value !== 'string' || value === '') throw fail('missing_header', `The header ${name} is missing.`);
    return value;
  };
  const id = header('webhook-id');
  const timestamp = header('webhook-timestamp');
  const signatures = header('webhook-signature');
  if (!/^\d{1,12}$/.test(timestamp)) throw fail('bad_timestamp', 'Webhook-Timestamp is no time.');
  const age = now / 1_000 - Number(timestamp);
  if (age > tolerance) throw fail('too_old', `This was signed ${Math.round(age)} seconds ago.`);
  if (age < -tolerance) throw fail('too_new', `This was signed ${Math.round(-age)} seconds from now.`);

  const bytes = typeof body === 'string' ? Buffer.from(body) : body;
  const signed = { id, timestamp, body: bytes };
  const given = signatures.split(' ').slice(0, 64);
  const secrets = (Array.isArray(secret) ? secret : [secret]).filter((one) => one !== '');
  const expected = secrets.flatMap((one) => [`v1,${v1(one, signed)}`, `hs256,${hs256(one, signed)}`]);
  // Every pair is compared, and each in constant time.
  let genuine = false;
  for (const mine of expected.map((text) => Buffer.from(text)))
    for (const theirs of given.map((text) => Buffer.from(text)))
      if (theirs.length === mine.length && timingSafeEqual(theirs, mine)) genuine = true;
  if (!genuine) throw fail('bad_signature', 'No signature fits this body and this secret.');

  let event: WebhookEvent;
  try {
    event = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes)) as WebhookEvent;
  } catch {
    throw fail('bad_body', 'The body is signed, and is not JSON.');
  }
  // The first of the two signatures does not cover the header: what is deduplicated by is the signed body's id.
  if (event.id !== id) throw fail('bad_body', 'Webhook-Id is not the id of the event in the body.');
  return event;
}
