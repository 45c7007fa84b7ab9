import type { Artifact } from '../api/artifacts.ts';
import type { Db } from '../base/db.ts';
import { insertSql, toColumns } from '../base/rows.ts';

const columns =
  'id, organization_id, run_id, workspace_id, name, path, kind, media_type, size_bytes, sha256, created_at, updated_at';

/** An artifact as the wire has it: without its integer key. */
export const toArtifact = (row: Artifact & { key: number }): Artifact => {
  const { key: _, ...artifact } = row;
  return artifact;
};

export const createStore = (db: Db) => ({
  add(artifact: Artifact) {
    const row = toColumns(artifact);
    db.insert(insertSql('artifacts', row), row);
  },

  find: (id: string): Artifact | undefined => db.get(`SELECT ${columns} FROM artifacts WHERE id = ?`, [id]),

  list: (run: string, after: number | null, limit: number): (Artifact & { key: number })[] =>
    db.all(`SELECT key, ${columns} FROM artifacts WHERE run_id = ? AND key < ? ORDER BY key DESC LIMIT ?`, [
      run,
      after ?? Number.MAX_SAFE_INTEGER,
      limit,
    ]),

  ofRun: (run: string): { id: string; sha256: string }[] =>
    db.all('SELECT id, sha256 FROM artifacts WHERE run_id = ? ORDER BY key', [run]),

  has: (run: string): boolean => db.get('SELECT 1 FROM artifacts WHERE run_id = ? LIMIT 1', [run]) !== undefined,

  /** Whether any artifact has these bytes. */
  isUsed: (sha256: string): boolean =>
    db.get('SELECT 1 FROM artifacts WHERE sha256 = ? LIMIT 1', [sha256]) !== undefined,

  removeOf: (run: string) => db.run('DELETE FROM artifacts WHERE run_id = ?', [run]),
});
export type ArtifactStore = ReturnType<typeof createStore>;
