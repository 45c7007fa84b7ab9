import { execFileSync } from 'node:child_process';
import { Webhook as StandardWebhook } from 'standardwebhooks';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Received, sign, verify, WebhookVerificationError } from '../../../src/api/signature.ts';

const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
const other = `whsec_${Buffer.alloc(32, 9).toString('base64')}`;
const id = '019a0000-0000-7000-8000-000000000001';
const now = Date.now();
const timestamp = String(Math.floor(now / 1000));
const text = JSON.stringify({
  id,
  type: 'run.completed',
  created_at: '2026-01-01T00:00:00.000Z',
  data: { object: 'run', id: 'ü\u{1f600}' },
});
const body = Buffer.from(text);
const headersFor = (...secrets: string[]) => ({
  'Webhook-Id': id,
  'Webhook-Timestamp': timestamp,
  'Webhook-Signature': sign(secrets, { id, timestamp, body }),
});
const reason = (received: Partial<Received>): string => {
  try {
    verify({ secret, headers: headersFor(secret), body: text, now, ...received });
  } catch (error) {
    return error instanceof WebhookVerificationError ? error.reason : String(error);
  }
  return 'none';
};

describe('what is signed can be checked by others', () => {
  test('by the standardwebhooks package, also while a secret is being replaced', () => {
    const lower = (headers: object) =>
      Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value as string]));
    for (const signed of [headersFor(secret), headersFor(other, secret), headersFor(secret, other)])
      expect(new StandardWebhook(secret).verify(text, lower(signed))).toMatchObject({ id });
    expect(() => new StandardWebhook(other).verify(text, lower(headersFor(secret)))).toThrow('No matching signature');
  });

  test('by openssl on the command line: the first signature is the HMAC of timestamp, period and body with the secret as it is shown', () => {
    const digest = execFileSync('openssl', ['dgst', '-sha256', '-hmac', secret, '-hex'], {
      input: `${timestamp}.${text}`,
      encoding: 'utf8',
    });
    const hex = digest.trim().split(' ').at(-1)!;
    expect(headersFor(secret)['Webhook-Signature'].split(' ')[0]).toBe(`hs256,${hex}`);
  });

  test('each secret adds both signatures, the oldest last', () => {
    const alone = headersFor(secret)['Webhook-Signature'];
    expect(headersFor(other, secret)['Webhook-Signature']).toBe(`${headersFor(other)['Webhook-Signature']} ${alone}`);
    expect(alone.split(' ').map((one) => one.split(',')[0])).toEqual(['hs256', 'v1']);
  });
});

describe('verify', () => {
  test('answers the event, from headers in any case and form, and from bytes or text', () => {
    const headers = headersFor(secret);
    for (const form of [headers, new Headers(headers)])
      for (const bytes of [text, body, new Uint8Array(body)])
        expect(verify({ secret, headers: form, body: bytes, now })).toEqual(JSON.parse(text));
    expect(verify({ secret: [other, secret], headers, body: text, now })).toMatchObject({ id });
  });

  test('takes either of the two signatures alone', () => {
    const headers = headersFor(secret);
    for (const one of headers['Webhook-Signature'].split(' '))
      expect(reason({ headers: { ...headers, 'Webhook-Signature': one } })).toBe('none');
  });

  test.each<[string, Partial<Received>]>([
    ['missing_header', { headers: {} }],
    ['missing_header', { headers: { ...headersFor(secret), 'Webhook-Signature': undefined } }],
    ['bad_timestamp', { headers: { ...headersFor(secret), 'Webhook-Timestamp': 'soon' } }],
    ['bad_timestamp', { headers: { ...headersFor(secret), 'Webhook-Timestamp': '-1' } }],
    ['too_old', { now: now + 301_000 }],
    ['none', { now: now + 299_000 }],
    ['too_new', { now: now - 302_000 }],
    ['none', { now: now - 299_000 }],
    ['none', { now: now + 301_000, tolerance: 400 }],
    ['bad_signature', { body: `${text} ` }],
    ['bad_signature', { secret: other }],
    ['bad_signature', { secret: [] }],
    ['bad_signature', { secret: '' }],
    ['bad_signature', { headers: { ...headersFor(secret), 'Webhook-Signature': 'v1, hs256,' } }],
    ['bad_signature', { headers: { ...headersFor(secret), 'Webhook-Timestamp': String(Math.floor(now / 1000) - 1) } }],
  ])('%s', (expected, received) => {
    expect(reason(received)).toBe(expected);
  });

  test('an id in the header that is not the signed body’s is refused: the first signature does not cover it', () => {
    const headers = { ...headersFor(secret), 'Webhook-Id': '019a0000-0000-7000-8000-00000000ffff' };
    expect(reason({ headers })).toBe('bad_body');
  });

  test('no changed byte of body, time or signature passes', () => {
    const headers = headersFor(secret);
    fc.assert(
      fc.property(fc.nat(body.length - 1), fc.integer({ min: 1, max: 255 }), (at, by) => {
        const changed = Buffer.from(body);
        changed[at]! ^= by;
        expect(reason({ body: changed })).toBe('bad_signature');
      }),
      { numRuns: 200 },
    );
    const [first] = headers['Webhook-Signature'].split(' ') as [string];
    for (let at = 6; at < first.length; at++) {
      const flipped = `${first.slice(0, at)}${first[at] === '0' ? '1' : '0'}${first.slice(at + 1)}`;
      expect(reason({ headers: { ...headers, 'Webhook-Signature': flipped } })).toBe('bad_signature');
    }
  });
});
