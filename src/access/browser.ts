import { hash } from 'node:crypto';
import type { BrowserSession } from '../api/access.ts';
import { type Clock, iso } from '../base/clock.ts';
import { refused } from './principal.ts';
import type { Store } from './store.ts';

/** A code may be used this long, in milliseconds (contract section 10). */
const codeFor = 60_000;
/** A browser's session ends after this, in milliseconds. */
const sessionFor = 12 * 3_600_000;

const print = (text: string): string => hash('sha256', text, 'hex');

/** Sessions of browsers: a code that is made with the local session lets one in, once (contract section 10). */
export function createBrowsers({ store, clock }: { store: Store; clock: Clock }) {
  const make = (kind: 'code' | 'session', prefix: string, lifetime: number) => {
    const now = clock.now();
    store.removeBrowsers(iso(now));
    const secret = prefix + clock.random(32).toString('base64url');
    const expires_at = iso(now + lifetime);
    store.addBrowser(kind, print(secret), expires_at);
    return { secret, expires_at };
  };
  return {
    /** A code for one use. */
    code(): { code: string; expires_at: string } {
      const { secret, expires_at } = make('code', 'agc_', codeFor);
      return { code: secret, expires_at };
    },
    /** Takes a code and answers a session. Throws `unauthenticated` for one that is not known, used or too old. */
    enter(code: string): BrowserSession {
      if (!store.browser('code', print(code), iso(clock.now())))
        throw refused(
          'unknown',
          'This code is not known, was used, or is older than a minute: `agentctl open` makes a new one.',
        );
      store.removeBrowser(print(code));
      const { secret, expires_at } = make('session', 'ags_', sessionFor);
      return { token: secret, expires_at };
    },
    /** Until when the session of this token lasts; undefined when there is none. */
    sessionEnd: (token: string): string | undefined =>
      store.browser('session', print(token), iso(clock.now()))?.expires_at,
    /** Ends all of them. */
    clear: () => void store.removeBrowsers(null),
  };
}
