import type { CheckpointTrigger } from '../api/checkpoints.ts';
import { isTerminal } from '../api/runs.ts';
import type { Checkpoints } from '../checkpoints/checkpoints.ts';
import { crashPoint } from '../base/crash.ts';
import type { Db } from '../base/db.ts';
import type { Logger } from '../base/log.ts';
import type { Workspaces } from '../workspaces/workspaces.ts';
import type { Runs } from './runs.ts';
import type { RunRow, RunStore } from './store.ts';

interface Needs {
  db: Db;
  log: Logger;
  store: RunStore;
  runs: Runs;
  workspaces: Workspaces;
  checkpoints: Checkpoints;
}

type Side = 'before' | 'after';
const triggers = { before: 'before_run', after: 'after_run' } as const satisfies Record<Side, CheckpointTrigger>;

/** The tree before and after a run, kept while nobody else may write in it. A tree that cannot be kept is no run's failure. */
export function createSnapshots({ db, log, store, runs, workspaces, checkpoints }: Needs) {
  /** What is to be written of a run that has not ended. */
  const write = (id: string, fill: (row: RunRow) => ReturnType<Runs['open']>): void =>
    db.write((tx) => {
      const row = store.find(id);
      if (row && !isTerminal(row.status)) runs.close(tx, fill(row));
    });

  const keep = async (id: string, side: Side): Promise<void> => {
    const row = store.find(id)!;
    const workspace = workspaces.find(row.workspace_id)!;
    const trigger = triggers[side];
    try {
      await checkpoints.keep(workspace, async (kept) => {
        const { before } = row.checkpoint_ids;
        const changes = side === 'after' && before ? await checkpoints.changes(workspace, before, kept) : null;
        crashPoint(`run.${trigger}`, 'kept');
        write(id, (current) => {
          const entry = runs.open(current);
          const checkpoint_id = checkpoints.add(workspace, trigger, kept, id);
          entry.fields.checkpoint_ids = { ...current.checkpoint_ids, [side]: checkpoint_id };
          if (changes) entry.fields.changes = changes;
          runs.say(entry, 'checkpoint.created', 'daemon', { checkpoint_id, trigger });
          return entry;
        });
      });
      crashPoint(`run.${trigger}`, 'committed');
    } catch (error) {
      log.warn({ run: id, err: error }, `No checkpoint could be made ${side} a run.`);
      write(id, (current) => {
        const entry = runs.open(current);
        const text = `No checkpoint could be made ${side} this run: ${checkpoints.explain(error)}`;
        runs.say(entry, 'log', 'daemon', { level: 'warn', stream: 'daemon', text });
        return entry;
      });
    }
  };

  const wants = (row: RunRow, side: Side): boolean => row.checkpoint[side] && row.checkpoint_ids[side] === null;

  return {
    /** Whether the tree is to be kept and has not been. */
    wants,

    /** Keeps the tree, if that is wanted, and says so in the run's log. Never rejects for what a tree can be. */
    async keep(id: string, side: Side): Promise<void> {
      const row = store.find(id);
      if (row && !isTerminal(row.status) && wants(row, side)) await keep(id, side);
    },
  };
}
export type Snapshots = ReturnType<typeof createSnapshots>;
