import type { Page, ResourceError } from '../api/common.ts';
import type { Scope } from '../api/endpoint.ts';
import { Fault, failures } from '../api/error.ts';
import type { Operation, OperationType } from '../api/operations.ts';
import { type Clock, iso } from '../base/clock.ts';
import { crashPoint } from '../base/crash.ts';
import type { Db, Tx } from '../base/db.ts';
import type { Logger } from '../base/log.ts';
import { createLoop } from '../base/loop.ts';
import { type Paging, toPage } from '../base/page.ts';
import { createSignal } from '../base/signal.ts';
import { createStore, toOperation } from './store.ts';

/** What one turn of a handler came to. */
export type Outcome =
  | { done: Record<string, unknown> | null }
  /** Not yet: another turn at this time, or at the next wake-up when there is none. `result` says how it stands. */
  | { wait: number | null; result?: Record<string, unknown> };

/** Does the work of one type. It must bear being run again from the start: that is what happens after a restart. */
export type Handler = (input: never, operation: Operation) => Promise<Outcome> | Outcome;

/** What is to be done, for whom, and on what. */
interface Work {
  type: OperationType;
  organization_id: string;
  resource: { type: string; id: string };
  input: Record<string, unknown>;
}

/** Before work is tried again whose outcome could not be stored, in milliseconds. */
const retryAfter = 1_000;

/** The scope that may start an operation of each type, and so may read it (contract section 5). */
const starts: Record<OperationType, Scope> = {
  'project.archive': 'projects:write',
  'project.delete': 'projects:write',
  'workspace.create': 'projects:write',
  'workspace.delete': 'projects:write',
  'file.write': 'files:write',
  'file.delete': 'files:write',
  'checkpoint.create': 'files:write',
  'checkpoint.delete': 'files:write',
  'workspace.restore': 'files:write',
  'webhook.replay': 'webhooks:write',
  'store.collect': 'files:write',
};

