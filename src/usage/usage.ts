import type { ModelCall, Usage } from '../api/usage.ts';
import type { Clock } from '../base/clock.ts';
import type { Db, Tx } from '../base/db.ts';
import { createReport } from './report.ts';
import { type Accepted, createRangeStore, createStore, type Owner } from './store.ts';

/** A run's figures at its end, as its harness told them. */
interface Report {
  usage: Usage;
  at: string;
  model: string | null;
  failed: boolean;
}

/** The ledger of calls of models: what a run used is the sum of its calls, each of which is in here once. */
export function createUsage({ db, clock }: { db: Db; clock: Clock }) {
  const store = createStore(db);
  const inRange = createReport({ store: createRangeStore(db), clock });
  return {
    /** Writes a call down, in the transaction of how far its run's record was read. A call that is there stays as it is. */
    record(_tx: Tx, run: Owner, call: ModelCall): void {
      store.add(run, call);
    },

    /** Writes down what a harness says that all its calls of a run came to, when nobody could count them. */
    report(_tx: Tx, run: Owner, { usage, at, model, failed }: Report): void {
      const { turns: _t, tool_calls: _c, ...figures } = usage;
      const status = failed ? 'failed' : 'completed';
      const unknown = { provider: null, dialect: null, http_status: null };
      store.add(run, { call_id: 'run', at, model, status, main: true, ...unknown, ...figures });
    },

    /** Counts a run that was accepted. */
    begin(_tx: Tx, run: Accepted): void {
      store.begin(run);
    },

    /** Writes down what a run came to besides its calls. */
    finish(_tx: Tx, run: string, { turns, tool_calls, duration_ms }: Usage, model: string | null): void {
      store.finish(run, { turns, tool_calls, duration_ms, model });
    },

    /** What an organization used. Throws `invalid_parameter`. */
    inRange,

    /** A run's figures with tokens and cost as its calls have them; as they are when it has none. */
    summed(run: string, figures: Usage): Usage {
      const { calls, is_estimated, ...sums } = store.ofRun(run);
      if (calls === 0) return figures;
      const known = sums.cost_micro_usd !== null;
      return { ...figures, ...sums, cost_source: !known ? 'unknown' : is_estimated ? 'estimated' : 'reported' };
    },

    /** Micro-USD that managed runs of an organization or a project have cost since a time (RFC 3339). */
    spent: (column: 'organization_id' | 'project_id', id: string, from: string): bigint =>
      BigInt(store.spent(column, id, from)),
  };
}
export type UsageLedger = ReturnType<typeof createUsage>;
