import type { Grant } from '../api/grants.ts';
import type { Db } from '../base/db.ts';
import { insertSql } from '../base/rows.ts';

/** A grant's row as the wire has it. */
export const toGrant = (row: { key: number }): Grant => {
  const { key: _, ...grant } = row as Grant & { key?: number };
  return grant;
};

export const createStore = (db: Db) => ({
  /** One that is there already stays as it is. */
  add: (grant: Grant) => db.run(`${insertSql('grants', grant)} ON CONFLICT DO NOTHING`, grant),

  find(id: string): Grant | undefined {
    const row = db.get<{ key: number }>('SELECT * FROM grants WHERE id = ?', [id]);
    return row && toGrant(row);
  },

  list(organization: string, project: string | undefined, after: number | null, limit: number) {
    const where = project === undefined ? 'organization_id = ?' : 'organization_id = ? AND project_id = ?';
    return db.all<{ key: number }>(`SELECT * FROM grants WHERE ${where} AND key < ? ORDER BY key DESC LIMIT ?`, [
      organization,
      ...(project === undefined ? [] : [project]),
      after ?? Number.MAX_SAFE_INTEGER,
      limit,
    ]);
  },

  for: (project: string, harness: string): Pick<Grant, 'id' | 'kind' | 'tool' | 'pattern'>[] =>
    db.all('SELECT id, kind, tool, pattern FROM grants WHERE project_id = ? AND harness = ? ORDER BY key', [
      project,
      harness,
    ]),

  remove: (id: string) => db.run('DELETE FROM grants WHERE id = ?', [id]),
});
