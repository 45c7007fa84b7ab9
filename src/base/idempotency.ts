import { createHash } from 'node:crypto';
import { Fault } from '../api/error.ts';
import { type Clock, iso } from './clock.ts';
import type { Db } from './db.ts';
import type { Secrets } from './secrets.ts';

/** What was answered the first time. */
export interface StoredAnswer {
  status: number;
  headers: Record<string, string>;
  /** JSON text, or null for an empty answer. */
  body: string | null;
  /** A member of the body that is shown once; `body` has null in its place. */
  secret?: { name: string; value: string } | undefined;
}

const keptFor = 7 * 86_400_000;
/** How long a repeated request is shown the secret again, in milliseconds (contract section 2). */
const secretFor = 600_000;
const purpose = 'idempotency';

interface Row {
  fingerprint: string;
  status: number;
  headers: string;
  body: string | null;
  secret: string | null;
  created_at: string;
}

/** The record of Idempotency-Keys (contract section 2): per organization, seven days, in the effect's own transaction. */
export function createIdempotency({ db, clock, secrets }: { db: Db; clock: Clock; secrets: Secrets }) {
  const underWay = new Set<string>();
  return {
    /**
     * The answer to replay, or undefined when this is the first request with the key. Throws `idempotency_key_reused` for
     * another request under the same key, `idempotency_in_progress` while the first is being worked on.
     */
    find(organization: string, key: string, fingerprint: string): StoredAnswer | undefined {
      const row = db.get<Row>(
        'SELECT fingerprint, status, headers, body, secret, created_at FROM idempotency WHERE organization_id = ? AND key = ? AND created_at > ?',
        [organization, key, iso(clock.now() - keptFor)],
      );
      if (row) {
        if (row.fingerprint !== fingerprint)
          throw new Fault(
            'idempotency_key_reused',
            'This Idempotency-Key was used with a different request. Use a new key.',
          );
        const { status, body, secret } = row;
        const shown = secret !== null && Date.parse(row.created_at) > clock.now() - secretFor;
        return {
          status,
          headers: JSON.parse(row.headers) as Record<string, string>,
          body,
          secret: shown ? (JSON.parse(secrets.open(secret, purpose)) as StoredAnswer['secret']) : undefined,
        };
      }
      if (underWay.has(`${organization} ${key}`))
        throw new Fault(
          'idempotency_in_progress',
          'The first request with this Idempotency-Key is still being worked on.',
          {
            headers: { 'retry-after': '1' },
          },
        );
      return undefined;
    },

    /** Marks a key as being worked on while a request waits for its body; the answer ends that. */
    begin(organization: string, key: string): () => void {
      const entry = `${organization} ${key}`;
      underWay.add(entry);
      return () => underWay.delete(entry);
    },

    /** Keeps an answer; call it in the transaction of the effect. */
    store(organization: string, key: string, fingerprint: string, resource: string | null, answer: StoredAnswer): void {
      const now = clock.now();
      db.run('DELETE FROM idempotency WHERE organization_id = ? AND key = ? AND created_at <= ?', [
        organization,
        key,
        iso(now - keptFor),
      ]);
      db.run(
        `INSERT INTO idempotency (organization_id, key, fingerprint, resource_id, status, headers, body, secret, created_at)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
        [
          organization,
          key,
          fingerprint,
          resource,
          answer.status,
          JSON.stringify(answer.headers),
          answer.body,
          answer.secret ? secrets.seal(JSON.stringify(answer.secret), purpose) : null,
          iso(now),
        ],
      );
    },

    /** The effect has gone on since its first answer was kept: this is what is replayed from now on. */
    amend(organization: string, key: string, body: string): void {
      db.run('UPDATE idempotency SET body = ? WHERE organization_id = ? AND key = ?', [body, organization, key]);
    },

    /** Forgets a key whose request came to nothing after all. */
    remove(organization: string, key: string): void {
      db.run('DELETE FROM idempotency WHERE organization_id = ? AND key = ?', [organization, key]);
    },

    /** The id of what was made with a key, if it is still known. */
    resourceOf(organization: string, key: string): string | null {
      return (
        db.get<{ resource_id: string | null }>(
          'SELECT resource_id FROM idempotency WHERE organization_id = ? AND key = ?',
          [organization, key],
        )?.resource_id ?? null
      );
    },

    /** Forgets what is older than seven days, and secrets that are shown no more; answers how many records went. */
    expire(): number {
      db.run('UPDATE idempotency SET secret = NULL WHERE secret IS NOT NULL AND created_at <= ?', [
        iso(clock.now() - secretFor),
      ]);
      return db.run('DELETE FROM idempotency WHERE created_at <= ?', [iso(clock.now() - keptFor)]);
    },
  };
}
export type Idempotency = ReturnType<typeof createIdempotency>;

/** What makes two requests the same: method, path, query, body and preconditions. */
export function fingerprint(parts: {
  method: string;
  url: string;
  body: string;
  ifMatch: string;
  ifNoneMatch: string;
}): string {
  return createHash('sha256')
    .update(JSON.stringify([parts.method, parts.url, parts.ifMatch, parts.ifNoneMatch, parts.body]))
    .digest('base64url');
}
