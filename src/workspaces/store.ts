import type { Workspace, Writer } from '../api/workspaces.ts';
import type { Db } from '../base/db.ts';
import { insertSql, reader, toColumns, updateSql } from '../base/rows.ts';

const columns =
  'key, id, organization_id, project_id, name, status, source, path, revision, writer, git, base_checkpoint_id, delete_after, error, metadata, created_at, updated_at';
const read = reader<Workspace>({ json: ['source', 'writer', 'git', 'error', 'metadata'] });

/** A workspace row as the wire has it. */
export const toWorkspace = (row: { key: number }): Workspace => {
  const { key: _, ...workspace } = read(row as never) as Workspace & { key?: number };
  return workspace;
};

export const createStore = (db: Db) => ({
  add(workspace: Workspace) {
    const row = toColumns(workspace);
    db.insert(insertSql('workspaces', row), row);
  },

  find(id: string): Workspace | undefined {
    const row = db.get<{ key: number }>(`SELECT ${columns} FROM workspaces WHERE id = ?`, [id]);
    return row && toWorkspace(row);
  },

  /** The id of the workspace that has this directory, unless it is deleted. */
  atPath: (path: string): string | undefined =>
    db.get<{ id: string }>("SELECT id FROM workspaces WHERE path = ? AND status <> 'deleted'", [path])?.id,

  list: (project: string, after: number | null, limit: number) =>
    db.all<{ key: number }>(
      `SELECT ${columns} FROM workspaces WHERE project_id = ? AND status <> 'deleted' AND key < ? ORDER BY key DESC LIMIT ?`,
      [project, after ?? Number.MAX_SAFE_INTEGER, limit],
    ),

  all: (project: string): Workspace[] =>
    db.all<{ key: number }>(`SELECT ${columns} FROM workspaces WHERE project_id = ?`, [project]).map(toWorkspace),

  update(id: string, fields: Partial<Workspace>) {
    const row = { ...toColumns(fields), id };
    db.run(updateSql('workspaces', row), row);
  },

  claim: (id: string, writer: Writer): boolean =>
    db.run(`UPDATE workspaces SET writer = ? WHERE id = ? AND writer IS NULL AND status = 'ready'`, [
      JSON.stringify(writer),
      id,
    ]) > 0,

  release: (id: string, holder: string) =>
    db.run(`UPDATE workspaces SET writer = NULL WHERE id = ? AND writer ->> 'id' = ?`, [id, holder]),

  grow: (id: string, now: string): number =>
    db.get<{ revision: number }>(
      'UPDATE workspaces SET revision = revision + 1, updated_at = ? WHERE id = ? RETURNING revision',
      [now, id],
    )!.revision,
});
