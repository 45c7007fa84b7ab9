import type { Agent, AgentCreate, AgentPatch } from '../api/agents.ts';
import type { Page } from '../api/common.ts';
import { Fault } from '../api/error.ts';
import { matches, readTags } from '../api/etag.ts';
import { type Clock, iso } from '../base/clock.ts';
import type { Db, Tx } from '../base/db.ts';
import { type Paging, toPage } from '../base/page.ts';
import { createStore, type Definition, toAgent } from './store.ts';

interface Needs {
  db: Db;
  clock: Clock;
  /** The ids of the harnesses that there are. */
  harnesses(): string[];
}

/** The ETag of an agent at a revision. */
export const etagOf = ({ revision }: Pick<Agent, 'revision'>): string => `"${revision}"`;

/** Agents: reusable definitions. A revision is never changed, so whoever has resolved one can look it up for ever. */
export function createAgents({ db, clock, harnesses }: Needs) {
  const store = createStore(db);

  const get = (organization: string, id: string, revision?: number): Agent => {
    const agent = store.find(id, revision);
    if (agent?.organization_id === organization) return agent;
    const known = revision === undefined ? undefined : store.find(id);
    if (known?.organization_id === organization)
      throw new Fault(
        'not_found',
        `The agent "${known.name}" has no revision ${revision}; its newest is ${known.revision}.`,
      );
    throw new Fault('not_found', `There is no agent ${id}.`);
  };

  const assertOpen = ({ name, archived_at }: Agent): void => {
    if (archived_at !== null)
      throw new Fault('invalid_state', `The agent "${name}" is archived.`, { details: { state: 'archived' } });
  };

  const assertHarness = (harness: string | null | undefined): void => {
    const known = harnesses();
    if (harness === undefined || harness === null || known.includes(harness)) return;
    const message = `There is no harness "${harness}". Known ones: ${known.join(', ')}.`;
    throw new Fault('invalid_request', message, {
      param: 'harness',
      details: { errors: [{ path: '/harness', message }] },
    });
  };

  return {
    /** An agent, or one of its revisions. Throws `not_found`. */
    get,

    /** The same, for something that begins with it now: an archived one throws `invalid_state`. */
    getUsable(organization: string, id: string, revision?: number): Agent {
      const agent = get(organization, id, revision);
      assertOpen(agent);
      return agent;
    },

    list(organization: string, { archived }: { archived?: boolean }, paging: Paging): Page<Agent> {
      return toPage(store.list(organization, archived, paging.after, paging.limit + 1), paging, toAgent);
    },

    revisions(organization: string, id: string, paging: Paging): Page<Agent> {
      get(organization, id);
      return toPage(store.revisions(id, paging.after, paging.limit + 1), paging, toAgent);
    },

    create(_tx: Tx, organization_id: string, body: AgentCreate): Agent {
      assertHarness(body.harness);
      const now = iso(clock.now());
      const id = clock.id();
      store.add({ id, organization_id, revision: 1, created_at: now });
      store.revise(id, 1, {
        name: body.name,
        description: body.description ?? null,
        harness: body.harness ?? null,
        model: body.model ?? null,
        instructions: body.instructions ?? null,
        limits: body.limits ?? {},
        permission_mode: body.permission_mode ?? 'ask',
        on_input: body.on_input ?? 'ask',
        metadata: body.metadata ?? {},
        updated_at: now,
      });
      return get(organization_id, id);
    },

    /** Makes the next revision. Throws `etag_mismatch` when `ifMatch` names another revision than the newest. */
    update(_tx: Tx, organization: string, id: string, fields: AgentPatch, ifMatch: string | undefined): Agent {
      const tags = readTags('If-Match', ifMatch);
      const agent = get(organization, id);
      const current = etagOf(agent);
      if (tags && !matches(tags, current))
        throw new Fault('etag_mismatch', `The agent "${agent.name}" is at revision ${agent.revision}. Read it again.`, {
          details: { current_etag: current },
          headers: { etag: current },
        });
      assertOpen(agent);
      assertHarness(fields.harness);
      const {
        id: _i,
        organization_id: _o,
        revision,
        tools: _t,
        archived_at: _a,
        created_at: _c,
        ...definition
      } = agent;
      const next: Definition = { ...definition, ...fields, updated_at: iso(clock.now()) };
      store.revise(id, revision + 1, next);
      return get(organization, id);
    },

    /** Puts an agent away: nothing new begins with it, and what has begun goes on. Again changes nothing. */
    archive(_tx: Tx, organization: string, id: string): null {
      get(organization, id);
      store.archive(id, iso(clock.now()));
      return null;
    },
  };
}
export type Agents = ReturnType<typeof createAgents>;
