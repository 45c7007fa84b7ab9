import type { Page } from '../api/common.ts';
import { Fault } from '../api/error.ts';
import type { Session, SessionPatch } from '../api/sessions.ts';
import { addUsage, noUsage } from '../api/figures.ts';
import type { Usage } from '../api/usage.ts';
import { type Clock, iso } from '../base/clock.ts';
import type { Db, Tx } from '../base/db.ts';
import { type Paging, toPage } from '../base/page.ts';
import { createStore, toSession } from './store.ts';

type Fresh = Pick<
  Session,
  | 'organization_id'
  | 'project_id'
  | 'workspace_id'
  | 'agent_id'
  | 'agent_revision'
  | 'harness'
  | 'model'
  | 'title'
  | 'metadata'
>;

/** Sessions: conversations that go on from run to run. */
export function createSessions({ db, clock }: { db: Db; clock: Clock }) {
  const store = createStore(db);

  const get = (organization: string, id: string): Session => {
    const session = store.find(id);
    if (!session || session.organization_id !== organization)
      throw new Fault('not_found', `There is no session ${id}.`);
    return session;
  };

  return {
    get,

    list(organization: string, workspace: string | undefined, paging: Paging): Page<Session> {
      return toPage(store.list(organization, workspace, paging.after, paging.limit + 1), paging, toSession);
    },

    /** `origin` is the run of another session that a fork goes on after. */
    create(_tx: Tx, fresh: Fresh, origin: string | null = null): Session {
      const now = iso(clock.now());
      const session: Session = {
        ...fresh,
        id: clock.id(),
        status: 'idle',
        latest_run_id: null,
        run_count: 0,
        usage: noUsage,
        created_at: now,
        updated_at: now,
      };
      store.add(session, origin);
      return session;
    },

    /** Throws `invalid_state` when a session that is at work is to be archived. */
    update(_tx: Tx, organization: string, id: string, { title, archived }: SessionPatch): Session {
      const session = get(organization, id);
      const isArchived = session.status === 'archived';
      if (archived && session.status !== 'idle' && !isArchived)
        throw new Fault('invalid_state', 'A run of this session has not ended. Wait for its end, or cancel it first.', {
          details: { state: session.status },
        });
      store.update(id, {
        ...(title === undefined ? {} : { title }),
        ...(archived === undefined || archived === isArchived
          ? {}
          : { status: archived ? ('archived' as const) : ('idle' as const) }),
        updated_at: iso(clock.now()),
      });
      return get(organization, id);
    },

    /** The run that a fork goes on after. */
    origin: store.origin,

    /** A run of the session was accepted. */
    begin(_tx: Tx, id: string, run: string): void {
      const session = store.find(id)!;
      store.update(id, {
        status: session.status === 'awaiting_input' ? 'awaiting_input' : 'running',
        latest_run_id: run,
        run_count: session.run_count + 1,
        updated_at: iso(clock.now()),
      });
    },

    /** How the session's runs stand. */
    mark(_tx: Tx, id: string, status: 'running' | 'awaiting_input' | 'idle'): void {
      if (store.find(id)?.status !== 'archived') store.update(id, { status, updated_at: iso(clock.now()) });
    },

    /** Adds what an ended run used. */
    charge(_tx: Tx, id: string, usage: Usage): void {
      const sum = store.find(id)!.usage;
      const first = sum.turns + sum.tool_calls + sum.duration_ms === 0 && sum.cost_micro_usd === null;
      store.update(id, { usage: addUsage(sum, usage, first) });
    },

    /** What the harness calls this conversation, if it has said. */
    native: store.native,

    setNative(_tx: Tx, id: string, native: string): void {
      store.update(id, { native_session_id: native });
    },
  };
}
export type Sessions = ReturnType<typeof createSessions>;
