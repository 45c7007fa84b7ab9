import { join } from 'node:path';
import type { Page } from '../api/common.ts';
import { Fault } from '../api/error.ts';
import type { Operation } from '../api/operations.ts';
import type { Workspace, WorkspaceCreate, WorkspaceGit, WorkspacePatch, Writer } from '../api/workspaces.ts';
import { type Clock, iso } from '../base/clock.ts';
import type { Db, Tx } from '../base/db.ts';
import type { Logger } from '../base/log.ts';
import { assertMove } from '../base/machine.ts';
import { type Paging, toPage } from '../base/page.ts';
import { type Operations, toResourceError } from '../operations/operations.ts';
import { provision, unprovision } from './provision.ts';
import { createSources } from './source.ts';
import { workspaceStates } from './state.ts';
import { createStore, toWorkspace, type WorkspaceRow } from './store.ts';
import { type Unsaved, unsaved } from './unsaved.ts';
import { createWatching } from './watching.ts';

interface Needs {
  db: Db;
  clock: Clock;
  log: Logger;
  operations: Operations;
  /** The daemon's data folder: trees that it makes lie below it. */
  folder: string;
  /** Folders of the daemon that no run may work in. */
  forbidden: string[];
  /** Folders below which API keys and OAuth tokens may use directories, too. */
  roots: string[];
  /** The daemon's environment, for git's PATH and HOME. */
  env: Record<string, string | undefined>;
  /** Folders whose changes do not count: those that checkpoints leave out. */
  exclude: string[];
  /** Trees of checkpoints, for forks. */
  trees: {
    /** Throws `not_found`, or `invalid_state` when the checkpoint cannot be used. */
    assertUsable(organization: string, checkpoint: string): void;
    /** Writes the checkpoint's tree into a folder, which it makes. */
    fork(organization: string, checkpoint: string, folder: string): Promise<void>;
    /** Keeps a workspace's tree until it is removed; answers the checkpoint's id. */
    keepLast(workspace: Workspace): Promise<string>;
    /** Removes what is known of a workspace's files. */
    forget(workspace: string): Promise<void>;
    /** Why a tree could not be kept, for a person. */
    explain(error: unknown): string;
  };
  /** Where bubblewrap is, or null. */
  bubblewrap(): string | null;
  /** After a commit that may let a waiting run begin, or makes it pointless. */
  changed(): void;
}

