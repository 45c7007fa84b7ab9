import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { CheckpointTrigger, RestoreRequest } from '../api/checkpoints.ts';
import { Fault } from '../api/error.ts';
import type { Operation } from '../api/operations.ts';
import type { Workspace, Writer } from '../api/workspaces.ts';
import { type Clock, iso } from '../base/clock.ts';
import { crashPoint } from '../base/crash.ts';
import type { Db, Tx } from '../base/db.ts';
import type { Logger } from '../base/log.ts';
import { type Operations, type Outcome, toResourceError } from '../operations/operations.ts';
import { stagingPrefix } from '../trees/exclusions.ts';
import type { Kept, Keeping } from './keeping.ts';
import { assertPaths, faultOf, isDamage } from './refusal.ts';
import type { CheckpointRow, CheckpointStore, Lists } from './store.ts';

/** What checkpoints need of workspaces. */
export interface Places {
  get(organization: string, id: string): Workspace;
  find(id: string): Workspace | undefined;
  /** Throws when nothing may be begun in the workspace: it, or its project, is being removed or put away. */
  assertOpen(workspace: Workspace): void;
  beginRestore(tx: Tx, id: string, writer: Writer): boolean;
  endRestore(tx: Tx, id: string, holder: string): void;
  grow(tx: Tx, id: string, paths?: readonly string[]): number;
}

interface Needs {
  db: Db;
  clock: Clock;
  log: Logger;
  operations: Operations;
  places: Places;
  store: CheckpointStore;
  keeping: Keeping;
  /** Writes down a checkpoint whose tree has been kept; answers its id. */
  add(workspace: Workspace, trigger: CheckpointTrigger, kept: Kept, more: { id: string; exclude: string[] }): string;
}

/** All that a restore needs to know, also when its checkpoint is removed meanwhile. */
interface Restore {
  workspace_id: string;
  checkpoint_id: string;
  tree_hash: string;
  /** What the checkpoint left out is left alone. */
  exclude: string[];
  paths: string[] | null;
  /** The id of the checkpoint that is made first; null for a dry run. */
  before_id: string | null;
}

/** Carrying out is tried so often, with so much time between (milliseconds), before it is given up. */
const tries = 5;
const retryAfter = 500;

/**
 * Makes workspaces what they were. Up to the point of no return, a row in the database, nothing of the tree is touched; after it
 * the staged files are put in place, again after every crash, until all are.
 */