/** The 202s: a row is written with the request; a loop does the work afterwards. */
export function createOperations({ db, clock, log }: { db: Db; clock: Clock; log: Logger }) {
  const store = createStore(db);
  const handlers = new Map<OperationType, Handler>();
  const changed = createSignal<string>();
  const working = new Map<string, Promise<void>>();

  const update = (id: string, from: Operation['status'][], fields: Parameters<typeof store.update>[2]) =>
    db.write((tx) => {
      const done = store.update(id, from, { ...fields, updated_at: iso(clock.now()) });
      if (done) tx.after(() => changed.wake(id));
      return done;
    });

  const work = async (row: ReturnType<typeof store.open>[number]) => {
    const { id } = row;
    const now = iso(clock.now());
    crashPoint(row.type, 'begin');
    if (row.status === 'queued') update(id, ['queued'], { status: 'running', started_at: now });
    try {
      const handler = handlers.get(row.type);
      if (!handler) throw new Fault('internal_error', `Nothing handles operations of type ${row.type}.`);
      crashPoint(row.type, 'running');
      const outcome = await handler(JSON.parse(row.input) as never, toOperation(store.find(id)!));
      crashPoint(row.type, 'worked');
      if ('done' in outcome)
        update(id, ['running'], { status: 'succeeded', result: outcome.done, finished_at: iso(clock.now()) });
      else {
        const due = outcome.wait === null ? null : iso(outcome.wait);
        update(id, ['running'], { due_at: due, ...(outcome.result ? { result: outcome.result } : {}) });
        if (due !== null) loop.wake();
      }
    } catch (error) {
      log.warn({ operation: id, type: row.type, err: error }, 'An operation failed.');
      update(id, ['running'], { status: 'failed', error: toResourceError(error), finished_at: iso(clock.now()) });
    }
  };

  const loop = createLoop({
    name: 'operations',
    clock,
    log,
    step() {
      const now = clock.now();
      let next: number | null = null;
      for (const row of store.open()) {
        if (working.has(row.id)) continue;
        const due = row.due_at === null ? now : Date.parse(row.due_at);
        if (due > now) next = Math.min(next ?? Infinity, due - now);
        else
          working.set(
            row.id,
            work(row)
              .catch((error: unknown) => {
                // Not even that it failed could be written: the store is full, or cannot be written at the moment.
                log.error({ operation: row.id, type: row.type, err: error }, 'An operation will be tried again.');
                clock.timer(retryAfter, loop.wake);
              })
              .finally(() => working.delete(row.id)),
          );
      }
      return next;
    },
  });

  const create = ({ type, organization_id, resource }: Work, status: 'queued' | 'running'): Operation => {
    const now = iso(clock.now());
    return {
      id: clock.id(),
      organization_id,
      type,
      status,
      resource,
      progress: null,
      result: null,
      error: null,
      started_at: null,
      finished_at: null,
      created_at: now,
      updated_at: now,
    };
  };

  return {
    loop,

    /** Resolves when no operation is being worked on. */
    async settle(): Promise<void> {
      while (working.size > 0) await Promise.all(working.values());
    },

    /** Says how operations of a type are done. */
    handle(type: OperationType, handler: Handler): void {
      handlers.set(type, handler);
    },

    /** Queues work, to be begun at `due` (milliseconds) or at once. */
    submit(tx: Tx, work: Work & { due?: number }): Operation {
      const operation = create(work, 'queued');
      store.add(operation, work.input, work.due === undefined ? null : iso(work.due));
      tx.after(loop.wake);
      return operation;
    },

    /** Writes down work that the caller is at already; its handler takes it up again if the caller does not come back. */
    begin(_tx: Tx, work: Work): Operation {
      const operation = { ...create(work, 'running'), started_at: iso(clock.now()) };
      store.add(operation, work.input, null);
      return operation;
    },

    /** Says how far work has come that is going on. */
    progress(id: string, progress: Operation['progress']): void {
      update(id, ['running'], { progress });
    },

    /** Ends work that the caller has done, or given up: with its result, or with what went wrong. */
    finish(_tx: Tx, id: string, end: { result: Record<string, unknown> } | { error: ResourceError }): Operation {
      const status = 'result' in end ? 'succeeded' : 'failed';
      update(id, ['running'], { ...end, status, finished_at: iso(clock.now()) });
      return toOperation(store.find(id)!);
    },

    /** What is still open of a type, with its input: what a daemon that died has left. */
    unfinished: (type: OperationType): { id: string; input: unknown }[] =>
      store
        .open()
        .filter((row) => row.type === type)
        .map(({ id, input }) => ({ id, input: JSON.parse(input) as unknown })),

    /** Cancels the open operation of this type on a resource, if there is one. */
    cancel(_tx: Tx, resource: string, type: OperationType): void {
      const open = store.openOf(resource, type);
      if (open) update(open.id, ['queued', 'running'], { status: 'cancelled', finished_at: iso(clock.now()) });
    },

    /** The operation still open of this type on a resource. */
    findOpen(resource: string, type: OperationType): Operation | undefined {
      const open = store.openOf(resource, type);
      return open && toOperation(store.find(open.id)!);
    },

    /** Whether an operation has not ended. */
    isOpen: (id: string): boolean => store.open().some((row) => row.id === id),

    /** Throws `not_found`. `scopes` are the caller's: who may start an operation may read it. */
    get(organization: string, scopes: readonly Scope[], id: string): Operation {
      const row = store.find(id);
      const operation = row && toOperation(row);
      if (!operation || operation.organization_id !== organization)
        throw new Fault('not_found', `There is no operation ${id}.`);
      if (!scopes.includes(starts[operation.type]))
        throw new Fault('insufficient_scope', `Reading this operation needs the scope ${starts[operation.type]}.`, {
          details: { required_scope: starts[operation.type] },
        });
      return operation;
    },

    list(
      organization: string,
      scopes: readonly Scope[],
      filter: { status?: string[]; type?: string[]; resource?: string },
      paging: Paging,
    ): Page<Operation> {
      const readable = (Object.keys(starts) as OperationType[]).filter((type) => scopes.includes(starts[type]));
      const type = filter.type ? readable.filter((name) => filter.type?.includes(name)) : readable;
      return toPage(store.list(organization, { ...filter, type }, paging.after, paging.limit + 1), paging, toOperation);
    },

    /** Calls back when the operation has changed; the answer ends that. */
    follow: changed.follow,
  };
}
export type Operations = ReturnType<typeof createOperations>;

/** A failure as a resource carries it. A defect of ours says nothing of its inside. */
export function toResourceError(error: unknown): ResourceError {
  if (error instanceof Fault)
    return {
      code: error.code,
      message: error.message,
      retryable: failures[error.code].retryable,
      details: error.details,
    };
  return {
    code: 'internal_error',
    message: 'This failed inside agentctl; the daemon’s log says more.',
    retryable: true,
    details: {},
  };
}
