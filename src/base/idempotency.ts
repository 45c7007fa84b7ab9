import { createHash } from 'node:crypto';
import { Fault } from '../api/error.ts';
import { type Clock, iso } from './clock.ts';
import type { Db } from './db.ts';
import { SecretUnreadable, type Secrets } from './secrets.ts';

/** What was answered the first time. */
export interface StoredAnswer {
  status: number;
  headers: Record<string, string>;
  /** JSON text, or null for an empty answer. */
  body: string | null;
}

/** A field of the answer that is shown once. */
interface ShownOnce {
  field: string;
  value: string;
}

const keptFor = 7 * 86_400_000;
const secretKeptFor = 600_000;

/** The record of Idempotency-Keys (contract section 2): per organization, seven days, in the effect's own transaction. */
export function createIdempotency({ db, clock, secrets }: { db: Db; clock: Clock; secrets: Secrets }) {
  const underWay = new Set<string>();
  const placeOf = (organization: string, key: string) => `idempotency ${organization} ${key}`;

  /** The answer's body with what it showed once, if that was not long ago. */
  const reveal = (organization: string, key: string, body: string | null, secret: string | null, at: string) => {
    if (body === null || secret === null || Date.parse(at) <= clock.now() - secretKeptFor) return body;
    try {
      const { field, value } = JSON.parse(secrets.open(placeOf(organization, key), secret)) as ShownOnce;
      return JSON.stringify({ ...(JSON.parse(body) as object), [field]: value });
    } catch (error) {
      if (error instanceof SecretUnreadable) return body;
      throw error;
    }
  };
  return {
    /**
     * The answer to replay, or undefined when this is the first request with the key. Throws `idempotency_key_reused` for
     * another request under the same key, `idempotency_in_progress` while the first is being worked on.
     */
    find(organization: string, key: string, fingerprint: string): StoredAnswer | undefined {
      const row = db.get<
        StoredAnswer & { fingerprint: string; headers: string; secret: string | null; created_at: string }
      >(
        'SELECT fingerprint, status, headers, body, secret, created_at FROM idempotency WHERE organization_id = ? AND key = ? AND created_at > ?',
        [organization, key, iso(clock.now() - keptFor)],
      );
      if (row) {
        if (row.fingerprint !== fingerprint)
          throw new Fault(
            'idempotency_key_reused',
            'This Idempotency-Key was used with a different request. Use a new key.',
          );
        return {
          status: row.status,
          headers: JSON.parse(row.headers) as Record<string, string>,
          body: reveal(organization, key, row.body, row.secret, row.created_at),
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

    /**
     * Keeps an answer; call it in the transaction of the effect. What `once` names is kept sealed and for ten minutes only: the
     * stored body has null there.
     */
    store(
      organization: string,
      key: string,
      fingerprint: string,
      resource: string | null,
      answer: StoredAnswer,
      once?: string,
    ): void {
      const now = clock.now();
      let { body } = answer;
      let secret: string | null = null;
      if (once !== undefined && body !== null) {
        const shown = JSON.parse(body) as Record<string, string>;
        const kept: ShownOnce = { field: once, value: shown[once]! };
        secret = secrets.seal(placeOf(organization, key), JSON.stringify(kept));
        body = JSON.stringify({ ...shown, [once]: null });
      }
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
          body,
          secret,
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

    /** Forgets what is older than seven days; answers how many. */
    expire(): number {
      db.run('UPDATE idempotency SET secret = NULL WHERE secret IS NOT NULL AND created_at <= ?', [
        iso(clock.now() - secretKeptFor),
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
