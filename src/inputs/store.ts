import type { InputRequest } from '../api/inputs.ts';
import type { Db } from '../base/db.ts';
import { insertSql, reader, toColumns, updateSql } from '../base/rows.ts';

const read = reader<InputRequest>({ json: ['options', 'schema', 'answer', 'grant'], flags: ['allow_text'] });

/** An input request row as the wire has it. */
export const toInput = (row: { key: number }): InputRequest => {
  const { key: _, ...request } = read(row as never) as InputRequest & { key?: number };
  return request;
};

export const createStore = (db: Db) => ({
  add(request: InputRequest) {
    const row = toColumns(request);
    db.insert(insertSql('inputs', row), row);
  },

  find(id: string): InputRequest | undefined {
    const row = db.get<{ key: number }>('SELECT * FROM inputs WHERE id = ?', [id]);
    return row && toInput(row);
  },

  ofRun: (run: string): InputRequest[] =>
    db.all<{ key: number }>('SELECT * FROM inputs WHERE run_id = ? ORDER BY key', [run]).map(toInput),

  list(organization: string, filter: { status?: string[]; run_id?: string }, after: number | null, limit: number) {
    const where = ['organization_id = :organization', 'key < :after'];
    if (filter.status) where.push('status IN (SELECT value FROM json_each(:status))');
    if (filter.run_id) where.push('run_id = :run');
    return db.all<{ key: number }>(`SELECT * FROM inputs WHERE ${where.join(' AND ')} ORDER BY key DESC LIMIT :limit`, {
      organization,
      limit,
      after: after ?? Number.MAX_SAFE_INTEGER,
      ...(filter.status ? { status: JSON.stringify(filter.status) } : {}),
      ...(filter.run_id ? { run: filter.run_id } : {}),
    });
  },

  /** Settles a request that is still pending; false when it is not. */
  settle(id: string, fields: Partial<InputRequest>): boolean {
    const row = { ...toColumns(fields), id };
    return db.run(`${updateSql('inputs', row)} AND status = 'pending'`, row) > 0;
  },
});
