import type { Workspace, Writer } from '../api/workspaces.ts';
import type { Db } from '../base/db.ts';
import { insertSql, reader, toColumns, updateSql } from '../base/rows.ts';

/** A workspace as it is stored: how it is watched is a matter of the moment. */
export type WorkspaceRow = Omit<Workspace, 'watch'>;

const columns =
  'key, id, organization_id, project_id, name, status, source, path, revision, writer, git, base_checkpoint_id, delete_after, error, metadata, created_at, updated_at';
const read = reader<WorkspaceRow>({ json: ['source', 'writer', 'git', 'error', 'metadata'] });

/** A workspace row as the wire has it, but for how it is watched. */
export const toWorkspace = (row: { key: number }): WorkspaceRow => {
  const { key: _, ...workspace } = read(row as never) as WorkspaceRow & { key?: number };
  return workspace;
};

export const createStore = (db: Db) => ({
  add(workspace: WorkspaceRow) {
    const row = toColumns(workspace);
    db.insert(insertSql('workspaces', row), row);
  },

  find(id: string): WorkspaceRow | undefined {
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

  all: (project: string): WorkspaceRow[] =>
    db.all<{ key: number }>(`SELECT ${columns} FROM workspaces WHERE project_id = ?`, [project]).map(toWorkspace),

  update(id: string, fields: Partial<WorkspaceRow>) {
    const row = { ...toColumns(fields), id };
    db.run(updateSql('workspaces', row), row);
  },

  /** Who writes in a workspace above or below this path: such share files. */
  writerAround(path: string): Writer | undefined {
    const above = path.split('/').map((_, at, parts) => parts.slice(0, at).join('/') || '/');
    const row = db.get<{ writer: string }>(
      `SELECT writer FROM workspaces WHERE status <> 'deleted' AND writer IS NOT NULL
        AND (path IN (SELECT value FROM json_each(:above)) OR (path > :path || '/' AND path < :path || '0')) LIMIT 1`,
      { above: JSON.stringify(above), path },
    );
    return row && (JSON.parse(row.writer) as Writer);
  },

  claim: (id: string, writer: Writer): boolean =>
    db.run(`UPDATE workspaces SET writer = ? WHERE id = ? AND writer IS NULL AND status = 'ready'`, [
      JSON.stringify(writer),
      id,
    ]) > 0,

  release: (id: string, holder: string) =>
    db.run(`UPDATE workspaces SET writer = NULL WHERE id = ? AND writer ->> 'id' = ?`, [id, holder]),

  /** `signature` is the tree's after the change; null when it is not known. */
  grow: (id: string, now: string, signature: string | null): number =>
    db.get<{ revision: number }>(
      'UPDATE workspaces SET revision = revision + 1, updated_at = ?, signature = ? WHERE id = ? RETURNING revision',
      [now, signature, id],
    )!.revision,

  signature: (id: string): string | null =>
    db.get<{ signature: string | null }>('SELECT signature FROM workspaces WHERE id = ?', [id])?.signature ?? null,

  keepSignature: (id: string, signature: string) =>
    db.run('UPDATE workspaces SET signature = ? WHERE id = ?', [signature, id]),
});
