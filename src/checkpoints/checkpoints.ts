import type {
  Checkpoint,
  CheckpointCreate,
  CheckpointDiff,
  CheckpointTrigger,
  RestoreRequest,
} from '../api/checkpoints.ts';
import type { Page } from '../api/common.ts';
import { Fault } from '../api/error.ts';
import type { Operation } from '../api/operations.ts';
import type { Changes } from '../api/runs.ts';
import type { Workspace } from '../api/workspaces.ts';
import { type Clock, iso } from '../base/clock.ts';
import type { Config } from '../base/config.ts';
import { crashPoint } from '../base/crash.ts';
import type { Db, Tx } from '../base/db.ts';
import type { Logger } from '../base/log.ts';
import { type Paging, toPage } from '../base/page.ts';
import type { Events } from '../events/events.ts';
import { type Operations, toResourceError } from '../operations/operations.ts';
import { createCollecting } from './collecting.ts';
import { changesBetween, comparison, maxNamed, patchBetween } from './comparing.ts';
import type { Trees } from '../trees/trees.ts';
import { createExpiring } from './expiring.ts';
import { createKeeping, type Kept } from './keeping.ts';
import { faultOf } from './refusal.ts';
import { createRestoring, type Places } from './restoring.ts';
import { type CheckpointRow, createStore, toCheckpoint } from './store.ts';

interface Needs {
  db: Db;
  clock: Clock;
  log: Logger;
  config: Config['checkpoints'];
  operations: Operations;
  events: Events;
  places: Places;
  /** The daemon's data folder: trees are kept below it. */
  folder: string;
  /** Whether a run has not ended. */
  isRunOpen(run: string): boolean;
}

const day = 86_400_000;