export function createRestoring({ db, clock, log, operations, places, store, keeping, add }: Needs) {
  const failures = new Map<string, number>();

  const stagingOf = ({ path }: Workspace, id: string): string => join(path, stagingPrefix + id);
  const sweep = (workspace: Workspace, id: string): Promise<void> =>
    rm(stagingOf(workspace, id), { recursive: true, force: true }).catch((error: unknown) =>
      log.warn({ operation: id, err: error }, 'The staged files of a restore could not be removed.'),
    );

  const planOf = async (workspace: Workspace, { tree_hash, exclude, paths }: Restore) => {
    const trees = keeping.treesOf(workspace.project_id);
    return trees.plan(workspace.path, tree_hash, { cache: keeping.cacheOf(workspace), exclude, paths });
  };

  const resultOf = ({ checkpoint_id, before_id }: Restore, { added, changed, removed }: Lists, revision: number) => ({
    checkpoint_id,
    dry_run: before_id === null,
    before_restore_checkpoint_id: before_id,
    workspace_revision: revision,
    added,
    changed,
    removed,
  });

  /** Keeps what is there, finds out what is to be done and stages it. */
  const prepare = async (workspace: Workspace, id: string, restore: Restore): Promise<Lists> => {
    const { before_id, exclude } = restore;
    if (!store.find(before_id!)) {
      await keeping.keep(workspace, { exclude }, (kept) =>
        db.write(() => add(workspace, 'before_restore', kept, { id: before_id!, exclude })),
      );
    }
    crashPoint('restore', 'kept');
    const plan = await planOf(workspace, restore);
    await keeping.treesOf(workspace.project_id).stage(workspace.path, plan, stagingOf(workspace, id));
    crashPoint('restore', 'staged');
    const { added, changed, removed } = plan;
    db.write(() => store.addRestore(id, { added, changed, removed }));
    return { added, changed, removed };
  };

  /** Ends the operation and gives the workspace back in one transaction, so that it is not begun again. */
  const end = (id: string, workspace: Workspace, outcome: (tx: Tx) => Parameters<Operations['finish']>[2]): void => {
    db.write((tx) => {
      operations.finish(tx, id, outcome(tx));
      store.removeRestore(id);
      places.endRestore(tx, workspace.id, id);
    });
    failures.delete(id);
  };

  const giveUp = async (id: string, workspace: Workspace, restore: Restore, error: unknown): Promise<never> => {
    const fault = faultOf(error);
    await sweep(workspace, id);
    end(id, workspace, () => {
      if (isDamage(error)) store.update(restore.checkpoint_id, { status: 'corrupt', updated_at: iso(clock.now()) });
      return { error: toResourceError(fault) };
    });
    throw fault;
  };

  /** Why a restore was given up half way, and which paths are as they were to become and which are not. */
  const unfinished = async (workspace: Workspace, restore: Restore, lists: Lists, cause: unknown): Promise<Fault> => {
    const before = restore.before_id;
    // A tree that cannot even be looked at: nothing is known to be in place.
    const now = await planOf(workspace, restore).catch(() => lists);
    const [done, left] = [{}, {}] as [Partial<Lists>, Partial<Lists>];
    const isLeft = new Set([...now.added, ...now.changed, ...now.removed]);
    for (const kind of ['added', 'changed', 'removed'] as const) {
      done[kind] = lists[kind].filter((path) => !isLeft.has(path));
      left[kind] = lists[kind].filter((path) => isLeft.has(path));
    }
    const count = (one: Partial<Lists>) => Object.values(one).flat().length;
    return new Fault(
      'unavailable',
      `The restore was left unfinished: ${count(done)} of ${count(done) + count(left)} paths are as they were to become. ${cause instanceof Error ? cause.message : ''} All as it was before is in the checkpoint ${before}: restore that, or try this one again.`,
      { details: { state: 'unfinished', before_restore_checkpoint_id: before, done, left }, cause },
    );
  };

  const carryOut = async (id: string, workspace: Workspace, restore: Restore, lists: Lists): Promise<Outcome> => {
    try {
      await keeping.treesOf(workspace.project_id).apply(workspace.path, stagingOf(workspace, id));
    } catch (error) {
      const failed = (failures.get(id) ?? 0) + 1;
      failures.set(id, failed);
      log.warn({ operation: id, err: error, failed }, 'A restore could not be carried out.');
      if (failed < tries) return { wait: clock.now() + retryAfter };
      db.write((tx) => places.grow(tx, workspace.id));
      return giveUp(id, workspace, restore, await unfinished(workspace, restore, lists, error));
    }
    crashPoint('restore', 'applied');
    return conclude(id, workspace, restore, lists);
  };

  /** Everything is in place: what was staged is removed, and then it is said. */
  const conclude = async (id: string, workspace: Workspace, restore: Restore, lists: Lists): Promise<Outcome> => {
    const changed = lists.added.length + lists.changed.length + lists.removed.length > 0;
    try {
      db.write(() => store.restoreApplied(id));
      await sweep(workspace, id);
      crashPoint('restore', 'swept');
      end(id, workspace, (tx) => {
        const paths = [...lists.added, ...lists.changed, ...lists.removed];
        const revision = changed ? places.grow(tx, workspace.id, paths) : workspace.revision;
        return { result: resultOf(restore, lists, revision) };
      });
    } catch (error) {
      log.warn({ operation: id, err: error }, 'The end of a restore could not be written down yet.');
      return { wait: clock.now() + retryAfter };
    }
    crashPoint('restore', 'ended');
    return { done: null };
  };

  operations.handle('workspace.restore', async (restore: Restore, { id }): Promise<Outcome> => {
    const workspace = places.find(restore.workspace_id);
    if (!workspace) throw new Fault('not_found', 'The workspace has gone.');
    if (restore.before_id === null) {
      try {
        return { done: resultOf(restore, await planOf(workspace, restore), workspace.revision) };
      } catch (error) {
        throw faultOf(error);
      }
    }
    const begun = store.findRestore(id);
    if (begun?.isApplied) return conclude(id, workspace, restore, begun.lists);
    let lists = begun?.lists;
    try {
      lists ??= await prepare(workspace, id, restore);
    } catch (error) {
      return giveUp(id, workspace, restore, error);
    }
    crashPoint('restore', 'decided');
    return carryOut(id, workspace, restore, lists);
  });

  return {
    /** Accepts a restore. Throws `workspace_busy`, `invalid_state` or `invalid_path`. */
    begin(tx: Tx, workspace: Workspace, checkpoint: CheckpointRow, body: RestoreRequest): Operation {
      const { paths = null, dry_run = false } = body;
      assertPaths(paths);
      const { writer, status } = workspace;
      const { id: checkpoint_id, tree_hash, exclude } = checkpoint;
      if (!dry_run && writer)
        throw new Fault('workspace_busy', `A ${writer.kind} is writing in this workspace; wait for its end.`, {
          details: { writer },
        });
      if (checkpoint.status !== 'verified' || tree_hash === null)
        throw new Fault('invalid_state', `The checkpoint is ${checkpoint.status}; only a verified one can be used.`, {
          details: { state: checkpoint.status },
        });
      if (status !== 'ready')
        throw new Fault('invalid_state', `The workspace is ${status}.`, { details: { state: status } });
      const before_id = dry_run ? null : clock.id();
      const restore: Restore = { workspace_id: workspace.id, checkpoint_id, tree_hash, exclude, paths, before_id };
      const operation = operations.submit(tx, {
        type: 'workspace.restore',
        organization_id: workspace.organization_id,
        resource: { type: 'workspace', id: workspace.id },
        input: { ...restore },
      });
      const claim: Writer = { kind: 'restore', id: operation.id, since: iso(clock.now()) };
      if (!dry_run && !places.beginRestore(tx, workspace.id, claim))
        throw new Fault('workspace_busy', 'The workspace takes no changes at the moment.', { details: { writer } });
      return operation;
    },
  };
}
