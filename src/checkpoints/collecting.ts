import type { Operation } from '../api/operations.ts';
import { type Clock, iso } from '../base/clock.ts';
import { crashPoint } from '../base/crash.ts';
import type { Db, Tx } from '../base/db.ts';
import type { Logger } from '../base/log.ts';
import { createLoop } from '../base/loop.ts';
import { type Operations, toResourceError } from '../operations/operations.ts';
import type { Expiring } from './expiring.ts';
import type { Keeping } from './keeping.ts';
import { faultOf, isDamage } from './refusal.ts';
import type { Places } from './restoring.ts';
import type { CheckpointStore } from './store.ts';

interface Needs {
  db: Db;
  clock: Clock;
  log: Logger;
  operations: Operations;
  places: Places;
  store: CheckpointStore;
  keeping: Keeping;
  expiring: Expiring;
}

/** What was removed, or would be. */
interface Collection {
  dry_run: boolean;
  checkpoints: number;
  objects: number;
  bytes: number;
  /** Stores of which nothing could be removed, and why. */
  failed: { project_id: string; code: string; message: string }[];
}

const hour = 3_600_000;
const day = 24 * hour;
const name = 'collect';

/**
 * Removes what no checkpoint needs any more: once a day, and when it is asked for. Needed are the trees of all checkpoints, those
 * that are being kept just now, and those that accepted restores lead to.
 */
export function createCollecting({ db, clock, log, operations, places, store, keeping, expiring }: Needs) {
  let last: Promise<unknown> = Promise.resolve();

  const needed = (gone: ReadonlySet<string>): string[] => [
    ...store.trees().flatMap(({ id, tree_hash }) => (gone.has(id) ? [] : [tree_hash])),
    ...keeping.pinned(),
    ...operations.unfinished('workspace.restore').map(({ input }) => (input as { tree_hash: string }).tree_hash),
  ];

  /** Looks which checkpoints of a store are damaged, and says so in them. */
  const findDamage = async (project: string): Promise<void> => {
    const trees = keeping.treesOf(project);
    for (const { id, tree_hash, status, workspace_id } of store.trees()) {
      if (status !== 'verified' || places.find(workspace_id)?.project_id !== project) continue;
      const bad = await trees.verify(tree_hash).then(
        (found) => found.bad,
        (error: unknown) => (isDamage(error) ? [tree_hash] : []),
      );
      if (bad.length === 0) continue;
      log.error({ checkpoint: id, objects: bad.length }, 'A checkpoint is damaged.');
      db.write(() => store.update(id, { status: 'corrupt', updated_at: iso(clock.now()) }));
    }
  };

  const collect = async (dry_run: boolean): Promise<Collection> => {
    const gone = new Set<string>();
    if (dry_run) for (const { id } of expiring.due()) gone.add(id);
    const checkpoints = dry_run ? gone.size : await expiring.expire();
    const sum: Collection = { dry_run, checkpoints, objects: 0, bytes: 0, failed: [] };
    for (const project of await keeping.projects()) {
      crashPoint('collect', 'project');
      try {
        const { objects, bytes } = await keeping.treesOf(project).collect(needed(gone), { dry_run });
        sum.objects += objects;
        sum.bytes += bytes;
      } catch (error) {
        if (isDamage(error)) await findDamage(project);
        log.error({ project, err: error }, 'What no checkpoint needs could not be removed.');
        const { code, message } = toResourceError(faultOf(error));
        sum.failed.push({ project_id: project, code, message });
      }
    }
    const isForgotten = (id: string) => (places.find(id)?.status ?? 'deleted') === 'deleted';
    sum.bytes += await keeping.forget(isForgotten, dry_run);
    if (!dry_run) db.write(() => store.noteUpkeep(name, iso(clock.now()), sum));
    return sum;
  };

  /** One at a time. */
  const inTurn = (dry_run: boolean): Promise<Collection> => {
    const next = last.then(() => collect(dry_run));
    last = next.catch(() => {});
    return next;
  };

  operations.handle('store.collect', async ({ dry_run }: { dry_run: boolean }) => ({
    done: { ...(await inTurn(dry_run)) },
  }));

  const loop = createLoop({
    name: 'collect',
    clock,
    log,
    async step() {
      const done = store.upkeep(name);
      // The day of the first start counts as done.
      if (done === undefined) db.write(() => store.noteUpkeep(name, iso(clock.now()), {}));
      else if (Date.parse(done) + day <= clock.now()) await inTurn(false);
      else await expiring.expire();
      return hour;
    },
  });

  return {
    loop,

    /** Removes what nothing needs, or says what that would be: an operation. */
    begin: (tx: Tx, organization_id: string, dry_run: boolean): Operation =>
      operations.submit(tx, {
        type: 'store.collect',
        organization_id,
        resource: { type: 'organization', id: organization_id },
        input: { dry_run },
      }),

    /** Resolves when none is going on. */
    settle: (): Promise<unknown> => last,
  };
}
