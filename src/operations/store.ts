import type { Operation } from '../api/operations.ts';
import type { Db } from '../base/db.ts';
import { insertSql, reader, toColumns, updateSql } from '../base/rows.ts';

const columns =
  'key, id, organization_id, type, status, resource, progress, result, error, started_at, finished_at, created_at, updated_at';
const read = reader<Operation & { key?: number }>({ json: ['resource', 'progress', 'result', 'error'] });

/** Operation rows as the wire has them. */
export const toOperation = (row: { key: number }): Operation => {
  const { key: _, ...operation } = read(row as never) as Operation & { key?: number };
  return operation;
};

export interface OpenRow {
  id: string;
  type: Operation['type'];
  status: Operation['status'];
  input: string;
  due_at: string | null;
}

export const createStore = (db: Db) => ({
  add(operation: Operation, input: unknown, due: string | null) {
    const row = {
      ...toColumns(operation),
      resource_id: operation.resource?.id ?? null,
      input: JSON.stringify(input),
      due_at: due,
    };
    db.insert(insertSql('operations', row), row);
  },

  find: (id: string) => db.get<{ key: number }>(`SELECT ${columns} FROM operations WHERE id = ?`, [id]),

  list(
    organization: string,
    filter: { status?: string[]; type?: string[]; resource?: string },
    after: number | null,
    limit: number,
  ) {
    const where = ['organization_id = :organization'];
    if (after !== null) where.push('key < :after');
    if (filter.status) where.push('status IN (SELECT value FROM json_each(:status))');
    if (filter.type) where.push('type IN (SELECT value FROM json_each(:type))');
    if (filter.resource) where.push('resource_id = :resource');
    return db.all<{ key: number }>(
      `SELECT ${columns} FROM operations WHERE ${where.join(' AND ')} ORDER BY key DESC LIMIT :limit`,
      {
        organization,
        limit,
        ...(after === null ? {} : { after }),
        ...(filter.status ? { status: JSON.stringify(filter.status) } : {}),
        ...(filter.type ? { type: JSON.stringify(filter.type) } : {}),
        ...(filter.resource ? { resource: filter.resource } : {}),
      },
    );
  },

  open: (): OpenRow[] =>
    db.all(`SELECT id, type, status, input, due_at FROM operations WHERE status IN ('queued', 'running') ORDER BY key`),

  openOf: (resource: string, type: string): { id: string } | undefined =>
    db.get(
      `SELECT id FROM operations WHERE resource_id = ? AND type = ? AND status IN ('queued', 'running') ORDER BY key DESC LIMIT 1`,
      [resource, type],
    ),

  /** Changes an operation that is still in one of these states; false when it is not. */
  update(id: string, from: string[], fields: Partial<Operation> & { due_at?: string | null }) {
    const row = { ...toColumns(fields), id, from: JSON.stringify(from) };
    const { from: _, ...set } = row;
    return db.run(`${updateSql('operations', set)} AND status IN (SELECT value FROM json_each(:from))`, row) > 0;
  },
});
