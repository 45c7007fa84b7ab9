import type { ModelCall } from '../api/usage.ts';
import type { Run } from '../api/runs.ts';
import type { Db } from '../base/db.ts';
import { insertSql, toColumns } from '../base/rows.ts';

/** Whose a call was. */
export interface Owner extends Pick<
  Run,
  'organization_id' | 'project_id' | 'workspace_id' | 'session_id' | 'agent_id' | 'harness' | 'billing_mode'
> {
  id: string;
  api_key_id: string | null;
}

/** The sums over calls; a cost is null when one of them is unknown. */
export interface Sums {
  calls: number;
  input_tokens: number;
  cached_input_tokens: number;
  cache_write_tokens: number;
  output_tokens: number;
  reasoning_tokens: number;
  /** Millionths of a dollar, as text: what a number cannot hold is held. */
  cost_micro_usd: string | null;
  is_estimated: number;
}

const sums = `count(*) AS calls, coalesce(sum(input_tokens), 0) AS input_tokens,
  coalesce(sum(cached_input_tokens), 0) AS cached_input_tokens, coalesce(sum(cache_write_tokens), 0) AS cache_write_tokens,
  coalesce(sum(output_tokens), 0) AS output_tokens, coalesce(sum(reasoning_tokens), 0) AS reasoning_tokens,
  CASE WHEN count(*) = count(cost_micro_usd) THEN CAST(sum(cost_micro_usd) AS TEXT) END AS cost_micro_usd,
  coalesce(max(cost_source = 'estimated'), 0) AS is_estimated`;

export const createStore = (db: Db) => ({
  /** False when the run has had this call. */
  add(owner: Owner, call: ModelCall): boolean {
    const { id: run_id, organization_id, project_id, workspace_id, session_id, agent_id, api_key_id } = owner;
    const { harness, billing_mode } = owner;
    const whose = { run_id, organization_id, project_id, workspace_id, session_id, agent_id, api_key_id };
    const row = toColumns({ ...whose, harness, billing_mode, ...call });
    return db.run(insertSql('model_calls', row).replace('INSERT', 'INSERT OR IGNORE'), row) > 0;
  },

  ofRun: (run: string): Sums => db.get<Sums>(`SELECT ${sums} FROM model_calls WHERE run_id = ?`, [run])!,

  /** Millionths of a dollar in calls of managed runs since a time; what is unknown is not counted. */
  spent: (column: 'organization_id' | 'project_id', id: string, from: string): string =>
    db.get<{ spent: string }>(
      `SELECT CAST(coalesce(sum(cost_micro_usd), 0) AS TEXT) AS spent FROM model_calls
       WHERE ${column} = ? AND at >= ? AND billing_mode = 'managed'`,
      [id, from],
    )!.spent,
});
