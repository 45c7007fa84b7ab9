import { hash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import type { ApiKey, ApiKeyCreate, NewApiKey } from '../api/access.ts';
import type { Page } from '../api/common.ts';
import { Fault } from '../api/error.ts';
import { type Clock, iso } from '../base/clock.ts';
import type { Tx } from '../base/db.ts';
import { type Paging, toPage } from '../base/page.ts';
import { type Principal, refused } from './principal.ts';
import { type Store, toApiKey } from './store.ts';

/** `agk_`, 43 digits of 256 random bits in base 62, and 6 digits of their CRC-32: a slip of the pen is no lookup. */
const pattern = /^agk_[0-9A-Za-z]{49}$/;
const secretDigits = 43;
const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
/** `last_used_at` is written at most this often, in milliseconds: not every read shall be a write. */
const touchEvery = 60_000;

/** A number in base 62, most significant digit first. */
function base62(value: bigint, length: number): string {
  let text = '';
  for (let rest = value; text.length < length; rest /= 62n) text = digits[Number(rest % 62n)]! + text;
  return text;
}

const checksum = (text: string): string => base62(BigInt(crc32(text)), 6);
const makeKey = (random: Buffer): string => {
  const begin = `agk_${base62(BigInt(`0x${random.toString('hex')}`), secretDigits)}`;
  return begin + checksum(begin);
};

/** API keys (contract section 9): bound to one organization, with scopes of their own; only their SHA-256 is stored. */
export function createApiKeys({ store, clock }: { store: Store; clock: Clock }) {
  /** Keys that were used, by their hash: asked with every request. Every change of a key goes through here. */
  const known = new Map<string, ApiKey>();

  const touch = (entry: ApiKey, now: number) => {
    if (entry.last_used_at !== null && now - Date.parse(entry.last_used_at) < touchEvery) return;
    entry.last_used_at = iso(now);
    store.updateKey(entry.id, { last_used_at: entry.last_used_at });
  };

  return {
    isKey: (credential: string): boolean => credential.startsWith('agk_'),

    /** Who a key is. Throws `unauthenticated`, and `organization_forbidden` when another organization is asked for. */
    authenticate(credential: string, organization: string | undefined): Principal {
      if (!pattern.test(credential) || checksum(credential.slice(0, -6)) !== credential.slice(-6))
        throw refused('unknown', 'This is not an API key: it is cut short or mistyped.');
      const print = hash('sha256', credential, 'hex');
      const entry = known.get(print) ?? store.keyByHash(print);
      if (!entry) throw refused('unknown', 'This API key is not known here.');
      const now = clock.now();
      if (entry.revoked_at !== null) throw refused('revoked', 'This API key was revoked.');
      if (entry.expires_at !== null && now >= Date.parse(entry.expires_at))
        throw refused('expired', 'This API key has expired.');
      if (organization !== undefined && organization.toLowerCase() !== entry.organization_id)
        throw new Fault('organization_forbidden', 'An API key acts in its own organization alone.');
      known.set(print, entry);
      touch(entry, now);
      const { id, name, organization_id, scopes, expires_at } = entry;
      return { type: 'api_key', id, name, credential: 'api_key', organization_id, scopes, expires_at };
    },

    /**
     * Makes a key. Its scopes are among its maker's, and a key that ends makes none that lives longer. Throws
     * `insufficient_scope`, `invalid_request`.
     */
    create(_tx: Tx, maker: Principal, { name, scopes, expires_at = maker.expires_at }: ApiKeyCreate): NewApiKey {
      const missing = scopes.find((scope) => !maker.scopes.includes(scope));
      if (missing)
        throw new Fault('insufficient_scope', `You cannot give away the scope ${missing}, which you do not have.`, {
          details: { required_scope: missing },
        });
      const now = clock.now();
      const end = expires_at === null ? null : iso(Date.parse(expires_at));
      const wrong = (message: string) =>
        new Fault('invalid_request', `${message}.`, { details: { errors: [{ path: '/expires_at', message }] } });
      if (end !== null && Date.parse(end) <= now) throw wrong('expires_at is not in the future');
      if (maker.credential === 'api_key' && maker.expires_at !== null && (end === null || end > maker.expires_at))
        throw wrong(`expires_at is later than that of the key that makes it, ${maker.expires_at}`);
      const key = makeKey(clock.random(32));
      const entry: ApiKey = {
        id: clock.id(),
        organization_id: maker.organization_id,
        name,
        prefix: key.slice(0, 8),
        last4: key.slice(-4),
        scopes,
        created_by: maker.id,
        expires_at: end,
        last_used_at: null,
        revoked_at: null,
        created_at: iso(now),
        updated_at: iso(now),
      };
      store.addKey(entry, hash('sha256', key, 'hex'));
      return { ...entry, key };
    },

    /** Keys of an organization, newest first, revoked ones too. */
    list: (organization: string, paging: Paging): Page<ApiKey> =>
      toPage(store.keys(organization, paging.after, paging.limit + 1), paging, toApiKey),

    /** Takes a key's rights away, at once; again is no error. Throws `not_found`. */
    revoke(tx: Tx, organization: string, id: string): void {
      const entry = store.findKey(id);
      if (entry?.organization_id !== organization) throw new Fault('not_found', 'There is no such API key.');
      if (entry.revoked_at !== null) return;
      const now = iso(clock.now());
      store.updateKey(id, { revoked_at: now, updated_at: now });
      tx.after(() => {
        for (const [print, { id: one }] of known) if (one === id) known.delete(print);
      });
    },
  };
}
