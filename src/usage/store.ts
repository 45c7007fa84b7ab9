import type { UsageFigures, UsageGroup } from '../api/usage-report.ts';
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

/** A run that was accepted. */
export interface Accepted extends Owner {
  model: string | null;
  created_at: string;
}

/** What a run came to besides its calls. */
interface Finished {
  turns: number;
  tool_calls: number;
  duration_ms: number;
  model: string | null;
}

const whose = ({
  id,
  organization_id,
  project_id,
  workspace_id,
  session_id,
  agent_id,
  api_key_id,
  ...more
}: Owner) => ({
  run_id: id,
  organization_id,
  project_id,
  workspace_id,
  session_id,
  agent_id,
  api_key_id,
  harness: more.harness,
  billing_mode: more.billing_mode,
});

/** The calls that were summed, and their tokens. */
interface TokenSums {
  calls: number;
  input_tokens: number;
  cached_input_tokens: number;
  cache_write_tokens: number;
  output_tokens: number;
  reasoning_tokens: number;
  is_estimated: number;
}

/** The sums over a run's calls; the cost is null when one of them is unknown. */
export interface Sums extends TokenSums {
  /** Millionths of a dollar, as text: what a number cannot hold is held. */
  cost_micro_usd: string | null;
}

/** What every sum over calls has. */
const tokenSums = `count(*) AS calls, coalesce(sum(input_tokens), 0) AS input_tokens,
  coalesce(sum(cached_input_tokens), 0) AS cached_input_tokens, coalesce(sum(cache_write_tokens), 0) AS cache_write_tokens,
  coalesce(sum(output_tokens), 0) AS output_tokens, coalesce(sum(reasoning_tokens), 0) AS reasoning_tokens,
  coalesce(max(cost_source = 'estimated'), 0) AS is_estimated`;
const sums = `${tokenSums},
  CASE WHEN count(*) = count(cost_micro_usd) THEN CAST(sum(cost_micro_usd) AS TEXT) END AS cost_micro_usd`;

export const createStore = (db: Db) => ({
  /** False when the run has had this call. */
  add(owner: Owner, call: ModelCall): boolean {
    const row = toColumns({ ...whose(owner), ...call });
    return db.run(insertSql('model_calls', row).replace('INSERT', 'INSERT OR IGNORE'), row) > 0;
  },

  begin(run: Accepted) {
    const row = { ...whose(run), model: run.model, at: run.created_at, turns: 0, tool_calls: 0, duration_ms: 0 };
    db.run(insertSql('run_figures', row), row);
  },

  finish: (run: string, { turns, tool_calls, duration_ms, model }: Finished) =>
    db.run('UPDATE run_figures SET turns = ?, tool_calls = ?, duration_ms = ?, model = ? WHERE run_id = ?', [
      turns,
      tool_calls,
      duration_ms,
      model,
      run,
    ]),

  ofRun: (run: string): Sums => db.get<Sums>(`SELECT ${sums} FROM model_calls WHERE run_id = ?`, [run])!,

  /** Millionths of a dollar in calls of managed runs since a time; what is unknown is not counted. */
  spent: (column: 'organization_id' | 'project_id', id: string, from: string): string =>
    db.get<{ spent: string }>(
      `SELECT CAST(coalesce(sum(cost_micro_usd), 0) AS TEXT) AS spent FROM model_calls
       WHERE ${column} = ? AND at >= ? AND billing_mode = 'managed'`,
      [id, from],
    )!.spent,
});

/** The figures of a bucket or a group. */
export type Figures = UsageFigures;

/** Rows of an organization, from inclusive and to exclusive, as RFC 3339. */
interface Range extends Record<string, string> {
  organization: string;
  from: string;
  to: string;
}

const within = 'organization_id = :organization AND at >= :from AND at < :to';
const columns = {
  project: 'project_id',
  workspace: 'workspace_id',
  session: 'session_id',
  agent: 'agent_id',
  harness: 'harness',
  model: 'model',
  api_key: 'api_key_id',
  billing_mode: 'billing_mode',
} as const satisfies Record<UsageGroup, string>;

/** The column that a group is read from; both tables call it the same. */
export const columnOf = (group: UsageGroup): string => columns[group];

interface CallSums extends TokenSums {
  priced: number;
  cost: string;
}
interface RunSums {
  runs: number;
  turns: number;
  tool_calls: number;
  duration_ms: number;
}

const noCalls: CallSums = {
  calls: 0,
  priced: 0,
  is_estimated: 0,
  cost: '0',
  input_tokens: 0,
  cached_input_tokens: 0,
  cache_write_tokens: 0,
  output_tokens: 0,
  reasoning_tokens: 0,
};
const noRuns: RunSums = { runs: 0, turns: 0, tool_calls: 0, duration_ms: 0 };

const callSums = `${tokenSums}, count(cost_micro_usd) AS priced,
  CAST(coalesce(sum(cost_micro_usd), 0) AS TEXT) AS cost`;
const runSums = `count(*) AS runs, coalesce(sum(turns), 0) AS turns, coalesce(sum(tool_calls), 0) AS tool_calls,
  coalesce(sum(duration_ms), 0) AS duration_ms`;

/** Sums over ranges of time; each is one walk along an index. */
export const createRangeStore = (db: Db) => ({
  /** The time (milliseconds) of the first row in a range; undefined when there is none. */
  first(range: Range): number | undefined {
    const times = (['model_calls', 'run_figures'] as const).map(
      (table) => db.get<{ at: string | null }>(`SELECT min(at) AS at FROM ${table} WHERE ${within}`, range)!.at,
    );
    const found = times.filter((at) => at !== null).map((at) => Date.parse(at));
    return found.length > 0 ? Math.min(...found) : undefined;
  },

  /** The sums of a range by these columns; a group's key is the JSON list of its values. */
  sums(range: Range, by: string[]): Map<string, Figures> {
    const groups = new Map<string, { call: CallSums; run: RunSums }>();
    const read = <Sums>(table: string, sums: string): [string, Sums][] => {
      const group = by.length > 0 ? ` GROUP BY ${by.join(', ')}` : '';
      const rows = db.all<Record<string, string | null> & Sums>(
        `SELECT ${[...by, sums].join(', ')} FROM ${table} WHERE ${within}${group}`,
        range,
      );
      return rows.map((row) => [JSON.stringify(by.map((column) => row[column])), row]);
    };
    for (const [key, call] of read<CallSums>('model_calls', callSums)) groups.set(key, { call, run: noRuns });
    for (const [key, run] of read<RunSums>('run_figures', runSums))
      groups.set(key, { call: groups.get(key)?.call ?? noCalls, run });
    return new Map([...groups].map(([key, { call, run }]) => [key, figuresOf(call, run)]));
  },
});
export type RangeStore = ReturnType<typeof createRangeStore>;

function figuresOf(call: CallSums, { runs, turns, tool_calls, duration_ms }: RunSums): Figures {
  const unknown = call.calls > 0 && call.priced === 0;
  return {
    runs,
    calls: call.calls,
    unpriced_calls: call.calls - call.priced,
    input_tokens: call.input_tokens,
    cached_input_tokens: call.cached_input_tokens,
    cache_write_tokens: call.cache_write_tokens,
    output_tokens: call.output_tokens,
    reasoning_tokens: call.reasoning_tokens,
    turns,
    tool_calls,
    duration_ms,
    cost_micro_usd: unknown ? null : call.cost,
    cost_source: unknown ? 'unknown' : call.is_estimated ? 'estimated' : 'reported',
  };
}
