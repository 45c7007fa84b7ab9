import type { Changes, Run, RunStatus } from '../api/runs.ts';
import type { Db } from '../base/db.ts';
import { insertSql, reader, toColumns, updateSql } from '../base/rows.ts';
import type { ProcessIdentity } from '../runner/protocol.ts';

/** Who works on a run: the process, and the word by which it knows the daemon. */
export interface RunnerRef extends ProcessIdentity {
  nonce: string;
}

/** Who asked for a run. */
export interface Caller {
  /** When it was an API key. */
  api_key_id: string | null;
  /** Whether it was the user of this machine, with the local session. */
  is_local: boolean;
}

/** A run as it is stored: what the wire has, its result, and what only the daemon knows. */
export interface RunRow extends Omit<Run, 'run_id' | 'pending_input'>, Caller {
  key: number;
  text: string | null;
  changes: Changes;
  /** The final answer in the form asked for. */
  structured_output: { value: unknown } | null;
  spool_offset: number;
  runner: RunnerRef | null;
  cancel_requested_at: string | null;
}

const read = reader<RunRow>({
  json: [
    'limits',
    'metadata',
    'error',
    'usage',
    'isolation',
    'network',
    'checkpoint_ids',
    'changes',
    'runner',
    'checkpoint',
    'webhook_endpoint_ids',
    'output_schema',
    'structured_output',
    'artifacts',
  ],
  flags: ['is_local'],
});
const toRow = (row: object | undefined): RunRow | undefined => row && read(row as never);

export interface RunFilter {
  status?: string[];
  project_id?: string;
  workspace_id?: string;
  session_id?: string;
  id?: string;
  from?: string;
  to?: string;
}

export const createStore = (db: Db) => ({
  /** Answers the integer key. */
  add(run: Omit<RunRow, 'key'>): number {
    // A word or an object: as JSON the one can be told from the other.
    const row = { ...toColumns(run), network: JSON.stringify(run.network) };
    return db.insert(insertSql('runs', row), row);
  },

  find: (id: string): RunRow | undefined => toRow(db.get('SELECT * FROM runs WHERE id = ?', [id])),

  list(organization: string, filter: RunFilter, after: number | null, limit: number): RunRow[] {
    const where = ['organization_id = :organization'];
    const params: Record<string, string | number> = { organization, limit };
    const add = (clause: string, name: string, value: string | number | undefined) => {
      if (value === undefined) return;
      where.push(clause);
      params[name] = value;
    };
    add('key < :after', 'after', after ?? undefined);
    add('id = :id', 'id', filter.id);
    add('project_id = :project', 'project', filter.project_id);
    add('workspace_id = :workspace', 'workspace', filter.workspace_id);
    add('session_id = :session', 'session', filter.session_id);
    add('created_at >= :from', 'from', filter.from);
    add('created_at < :to', 'to', filter.to);
    if (filter.status?.length === 1) add('status = :status', 'status', filter.status[0]);
    else if (filter.status)
      add('status IN (SELECT value FROM json_each(:status))', 'status', JSON.stringify(filter.status));
    return db
      .all<object>(`SELECT * FROM runs WHERE ${where.join(' AND ')} ORDER BY key DESC LIMIT :limit`, params)
      .map((row) => toRow(row)!);
  },

  /** Runs that wait for a start, oldest first, after a key. */
  waiting: (after: number, limit: number): { key: number; id: string; workspace_id: string }[] =>
    db.all(
      `SELECT key, id, workspace_id FROM runs WHERE status = 'queued' AND runner IS NULL AND key > ? ORDER BY key LIMIT ?`,
      [after, limit],
    ),

  /** Runs that have a process and have not ended. */
  working: (): { id: string }[] =>
    db.all(
      `SELECT id FROM runs WHERE status NOT IN ('completed', 'failed', 'cancelled') AND runner IS NOT NULL ORDER BY key`,
    ),

  /** The run of a session that goes on, or is the next to. */
  oldestOpen: (session: string): RunRow | undefined =>
    toRow(
      db.get(
        `SELECT * FROM runs WHERE session_id = ? AND status NOT IN ('completed', 'failed', 'cancelled') ORDER BY key LIMIT 1`,
        [session],
      ),
    ),

  hasOpen: (column: 'project_id' | 'session_id' | 'workspace_id', id: string): boolean =>
    db.get(`SELECT 1 FROM runs WHERE ${column} = ? AND status NOT IN ('completed', 'failed', 'cancelled') LIMIT 1`, [
      id,
    ]) !== undefined,

  update(id: string, fields: Partial<RunRow>) {
    const row = { ...toColumns(fields), id };
    db.run(updateSql('runs', row), row);
  },

  /** Changes the status of a run that is still in `from`; false when it is not. */
  move(id: string, from: RunStatus, fields: Partial<RunRow>): boolean {
    const row = { ...toColumns(fields), id };
    return db.run(`${updateSql('runs', row)} AND status = '${from}'`, row) > 0;
  },

  /** Texts of the conversation's finished runs, oldest first. */
  transcript: (session: string, before: number, limit: number): { prompt: string; text: string | null }[] =>
    db
      .all<{ prompt: string; text: string | null }>(
        `SELECT prompt, text FROM runs WHERE session_id = ? AND key < ? AND finished_at IS NOT NULL ORDER BY key DESC LIMIT ?`,
        [session, before, limit],
      )
      .reverse(),

  /** Runs that finished in a stretch of time (from inclusive, to exclusive), by key. */
  ended: (from: string, to: string, after: number, limit: number): { key: number; last_sequence: number }[] =>
    db.all(
      'SELECT key, last_sequence FROM runs WHERE finished_at >= ? AND finished_at < ? AND key > ? ORDER BY key LIMIT ?',
      [from, to, after, limit],
    ),

  ofProject: (
    project: string,
    limit: number,
  ): { key: number; id: string; session_id: string; last_sequence: number }[] =>
    db.all('SELECT key, id, session_id, last_sequence FROM runs WHERE project_id = ? LIMIT ?', [project, limit]),

  remove: (id: string) => db.run('DELETE FROM runs WHERE id = ?', [id]),
});
export type RunStore = ReturnType<typeof createStore>;
