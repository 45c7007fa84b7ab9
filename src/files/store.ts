import type { Transfer } from '../api/files.ts';
import type { Db } from '../base/db.ts';
import { insertSql, toColumns } from '../base/rows.ts';

/** A transfer as it is stored; its upload_url is made anew for each answer. */
export type TransferRow = Omit<Transfer, 'upload_url'>;

const columns =
  'id, organization_id, workspace_id, path, size_bytes, sha256, status, expires_at, created_at, updated_at';

export const createStore = (db: Db) => ({
  add(transfer: TransferRow) {
    const row = toColumns(transfer);
    db.insert(insertSql('transfers', row), row);
  },

  find: (id: string): TransferRow | undefined => db.get(`SELECT ${columns} FROM transfers WHERE id = ?`, [id]),

  move: (id: string, from: string, to: string, now: string): boolean =>
    db.run('UPDATE transfers SET status = ?, updated_at = ? WHERE id = ? AND status = ?', [to, now, id, from]) > 0,

  expired: (now: string): { id: string }[] => db.all('SELECT id FROM transfers WHERE expires_at <= ? LIMIT 100', [now]),

  nextExpiry: (): string | undefined =>
    db.get<{ expires_at: string | null }>('SELECT min(expires_at) AS expires_at FROM transfers')?.expires_at ??
    undefined,

  uploaded: (): { id: string }[] => db.all("SELECT id FROM transfers WHERE status = 'uploaded'"),

  remove: (id: string) => db.run('DELETE FROM transfers WHERE id = ?', [id]),
});
export type Store = ReturnType<typeof createStore>;