/** Checkpoints of workspaces: whole trees that were read back, and workspaces made again what they were. */
export function createCheckpoints({ db, clock, log, config, operations, events, places, folder, isRunOpen }: Needs) {
  const store = createStore(db);
  const keeping = createKeeping({ folder, config });

  const find = (organization: string, id: string): CheckpointRow => {
    const checkpoint = store.find(id);
    if (!checkpoint || checkpoint.organization_id !== organization)
      throw new Fault('not_found', `There is no checkpoint ${id}.`);
    return checkpoint;
  };

  /** A checkpoint's row before its tree is kept. */
  const begin = (
    { id: workspace_id, organization_id, revision }: Workspace,
    trigger: CheckpointTrigger,
    more: Partial<CheckpointRow> = {},
  ): CheckpointRow => {
    const now = iso(clock.now());
    return {
      id: clock.id(),
      organization_id,
      workspace_id,
      name: null,
      status: 'creating',
      trigger,
      run_id: null,
      parent_id: store.latest(workspace_id) ?? null,
      revision,
      tree_hash: null,
      file_count: null,
      size_bytes: null,
      stored_bytes: null,
      git: null,
      verified_at: null,
      expires_at: trigger === 'manual' ? null : iso(clock.now() + config.retention_days * day),
      error: null,
      metadata: {},
      exclude: keeping.exclude,
      created_at: now,
      updated_at: now,
      ...more,
    };
  };

  const whole = (kept: Kept): Partial<CheckpointRow> => {
    const now = iso(clock.now());
    return { ...kept, status: 'verified', verified_at: now, updated_at: now };
  };

  /** Writes down a checkpoint whose tree has been kept. */
  const add = (
    workspace: Workspace,
    trigger: CheckpointTrigger,
    kept: Kept,
    more: Partial<CheckpointRow> = {},
  ): string => {
    const row = { ...begin(workspace, trigger, more), ...whole(kept) };
    store.add(row);
    return row.id;
  };

  /** The tree of a checkpoint that has one. */
  const treeOf = ({ tree_hash, status }: CheckpointRow): string => {
    if (tree_hash === null)
      throw new Fault('invalid_state', `The checkpoint is ${status}.`, { details: { state: status } });
    return tree_hash;
  };

  /** Has the tree of a checkpoint and that of another, or of the workspace as it is now, compared. */
  const between = async <Result>(
    organization: string,
    id: string,
    against: string,
    signal: AbortSignal,
    compare: (trees: Trees, from: string, to: string) => Promise<Result>,
  ): Promise<Result> => {
    const from = find(organization, id);
    const workspace = places.get(organization, from.workspace_id);
    const trees = keeping.treesOf(workspace.project_id);
    const tree = treeOf(from);
    try {
      if (against === 'workspace') {
        if (workspace.status !== 'ready')
          throw new Fault('invalid_state', `The workspace is ${workspace.status}.`, {
            details: { state: workspace.status },
          });
        const { exclude } = from;
        return await keeping.keep(workspace, { exclude, signal }, ({ tree_hash }) => compare(trees, tree, tree_hash));
      }
      const to = find(organization, against);
      if (places.get(organization, to.workspace_id).project_id !== workspace.project_id)
        throw new Fault('invalid_parameter', 'The checkpoint to compare with belongs to another project.', {
          param: 'against',
        });
      return await compare(trees, tree, treeOf(to));
    } catch (error) {
      throw faultOf(error);
    }
  };

  const expiring = createExpiring({ db, clock, log, operations, places, store, keeping, isRunOpen });
  const collecting = createCollecting({ db, clock, log, operations, places, store, keeping, expiring });
  const restoring = createRestoring({ db, clock, log, operations, places, store, keeping, add });

  operations.handle('checkpoint.create', async ({ checkpoint_id }: { checkpoint_id: string }) => {
    const row = store.find(checkpoint_id);
    const workspace = row && places.find(row.workspace_id);
    if (row?.status !== 'creating' || !workspace) return { done: { checkpoint_id } };
    if (workspace.status === 'provisioning' || workspace.status === 'restoring') return { wait: null };
    try {
      return await keeping.keep(workspace, { exclude: row.exclude }, (kept) => {
        crashPoint('checkpoint', 'kept');
        db.write((tx) => {
          store.update(checkpoint_id, whole(kept));
          // Those around a run stand in its own history, which is announced.
          events.announce(tx, {
            organization_id: row.organization_id,
            run_id: null,
            type: 'checkpoint.created',
            created_at: iso(clock.now()),
            data: { object: 'checkpoint', id: checkpoint_id, trigger: row.trigger, workspace_id: row.workspace_id },
          });
        });
        return { done: { checkpoint_id, tree_hash: kept.tree_hash, file_count: kept.file_count } };
      });
    } catch (error) {
      const fault = faultOf(error);
      const failed = { status: 'failed' as const, error: toResourceError(fault), updated_at: iso(clock.now()) };
      db.write(() => store.update(checkpoint_id, failed));
      throw fault;
    }
  });

  operations.handle('checkpoint.delete', async ({ checkpoint_id }: { checkpoint_id: string }) => {
    const row = store.find(checkpoint_id);
    // A damaged one has no difference to store.
    if (row)
      await expiring
        .remember(row)
        .catch((error: unknown) =>
          log.warn({ checkpoint: row.id, err: error }, 'What a run changed could not be stored.'),
        );
    db.write(() => store.remove(checkpoint_id));
    return { done: { checkpoint_id } };
  });

  const submit = (tx: Tx, { id, organization_id }: CheckpointRow, type: 'checkpoint.create' | 'checkpoint.delete') =>
    operations.submit(tx, {
      type,
      organization_id,
      resource: { type: 'checkpoint', id },
      input: { checkpoint_id: id },
    });

  return {
    get: (organization: string, id: string): Checkpoint => {
      const { exclude: _, ...checkpoint } = find(organization, id);
      return checkpoint;
    },

    list(organization: string, workspace: string, paging: Paging): Page<Checkpoint> {
      places.get(organization, workspace);
      return toPage(store.list(workspace, paging.after, paging.limit + 1), paging, toCheckpoint);
    },

    /** Keeps the tree as it is soon after; files that are being written meanwhile are read again. */
    create(tx: Tx, organization: string, id: string, { name, metadata = {} }: CheckpointCreate): Operation {
      const workspace = places.get(organization, id);
      places.assertOpen(workspace);
      const row = begin(workspace, 'manual', { name: name ?? null, metadata });
      store.add(row);
      return submit(tx, row, 'checkpoint.create');
    },

    /** Removes a checkpoint; what only it needed is removed from the store later. */
    remove(tx: Tx, organization: string, id: string): Operation {
      const row = find(organization, id);
      if (row.status === 'creating')
        throw new Fault('invalid_state', 'This checkpoint is being made; wait for its end.', {
          details: { state: row.status },
        });
      return operations.findOpen(id, 'checkpoint.delete') ?? submit(tx, row, 'checkpoint.delete');
    },

    /** Makes a workspace what it was at a checkpoint, or says what that would do. */
    restore(tx: Tx, organization: string, id: string, body: RestoreRequest): Operation {
      const workspace = places.get(organization, id);
      places.assertOpen(workspace);
      const checkpoint = find(organization, body.checkpoint_id);
      if (checkpoint.workspace_id !== id)
        throw new Fault('not_found', `This workspace has no checkpoint ${checkpoint.id}.`);
      return restoring.begin(tx, workspace, checkpoint, body);
    },

    /** Stores a workspace's tree and reads it back, for a checkpoint that `use` adds. Throws TreeError. */
    keep: (workspace: Workspace, use: (kept: Kept) => Promise<void>): Promise<void> => keeping.keep(workspace, {}, use),

    /** Writes down the checkpoint of a run whose tree has been kept; answers its id. Call it in a transaction. */
    add: (workspace: Workspace, trigger: CheckpointTrigger, kept: Kept, run_id: string): string =>
      add(workspace, trigger, kept, { run_id }),

    /** Keeps the tree of a workspace that is going to be removed, until it is; answers the checkpoint's id. Throws TreeError. */
    keepLast: (workspace: Workspace): Promise<string> =>
      keeping.keep(workspace, {}, (kept) =>
        db.write(() => add(workspace, 'before_delete', kept, { expires_at: workspace.delete_after })),
      ),

    /** Removes what is known of a workspace's files; its checkpoints stay. */
    async forget(workspace: string): Promise<void> {
      await keeping.forget((id) => id === workspace, false);
    },

    /** What has changed since a checkpoint in a tree that has been kept. */
    changes(workspace: Workspace, before: string, { tree_hash }: Kept): Promise<Changes> {
      const from = treeOf(find(workspace.organization_id, before));
      return changesBetween(keeping.treesOf(workspace.project_id), from, tree_hash);
    },

    /** What a run changed between its two checkpoints, as a unified diff. Throws `not_found`. */
    async patch(organization: string, run: string, before: string, after: string): Promise<string> {
      if (!store.find(before) || !store.find(after)) {
        const patch = await expiring.recall(run);
        if (patch !== undefined) return patch;
      }
      const [from, to] = [find(organization, before), find(organization, after)];
      const { project_id } = places.get(organization, to.workspace_id);
      return patchBetween(keeping.treesOf(project_id), treeOf(from), treeOf(to)).catch((error: unknown) => {
        throw faultOf(error);
      });
    },

    /**
     * What differs from a checkpoint to another one, or to the workspace as it is now, as a unified diff. Throws `not_found`,
     * `invalid_state` or `invalid_parameter`.
     */
    compare: (organization: string, id: string, against: string, signal: AbortSignal): Promise<string> =>
      between(organization, id, against, signal, (trees, from, to) => patchBetween(trees, from, to, maxNamed, signal)),

    /** The same as a list of files with counts of lines. */
    difference: (organization: string, id: string, against: string, signal: AbortSignal): Promise<CheckpointDiff> =>
      between(organization, id, against, signal, async (trees, from, to) => {
        const changes = await comparison(trees, from, to, maxNamed, signal);
        return { checkpoint_id: id, against, ...changes };
      }),

    /** Throws `not_found`, or `invalid_state` unless the checkpoint is verified. */
    assertUsable(organization: string, id: string): void {
      const { status } = find(organization, id);
      if (status !== 'verified')
        throw new Fault('invalid_state', `The checkpoint is ${status}; only a verified one can be used.`, {
          details: { state: status },
        });
    },

    /** Writes a checkpoint's tree into a folder, which it makes. */
    async fork(organization: string, id: string, into: string): Promise<void> {
      const checkpoint = find(organization, id);
      const { project_id } = places.get(organization, checkpoint.workspace_id);
      await keeping
        .treesOf(project_id)
        .materialize(treeOf(checkpoint), into)
        .catch((error: unknown) => {
          throw faultOf(error);
        });
    },

    /** Why a tree could not be kept, for a person; a defect of ours says nothing of its inside. */
    explain: (error: unknown): string => toResourceError(faultOf(error)).message,

    /** Removes what no checkpoint needs any more, or says what that would be. */
    collect: collecting.begin,
    loop: collecting.loop,
    settle: collecting.settle,
    purge: keeping.purge,
    close: keeping.close,
  };
}
export type Checkpoints = ReturnType<typeof createCheckpoints>;
