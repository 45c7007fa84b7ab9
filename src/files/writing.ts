import { createHash } from 'node:crypto';
import { closeSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { Fault } from '../api/error.ts';
import { absent } from '../api/etag.ts';
import type { Operation } from '../api/operations.ts';
import type { Workspace, Writer } from '../api/workspaces.ts';
import { type Clock, iso } from '../base/clock.ts';
import { crashPoint } from '../base/crash.ts';
import type { Db, Tx } from '../base/db.ts';
import type { Idempotency } from '../base/idempotency.ts';
import type { Logger } from '../base/log.ts';
import { type Operations, toResourceError } from '../operations/operations.ts';
import { openFile, type Root } from './beneath.ts';
import { type Change, createChanges } from './change.ts';
import { type Etags, etagOfSha } from './etags.ts';
import { removeStaged } from './staging.ts';
import { faultOf } from './refusal.ts';

/** What files need of workspaces. */
export interface Trees {
  get(organization: string, id: string): Workspace;
  find(id: string): Workspace | undefined;
  /** Throws when nothing may be changed in the workspace: it, or its project, is being removed or put away. */
  assertOpen(workspace: Workspace): void;
  claim(tx: Tx, id: string, writer: Writer): boolean;
  release(tx: Tx, id: string, holder: string): void;
  grow(tx: Tx, id: string, paths: readonly string[]): number;
}

/** Keeps the answer to a request with its Idempotency-Key, in the transaction of its effect. */
export interface Record {
  key: string;
  keep(tx: Tx, operation: Operation): void;
}

interface Needs {
  db: Db;
  clock: Clock;
  log: Logger;
  operations: Operations;
  idempotency: Idempotency;
  trees: Trees;
  etags: Etags;
  staging: string;
  rootOf(workspace: Workspace): Root;
  /** A transfer’s bytes are in place. */
  used(tx: Tx, transfer: string): void;
}

const retryAfter = 1_000;

const types = ['file.write', 'file.delete'] as const;

/**
 * Carries changes of files out, each in three steps at one go: what is intended is committed with the key's record and the
 * writer's place; the file is changed; that is committed with the new revision. A daemon that died in between is found by its
 * open operation: done already, to be done, or to be given up.
 */
export function createWriting({ db, clock, log, operations, idempotency, trees, etags, staging, rootOf, used }: Needs) {
  const changes = createChanges({ etags, staging });
  const typeOf = ({ wanted }: Change): (typeof types)[number] => (wanted ? 'file.write' : 'file.delete');

  const resultOf = ({ path, wanted }: Change, workspace_revision: number) => ({
    path,
    etag: wanted ? etagOfSha(wanted.sha256) : absent,
    size_bytes: wanted?.size_bytes ?? 0,
    workspace_revision,
  });

  const succeed = (id: string, { organization_id }: Workspace, change: Change): Operation =>
    db.write((tx) => {
      const { workspace_id, wanted, key } = change;
      const operation = operations.finish(tx, id, {
        result: resultOf(change, trees.grow(tx, workspace_id, [change.path])),
      });
      trees.release(tx, workspace_id, id);
      if (wanted?.transfer_id) used(tx, wanted.transfer_id);
      idempotency.amend(organization_id, key, JSON.stringify(operation));
      crashPoint('file', 'before_success');
      return operation;
    });

  const giveUp = (id: string, workspace: Workspace, change: Change, error: unknown): void => {
    db.write((tx) => {
      operations.finish(tx, id, { error: toResourceError(error) });
      trees.release(tx, workspace.id, id);
      idempotency.remove(workspace.organization_id, change.key);
    });
    try {
      changes.sweep(rootOf(workspace), change, id);
    } catch {
      // What could not be changed cannot be swept either.
    }
  };

  /** Brings a begun change to its end, wherever it was left. */
  const settle = (id: string, workspace: Workspace, change: Change): Operation | undefined => {
    const root = rootOf(workspace);
    try {
      if (!changes.isDone(change, changes.current(root, change))) changes.apply(root, change, id);
    } catch (error) {
      if (!(error instanceof Fault)) log.warn({ operation: id, err: error }, 'A file could not be changed.');
      giveUp(id, workspace, change, error);
      if (change.wanted && !change.wanted.transfer_id) removeStaged(staging, change.wanted.staged);
      return undefined;
    }
    const operation = succeed(id, workspace, change);
    if (change.wanted) removeStaged(staging, change.wanted.staged);
    return operation;
  };

  const takeUp = (id: string, change: Change): void => {
    const workspace = trees.find(change.workspace_id);
    if (workspace) settle(id, workspace, change);
    else
      db.write((tx) =>
        operations.finish(tx, id, { error: toResourceError(new Fault('not_found', 'The workspace has gone.')) }),
      );
  };

  // Left open when the disk was too full to write down how it ended: then it is still too full, or it is ended now.
  for (const type of types)
    operations.handle(type, (change: Change, { id }) => {
      try {
        takeUp(id, change);
        return { done: null };
      } catch (error) {
        log.warn({ operation: id, err: error }, 'How a file was changed could not be written down yet.');
        return { wait: clock.now() + retryAfter };
      }
    });

  const assertFree = ({ writer, status }: Workspace): void => {
    if (writer)
      throw new Fault('workspace_busy', `A ${writer.kind} is writing in this workspace; wait for its end.`, {
        details: { writer },
      });
    if (status !== 'ready')
      throw new Fault('invalid_state', `The workspace is ${status}.`, { details: { state: status } });
  };

  /** Throws what stands against the change now. */
  const check = (change: Change, organization: string): { workspace: Workspace; isDone: boolean } => {
    const workspace = trees.get(organization, change.workspace_id);
    trees.assertOpen(workspace);
    assertFree(workspace);
    const current = changes.current(rootOf(workspace), change);
    changes.assertHolds(change, current);
    return { workspace, isDone: changes.isDone(change, current) };
  };

  return {
    /** Ends what a daemon that died has begun. Call it before anything else looks at the files. */
    recover(): void {
      for (const { id, input } of types.flatMap(operations.unfinished))
        try {
          takeUp(id, input as Change);
        } catch (error) {
          log.warn({ operation: id, err: error }, 'A change of a file that was begun could not be ended yet.');
        }
    },

    /** The names of staged files that begun changes still need. */
    needed: (): string[] =>
      operations.unfinished('file.write').map(({ input }) => (input as Change).wanted?.staged ?? ''),

    /** Throws what stands against a change before its bytes are staged; reads what must be read without holding others up. */
    async expect(change: Change, organization: string): Promise<void> {
      const workspace = trees.get(organization, change.workspace_id);
      trees.assertOpen(workspace);
      assertFree(workspace);
      const file = change.if_match?.trim() === '*' ? undefined : openFile(rootOf(workspace), change.path);
      if (!file) return;
      try {
        await etags.of(file.fd);
      } finally {
        closeSync(file.fd);
      }
    },

    /** Puts bytes on disk, for good, under a name of their own; answers their SHA-256. */
    async stage(name: string, bytes: Buffer): Promise<string> {
      try {
        const file = await open(join(staging, name), 'wx', 0o600);
        try {
          await file.writeFile(bytes);
          await file.sync();
        } finally {
          await file.close();
        }
      } catch (error) {
        removeStaged(staging, name);
        throw faultOf(error, 'The staging folder');
      }
      return createHash('sha256').update(bytes).digest('hex');
    },

    /** Carries the change out. The operation has ended when it returns, unless the disk is full. */
    carryOut(organization: string, change: Change, record: Record): Operation {
      const type = typeOf(change);
      const { workspace, isDone } = check(change, organization);
      const work = {
        type,
        organization_id: organization,
        resource: { type: 'workspace', id: workspace.id },
        input: { ...change } as { [name: string]: unknown },
      };
      crashPoint(type, 'checked');
      if (isDone)
        return db.write((tx) => {
          const { id } = operations.begin(tx, work);
          const operation = operations.finish(tx, id, { result: resultOf(change, workspace.revision) });
          if (change.wanted?.transfer_id) used(tx, change.wanted.transfer_id);
          record.keep(tx, operation);
          return operation;
        });
      const { id } = db.write((tx) => {
        const operation = operations.begin(tx, work);
        if (!trees.claim(tx, workspace.id, { kind: 'file', id: operation.id, since: iso(clock.now()) }))
          throw new Fault('invalid_state', 'The workspace takes no changes at the moment.', {
            details: { state: workspace.status },
          });
        record.keep(tx, operation);
        crashPoint(type, 'before_intent');
        return operation;
      });
      crashPoint(type, 'intended');
      const root = rootOf(workspace);
      let failure: unknown;
      try {
        changes.apply(root, change, id);
      } catch (error) {
        failure = error;
      }
      crashPoint(type, 'applied');
      try {
        if (failure !== undefined && !changes.isDone(change, changes.current(root, change))) {
          giveUp(id, workspace, change, failure);
          throw failure;
        }
        const operation = succeed(id, workspace, change);
        crashPoint(type, 'succeeded');
        return operation;
      } finally {
        // The disk was too full to say how it ended: that is tried again.
        if (operations.isOpen(id)) clock.timer(retryAfter, operations.loop.wake);
      }
    },
  };
}
export type Writing = ReturnType<typeof createWriting>;
