import type { Session } from '../api/sessions.ts';
import type { Db } from '../base/db.ts';
import { insertSql, reader, toColumns, updateSql } from '../base/rows.ts';

const columns =
  'key, id, organization_id, project_id, workspace_id, agent_id, agent_revision, harness, model, title, status, latest_run_id, run_count, usage, metadata, created_at, updated_at';
const read = reader<Session>({ json: ['usage', 'metadata'] });

/** A session row as the wire has it. */
export const toSession = (row: { key: number }): Session => {
  const { key: _, ...session } = read(row as never) as Session & { key?: number };
  return session;
};

export const createStore = (db: Db) => ({
  add(session: Session, forked_from_run_id: string | null) {
    const row = toColumns({ ...session, forked_from_run_id });
    db.insert(insertSql('sessions', row), row);
  },

  find(id: string): Session | undefined {
    const row = db.get<{ key: number }>(`SELECT ${columns} FROM sessions WHERE id = ?`, [id]);
    return row && toSession(row);
  },

  list(organization: string, workspace: string | undefined, after: number | null, limit: number) {
    const where = workspace === undefined ? 'organization_id = ?' : 'organization_id = ? AND workspace_id = ?';
    return db.all<{ key: number }>(
      `SELECT ${columns} FROM sessions WHERE ${where} AND key < ? ORDER BY key DESC LIMIT ?`,
      [organization, ...(workspace === undefined ? [] : [workspace]), after ?? Number.MAX_SAFE_INTEGER, limit],
    );
  },

  update(id: string, fields: Partial<Session> & { native_session_id?: string }) {
    const row = { ...toColumns(fields), id };
    db.run(updateSql('sessions', row), row);
  },

  origin: (id: string): string | null =>
    db.get<{ forked_from_run_id: string | null }>('SELECT forked_from_run_id FROM sessions WHERE id = ?', [id])
      ?.forked_from_run_id ?? null,

  native: (id: string): string | null =>
    db.get<{ native_session_id: string | null }>('SELECT native_session_id FROM sessions WHERE id = ?', [id])
      ?.native_session_id ?? null,
});
