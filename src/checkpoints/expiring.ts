import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import { type Clock, iso } from '../base/clock.ts';
import type { Db } from '../base/db.ts';
import type { Logger } from '../base/log.ts';
import type { Operations } from '../operations/operations.ts';
import { patchBetween } from './comparing.ts';
import type { Keeping } from './keeping.ts';
import type { Places } from './restoring.ts';
import type { CheckpointRow, CheckpointStore } from './store.ts';

interface Needs {
  db: Db;
  clock: Clock;
  log: Logger;
  operations: Operations;
  places: Places;
  store: CheckpointStore;
  keeping: Keeping;
  /** Whether a run has not ended. */
  isRunOpen(run: string): boolean;
}

/** A diff that takes more bytes than this when it is compressed is not kept in place of its checkpoints: they stay. */
const maxStored = 4_194_304;
const batch = 100;

/**
 * Removes checkpoints whose time has come. What a run changed can be asked for at any later time: before one of its two
 * checkpoints goes, by hand too, the difference is stored.
 */
export function createExpiring({ db, clock, log, operations, places, store, keeping, isRunOpen }: Needs) {
  /** The newest of a workspace that still is one stays, and so does what work that was accepted begins from. */
  const isNeeded = ({ id, workspace_id, run_id }: CheckpointRow): boolean =>
    (store.latest(workspace_id) === id && places.find(workspace_id)?.status !== 'deleted') ||
    (run_id !== null && isRunOpen(run_id)) ||
    operations
      .unfinished('workspace.create')
      .some(({ input }) => places.find((input as { workspace_id: string }).workspace_id)?.base_checkpoint_id === id) ||
    operations.unfinished('workspace.restore').some(({ input }) => (input as { before_id: unknown }).before_id === id);

  /** Stores what a checkpoint's run changed, if it has not been and can be said. False: too large to be stored. */
  const remember = async ({ run_id, workspace_id }: CheckpointRow): Promise<boolean> => {
    if (run_id === null || store.hasDiff(run_id)) return true;
    const { before_run: before, after_run: after } = store.ofRun(run_id);
    const workspace = places.find(workspace_id);
    if (!before?.tree_hash || !after?.tree_hash || !workspace) return true;
    const trees = keeping.treesOf(workspace.project_id);
    const patch = await promisify(gzip)(await patchBetween(trees, before.tree_hash, after.tree_hash));
    if (patch.length > maxStored) return false;
    db.write(() =>
      store.addDiff({
        run_id,
        workspace_id,
        patch,
        created_at: iso(clock.now()),
      }),
    );
    return true;
  };

  /** Those whose time has come and that nothing needs. */
  const due = function* (): Generator<CheckpointRow> {
    const now = iso(clock.now());
    for (let after = 0; ;) {
      const rows = store.expired(now, after, batch);
      for (const { key: _, ...row } of rows) if (!isNeeded(row)) yield row;
      if (rows.length < batch) return;
      after = rows.at(-1)!.key;
    }
  };

  return {
    remember,
    due,

    /** Removes them; answers how many. One whose difference cannot be stored stays for good, or until the next time. */
    async expire(): Promise<number> {
      let count = 0;
      for (const row of due()) {
        try {
          const isRemembered = await remember(row);
          db.write(() => {
            if (!isRemembered) store.update(row.id, { expires_at: null, updated_at: iso(clock.now()) });
            else if (!isNeeded(row)) count += store.remove(row.id);
          });
        } catch (error) {
          log.warn({ checkpoint: row.id, err: error }, 'An expired checkpoint could not be removed yet.');
        }
      }
      return count;
    },

    /** What a run changed of whose checkpoints one has gone; undefined when that was not stored. */
    async recall(run: string): Promise<string | undefined> {
      const patch = store.findDiff(run);
      return patch && (await promisify(gunzip)(patch)).toString('utf8');
    },
  };
}
export type Expiring = ReturnType<typeof createExpiring>;