/** Workspaces: trees of files, each with one writer at a time. */
export function createWorkspaces({
  db,
  clock,
  log,
  operations,
  folder,
  forbidden,
  roots,
  env,
  exclude,
  trees,
  bubblewrap,
  changed,
}: Needs) {
  const store = createStore(db);
  const trash = join(folder, 'trash');

  const watching = createWatching({
    clock,
    log,
    exclude,
    find(id) {
      const row = store.find(id);
      return row && { ...row, signature: store.signature(id) };
    },
    grown: (id, signature) => db.write(() => void store.grow(id, iso(clock.now()), signature)),
    keep: (id, signature) => db.write(() => void store.keepSignature(id, signature)),
  });
  /** Directories of the user's can lie in each other: a writer in one is in the other's tree, too. */
  const writerIn = ({ writer, source, path }: WorkspaceRow): Writer | null =>
    writer ?? (source.type === 'directory' && source.mode === 'in_place' ? (store.writerAround(path) ?? null) : null);
  const seen = (row: WorkspaceRow): Workspace => ({
    ...row,
    writer: writerIn(row),
    watch: watching.viewOf(row.id),
  });
  /** Takes the writer's place, unless somebody has it here or in a directory around or below. */
  const claim = (id: string, writer: Writer): boolean => {
    const row = store.find(id);
    return row !== undefined && writerIn(row) === null && store.claim(id, writer);
  };
  const find = (id: string): Workspace | undefined => {
    const row = store.find(id);
    return row && seen(row);
  };

  const get = (organization: string, id: string): Workspace => {
    const workspace = find(id);
    if (!workspace || workspace.organization_id !== organization)
      throw new Fault('not_found', `There is no workspace ${id}.`);
    return workspace;
  };

  const move = (tx: Tx, workspace: WorkspaceRow, to: Workspace['status'], fields: Partial<WorkspaceRow> = {}): void => {
    assertMove(workspaceStates, 'workspace', workspace.status, to);
    store.update(workspace.id, { ...fields, status: to, updated_at: iso(clock.now()) });
    tx.after(changed);
  };

  const submit = (
    tx: Tx,
    { id, organization_id }: WorkspaceRow,
    type: 'workspace.create' | 'workspace.delete',
  ): Operation =>
    operations.submit(tx, { type, organization_id, resource: { type: 'workspace', id }, input: { workspace_id: id } });

  const sources = createSources({ forbidden, roots });
  /** Trees that are being made, by workspace. */
  const making = new Map<string, { stop: AbortController; ended: Promise<void> }>();
  let isClosing = false;

  /** Makes a workspace's tree, one at a time: what was stopped is waited for. */
  const build = async (workspace: WorkspaceRow, operation: string): Promise<WorkspaceGit | null> => {
    const { id, organization_id } = workspace;
    for (let before = making.get(id); before; before = making.get(id)) await before.ended;
    const [stop, ended] = [new AbortController(), Promise.withResolvers<void>()];
    making.set(id, { stop, ended: ended.promise });
    try {
      return await provision(workspace, {
        env,
        clock,
        signal: stop.signal,
        progress: (now) => operations.progress(operation, now),
        fork: (checkpoint, into) => trees.fork(organization_id, checkpoint, into),
      });
    } finally {
      making.delete(id);
      ended.resolve();
    }
  };

  operations.handle('workspace.create', async ({ workspace_id }: { workspace_id: string }, operation) => {
    const workspace = store.find(workspace_id);
    if (workspace?.status !== 'provisioning') return { done: { workspace_id } };
    try {
      const git = await build(workspace, operation.id);
      db.write((tx) => {
        const current = store.find(workspace_id);
        if (current?.status === 'provisioning') move(tx, current, 'ready', git && !current.git ? { git } : {});
      });
    } catch (error) {
      // The next daemon begins again.
      if (isClosing) return { wait: null };
      db.write((tx) => {
        const current = store.find(workspace_id);
        if (current?.status === 'provisioning' && operations.isOpen(operation.id))
          move(tx, current, 'failed', { error: toResourceError(error) });
      });
      throw error;
    }
    return { done: { workspace_id } };
  });

  /** The last checkpoint of a tree that is going to be removed, if there is time to want it back. */
  const lastOf = async (workspace: WorkspaceRow, { keeps_directory, ...report }: Unsaved, due: number) => {
    const hasTree = 'entries' in report && report.entries !== null;
    if (keeps_directory || !hasTree || due <= clock.now()) return { checkpoint_id: null };
    try {
      return { checkpoint_id: await trees.keepLast(seen(workspace)) };
    } catch (error) {
      log.warn({ workspace: workspace.id, err: error }, 'The last checkpoint of a workspace could not be made.');
      return { checkpoint_id: null, checkpoint_error: trees.explain(error) };
    }
  };

  operations.handle('workspace.delete', async ({ workspace_id }: { workspace_id: string }, operation) => {
    const workspace = store.find(workspace_id);
    if (!workspace || workspace.status === 'deleted') return { done: operation.result };
    if (operation.result === null) {
      const due = Date.parse(workspace.delete_after ?? iso(clock.now()));
      const report = await unsaved(workspace, { env, clock, bubblewrap: bubblewrap() });
      return { wait: due, result: { ...report, ...(await lastOf(workspace, report, due)) } };
    }
    if (workspace.writer) return { wait: null };
    await making.get(workspace_id)?.ended;
    await unprovision(workspace, trash, env);
    await trees.forget(workspace_id);
    db.write((tx) => {
      const current = store.find(workspace_id);
      if (current?.status === 'deleting') move(tx, current, 'deleted', { delete_after: null });
    });
    return { done: operation.result };
  });

  const released = (id: string): void => {
    watching.released(id);
    changed();
  };

  return {
    get,

    list(project: string, paging: Paging): Page<Workspace> {
      return toPage(store.list(project, paging.after, paging.limit + 1), paging, (row) => seen(toWorkspace(row)));
    },

    /**
     * Makes a workspace's row and the operation that makes its tree. A directory that another workspace works on in place
     * is `invalid_state` with its `workspace_id`. `isOwner`: the caller is the local session, which may use any directory.
     */
    create(
      tx: Tx,
      project: { id: string; organization_id: string },
      body: WorkspaceCreate,
      isOwner: boolean,
    ): { workspace: Workspace; operation: Operation } {
      const now = iso(clock.now());
      const id = clock.id();
      const { source, name } = sources.accept(body.source ?? { type: 'empty' }, isOwner);
      if (source.type === 'checkpoint') trees.assertUsable(project.organization_id, source.checkpoint_id);
      const isInPlace = source.type === 'directory' && source.mode === 'in_place';
      const path = isInPlace ? source.path : join(folder, 'workspaces', id);
      const other = isInPlace ? store.atPath(path) : undefined;
      if (other)
        throw new Fault('invalid_state', `The workspace ${other} already works in ${path}.`, {
          details: { state: 'in_use', workspace_id: other },
        });
      const workspace: WorkspaceRow = {
        id,
        organization_id: project.organization_id,
        project_id: project.id,
        name: body.name ?? name,
        status: 'provisioning',
        source,
        path,
        revision: 0,
        writer: null,
        git: null,
        base_checkpoint_id: source.type === 'checkpoint' ? source.checkpoint_id : null,
        delete_after: null,
        error: null,
        metadata: body.metadata ?? {},
        created_at: now,
        updated_at: now,
      };
      store.add(workspace);
      return { workspace: seen(workspace), operation: submit(tx, workspace, 'workspace.create') };
    },

    update(_tx: Tx, organization: string, id: string, fields: WorkspacePatch): Workspace {
      get(organization, id);
      store.update(id, { ...fields, updated_at: iso(clock.now()) });
      return get(organization, id);
    },

    /** Schedules the removal; the operation says what goes with it. Asking again changes the time. */
    scheduleDeletion(tx: Tx, organization: string, id: string, afterSeconds: number): Operation {
      const workspace = get(organization, id);
      const due = iso(clock.now() + afterSeconds * 1000);
      if (workspace.status === 'deleting') {
        operations.cancel(tx, id, 'workspace.delete');
        store.update(id, { delete_after: due, updated_at: iso(clock.now()) });
      } else {
        operations.cancel(tx, id, 'workspace.create');
        tx.after(() => making.get(id)?.stop.abort());
        move(tx, workspace, 'deleting', { delete_after: due });
      }
      return submit(tx, workspace, 'workspace.delete');
    },

    cancelDeletion(tx: Tx, organization: string, id: string): Workspace {
      const workspace = get(organization, id);
      if (workspace.status !== 'deleting')
        throw new Fault('invalid_state', 'No removal of this workspace is scheduled.', {
          details: { state: workspace.status },
        });
      operations.cancel(tx, id, 'workspace.delete');
      move(tx, workspace, 'provisioning', { delete_after: null, error: null });
      // Making the tree may be repeated, so it serves whatever state the removal found the tree in.
      submit(tx, workspace, 'workspace.create');
      return get(organization, id);
    },

    /** The workspace, if runs may be sent to it; `invalid_state` otherwise. */
    getUsable(organization: string, id: string): Workspace {
      const workspace = get(organization, id);
      if (!['provisioning', 'ready', 'restoring'].includes(workspace.status))
        throw new Fault('invalid_state', `The workspace "${workspace.name}" is ${workspace.status}.`, {
          details: { state: workspace.status },
        });
      return workspace;
    },

    find,

    /** Takes the writer's place; false when somebody else has it or the workspace is not ready. */
    claim: (_tx: Tx, id: string, writer: Writer): boolean => claim(id, writer),

    /** Gives the writer's place back, if this holder has it. */
    release(tx: Tx, id: string, holder: string): void {
      if (store.release(id, holder) > 0) tx.after(() => released(id));
    },

    /** Takes the writer's place for a restore; false when somebody else has it or the workspace is not ready. */
    beginRestore(tx: Tx, id: string, writer: Writer): boolean {
      if (!claim(id, writer)) return false;
      move(tx, store.find(id)!, 'restoring');
      return true;
    },

    /** Ends a restore that this holder has begun: runs may start again. */
    endRestore(tx: Tx, id: string, holder: string): void {
      const workspace = store.find(id);
      if (workspace?.status === 'restoring' && workspace.writer?.id === holder) move(tx, workspace, 'ready');
      if (store.release(id, holder) > 0) tx.after(() => released(id));
    },

    /**
     * We have changed the tree; answers the new revision. `paths` are those that changed, from the root, so that watching
     * does not count them again; without them all that has changed until now is taken for ours.
     */
    grow(tx: Tx, id: string, paths?: readonly string[]): number {
      tx.after(() => watching.counted(id, paths));
      return store.grow(id, iso(clock.now()), null);
    },

    /** The workspace, for somebody who looks into it: its tree is followed for a while. */
    use(organization: string, id: string): Workspace {
      get(organization, id);
      watching.use(id);
      return get(organization, id);
    },

    loop: watching.loop,

    /** Stops trees that are being made; the next daemon makes them. */
    close(): void {
      isClosing = true;
      for (const { stop } of making.values()) stop.abort();
    },

    /** Removes the trees of a project's workspaces that the daemon made. */
    async purge(project: string): Promise<void> {
      for (const workspace of store.all(project))
        if (workspace.status !== 'deleted') await unprovision(workspace, trash, env);
    },
  };
}
export type Workspaces = ReturnType<typeof createWorkspaces>;
