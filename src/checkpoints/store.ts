import type { Checkpoint } from '../api/checkpoints.ts';
import type { Db } from '../base/db.ts';
import { insertSql, reader, toColumns, updateSql } from '../base/rows.ts';

/** A checkpoint as it is stored: with the folders that it leaves out. */
export interface CheckpointRow extends Checkpoint {
  exclude: string[];
}

/** What a restore does, as its operation's result has it. */
export interface Lists {
  added: string[];
  changed: string[];
  removed: string[];
}

const columns =
  'key, id, organization_id, workspace_id, name, status, "trigger", run_id, parent_id, revision, tree_hash, file_count, size_bytes, stored_bytes, git, verified_at, expires_at, error, metadata, exclude, created_at, updated_at';
const read = reader<CheckpointRow>({ json: ['git', 'error', 'metadata', 'exclude'] });

const toRow = (row: object): CheckpointRow => {
  const { key: _, ...checkpoint } = read(row as never) as CheckpointRow & { key?: number };
  return checkpoint;
};

/** A checkpoint as the wire has it. */
export const toCheckpoint = (row: object): Checkpoint => {
  const { exclude: _, ...checkpoint } = toRow(row);
  return checkpoint;
};

export const createStore = (db: Db) => ({
  add(checkpoint: CheckpointRow) {
    const row = toColumns(checkpoint);
    db.insert(insertSql('checkpoints', row), row);
  },

  find(id: string): CheckpointRow | undefined {
    const row = db.get<object>(`SELECT ${columns} FROM checkpoints WHERE id = ?`, [id]);
    return row && toRow(row);
  },

  list: (workspace: string, after: number | null, limit: number) =>
    db.all<{ key: number }>(
      `SELECT ${columns} FROM checkpoints WHERE workspace_id = ? AND key < ? ORDER BY key DESC LIMIT ?`,
      [workspace, after ?? Number.MAX_SAFE_INTEGER, limit],
    ),

  /** The newest that is whole. */
  latest: (workspace: string): string | undefined =>
    db.get<{ id: string }>(
      `SELECT id FROM checkpoints WHERE workspace_id = ? AND status = 'verified' ORDER BY key DESC LIMIT 1`,
      [workspace],
    )?.id,

  update(id: string, fields: Partial<CheckpointRow>) {
    const row = { ...toColumns(fields), id };
    db.run(updateSql('checkpoints', row), row);
  },

  remove: (id: string) => db.run('DELETE FROM checkpoints WHERE id = ?', [id]),

  /** The checkpoints around a run, by what made them. */
  ofRun(run: string): Partial<Record<CheckpointRow['trigger'], CheckpointRow>> {
    const rows = db.all<object>(`SELECT ${columns} FROM checkpoints WHERE run_id = ?`, [run]).map(toRow);
    return Object.fromEntries(rows.map((row) => [row.trigger, row]));
  },

  /** Those whose time has come, by key. */
  expired: (now: string, after: number, limit: number): (CheckpointRow & { key: number })[] =>
    db
      .all<{ key: number }>(
        `SELECT ${columns} FROM checkpoints WHERE expires_at <= ? AND key > ? AND status <> 'creating' ORDER BY key LIMIT ?`,
        [now, after, limit],
      )
      .map((row) => ({ ...toRow(row), key: row.key })),

  /** Every tree that a checkpoint names. */
  trees: () =>
    db.all<{ id: string; tree_hash: string; status: string; workspace_id: string }>(
      'SELECT id, tree_hash, status, workspace_id FROM checkpoints WHERE tree_hash IS NOT NULL',
    ),

  addDiff: (row: { run_id: string; workspace_id: string; patch: Buffer; created_at: string }) =>
    db.insert(insertSql('diffs', row), row),

  hasDiff: (run: string): boolean => db.get('SELECT 1 FROM diffs WHERE run_id = ?', [run]) !== undefined,

  findDiff: (run: string): Buffer | undefined =>
    db.get<{ patch: Buffer }>('SELECT patch FROM diffs WHERE run_id = ?', [run])?.patch,

  /** When upkeep of a kind was last done. */
  upkeep: (name: string): string | undefined =>
    db.get<{ at: string }>('SELECT at FROM upkeep WHERE name = ?', [name])?.at,

  noteUpkeep: (name: string, at: string, result: object) =>
    db.run(
      'INSERT INTO upkeep (name, at, result) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET at = excluded.at, result = excluded.result',
      [name, at, JSON.stringify(result)],
    ),

  addRestore: (operation: string, plan: Lists) =>
    db.run('INSERT INTO restores (operation_id, plan) VALUES (?, ?)', [operation, JSON.stringify(plan)]),

  findRestore(operation: string): { lists: Lists; isApplied: boolean } | undefined {
    const row = db.get<{ plan: string; applied: number }>('SELECT plan, applied FROM restores WHERE operation_id = ?', [
      operation,
    ]);
    return row && { lists: JSON.parse(row.plan) as Lists, isApplied: row.applied === 1 };
  },

  restoreApplied: (operation: string) => db.run('UPDATE restores SET applied = 1 WHERE operation_id = ?', [operation]),

  removeRestore: (operation: string) => db.run('DELETE FROM restores WHERE operation_id = ?', [operation]),
});
export type CheckpointStore = ReturnType<typeof createStore>;
