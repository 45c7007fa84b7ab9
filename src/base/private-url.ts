import { createHmac, timingSafeEqual } from 'node:crypto';
import { Fault } from '../api/error.ts';
import type { Clock } from './clock.ts';

/** Addresses that are their own authority, for a short time and one thing: `/private/<token>`. Nothing is stored of them. */
export interface PrivateUrls {
  /** The path of a fresh address that stands for these claims until `expires` (milliseconds). */
  seal(claims: Record<string, string>, expires: number): string;
  /** The claims of a token. Throws `not_found` for one that is forged or too old. */
  open(token: string): Record<string, string>;
}

/** `secret` is the installation's; what is sealed here opens nothing else. */
export function createPrivateUrls({ secret, clock }: { secret: Buffer; clock: Clock }): PrivateUrls {
  const key = createHmac('sha256', secret).update('private urls').digest();
  const sign = (payload: string) => createHmac('sha256', key).update(payload).digest();
  return {
    seal(claims, expires) {
      const payload = Buffer.from(JSON.stringify([expires, claims])).toString('base64url');
      return `/private/${payload}.${sign(payload).toString('base64url')}`;
    },

    open(token) {
      const refuse = () =>
        new Fault('not_found', 'This private address is not one of ours, or has expired. Ask for a new one.');
      const [payload = '', given = '', ...more] = token.split('.');
      const expected = sign(payload);
      const signature = Buffer.from(given, 'base64url');
      const genuine = signature.length === expected.length && timingSafeEqual(signature, expected);
      if (more.length > 0 || !genuine || given !== expected.toString('base64url')) throw refuse();
      const [expires, claims] = JSON.parse(Buffer.from(payload, 'base64url').toString('utf8')) as [
        number,
        Record<string, string>,
      ];
      if (expires <= clock.now()) throw refuse();
      return claims;
    },
  };
}
