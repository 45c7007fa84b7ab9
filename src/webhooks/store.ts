import type { Delivery, Webhook } from '../api/webhooks.ts';
import type { Db } from '../base/db.ts';
import { insertSql, reader, toColumns, updateSql } from '../base/rows.ts';

/** An endpoint as it is stored; its secrets lie in rows of their own. */
export interface EndpointRow extends Omit<Webhook, 'secrets'> {
  key: number;
  loopback: boolean;
  failing_since: string | null;
}
export interface SecretRow {
  id: string;
  webhook_id: string;
  sealed: string;
  last4: string;
  expires_at: string | null;
  created_at: string;
}
export interface DeliveryFilter {
  status?: string[];
  type?: string[];
  endpoint_id?: string;
  from?: string;
  to?: string;
}

const readEndpoint = reader<EndpointRow>({ json: ['event_types'], flags: ['loopback'] });
const toEndpoint = (row: object): EndpointRow => readEndpoint(row as never);
const readDelivery = reader<Delivery & { key: number }>({ json: ['attempts'] });

/** A delivery row as the wire has it. */
export const toDelivery = (row: object): Delivery => {
  const { key: _, ...delivery } = readDelivery(row as never);
  return delivery;
};

export const createStore = (db: Db) => ({
  addEndpoint(endpoint: Omit<EndpointRow, 'key'>) {
    const row = toColumns(endpoint);
    db.insert(insertSql('webhooks', row), row);
  },
  findEndpoint(id: string): EndpointRow | undefined {
    const row = db.get<object>('SELECT * FROM webhooks WHERE id = ?', [id]);
    return row && toEndpoint(row);
  },
  listEndpoints: (organization: string, after: number | null, limit: number): EndpointRow[] =>
    db
      .all<object>('SELECT * FROM webhooks WHERE organization_id = ? AND key < ? ORDER BY key DESC LIMIT ?', [
        organization,
        after ?? Number.MAX_SAFE_INTEGER,
        limit,
      ])
      .map(toEndpoint),
  enabled: (): EndpointRow[] =>
    db.all<object>(`SELECT * FROM webhooks WHERE status = 'enabled' ORDER BY key`).map(toEndpoint),
  updateEndpoint(id: string, fields: Partial<EndpointRow>) {
    const row = { ...toColumns(fields), id };
    db.run(updateSql('webhooks', row), row);
  },
  /** Endpoints that were deleted before this time and have no delivery left. */
  removeDeleted: (before: string): number =>
    db.run(
      `DELETE FROM webhooks WHERE disabled_reason = 'deleted' AND updated_at < ?
       AND NOT EXISTS (SELECT 1 FROM webhook_deliveries WHERE endpoint_id = webhooks.id)`,
      [before],
    ),

  addSecret(secret: SecretRow) {
    const row = toColumns(secret);
    db.insert(insertSql('webhook_secrets', row), row);
  },
  /** Newest first, without those that have expired. */
  secrets: (webhook: string, now: string): SecretRow[] =>
    db.all(
      `SELECT id, webhook_id, sealed, last4, expires_at, created_at FROM webhook_secrets
       WHERE webhook_id = ? AND (expires_at IS NULL OR expires_at > ?) ORDER BY key DESC`,
      [webhook, now],
    ),
  /** Those so far end at this time, unless they end before it. */
  expireSecrets: (webhook: string, at: string) =>
    db.run(
      'UPDATE webhook_secrets SET expires_at = :at WHERE webhook_id = :webhook AND (expires_at IS NULL OR expires_at > :at)',
      { webhook, at },
    ),
  removeSecret: (id: string) => db.run('DELETE FROM webhook_secrets WHERE id = ?', [id]),
  removeExpiredSecrets: (now: string) => db.run('DELETE FROM webhook_secrets WHERE expires_at <= ?', [now]),

  addEvent: (id: string, body: string, created_at: string) =>
    db.run('INSERT INTO webhook_events (id, body, created_at) VALUES (?, ?, ?)', [id, body, created_at]),
  bodyOf: (event: string): string =>
    db.get<{ body: string }>('SELECT body FROM webhook_events WHERE id = ?', [event])!.body,

  addDelivery(delivery: Delivery) {
    const row = toColumns(delivery);
    db.insert(insertSql('webhook_deliveries', row), row);
  },
  findDelivery(id: string): Delivery | undefined {
    const row = db.get<object>('SELECT * FROM webhook_deliveries WHERE id = ?', [id]);
    return row && toDelivery(row);
  },
  listDeliveries(organization: string, filter: DeliveryFilter, after: number | null, limit: number) {
    const where = ['organization_id = :organization', 'key < :after'];
    const params: Record<string, string | number> = {
      organization,
      limit,
      after: after ?? Number.MAX_SAFE_INTEGER,
    };
    const add = (clause: string, name: string, value: string | string[] | undefined) => {
      if (value === undefined) return;
      where.push(clause);
      params[name] = Array.isArray(value) ? JSON.stringify(value) : value;
    };
    add('endpoint_id = :endpoint', 'endpoint', filter.endpoint_id);
    add('status IN (SELECT value FROM json_each(:status))', 'status', filter.status);
    add('event_type IN (SELECT value FROM json_each(:type))', 'type', filter.type);
    add('created_at >= :from', 'from', filter.from);
    add('created_at < :to', 'to', filter.to);
    return db.all<{ key: number }>(
      `SELECT * FROM webhook_deliveries WHERE ${where.join(' AND ')} ORDER BY key DESC LIMIT :limit`,
      params,
    );
  },
  /** An endpoint's deliveries whose time has come, the longest due first. */
  due: (endpoint: string, now: string, limit: number): Delivery[] =>
    db
      .all<object>(
        'SELECT * FROM webhook_deliveries WHERE endpoint_id = ? AND next_attempt_at <= ? ORDER BY next_attempt_at, key LIMIT ?',
        [endpoint, now, limit],
      )
      .map(toDelivery),
  /** When an endpoint's next attempt after this time is due. */
  nextDue: (endpoint: string, now: string): string | null =>
    db.get<{ next: string | null }>(
      'SELECT min(next_attempt_at) AS next FROM webhook_deliveries WHERE endpoint_id = ? AND next_attempt_at > ?',
      [endpoint, now],
    )!.next,
  /** Changes a delivery that still has an attempt before it; false when it has none. */
  updateOpen(id: string, fields: Partial<Delivery>): boolean {
    const row = { ...toColumns(fields), id };
    return db.run(`${updateSql('webhook_deliveries', row)} AND status IN ('pending', 'retrying')`, row) > 0;
  },
  cancelOpen: (endpoint: string, now: string) =>
    db.run(
      `UPDATE webhook_deliveries SET status = 'cancelled', next_attempt_at = NULL, updated_at = ?
       WHERE endpoint_id = ? AND next_attempt_at IS NOT NULL`,
      [now, endpoint],
    ),
  /** Up to `limit` deliveries that were over before this time, oldest first. */
  removeOld: (before: string, limit: number): number =>
    db.run(
      `DELETE FROM webhook_deliveries WHERE key IN (SELECT key FROM webhook_deliveries
       WHERE created_at < ? AND next_attempt_at IS NULL ORDER BY created_at LIMIT ?)`,
      [before, limit],
    ),
  /** Up to `limit` events before this time that no delivery is about any more. */
  removeOldEvents: (before: string, limit: number): number =>
    db.run(
      `DELETE FROM webhook_events WHERE key IN (SELECT key FROM webhook_events WHERE created_at < ?
       AND NOT EXISTS (SELECT 1 FROM webhook_deliveries WHERE event_id = webhook_events.id) ORDER BY key LIMIT ?)`,
      [before, limit],
    ),
});
export type WebhookStore = ReturnType<typeof createStore>;
