import type { Page } from '../api/common.ts';
import { Fault } from '../api/error.ts';
import type { Grant } from '../api/grants.ts';
import { type Clock, iso } from '../base/clock.ts';
import type { Db, Tx } from '../base/db.ts';
import { type Paging, toPage } from '../base/page.ts';
import { createStore, toGrant } from './store.ts';

interface Needs {
  db: Db;
  clock: Clock;
  /** After a commit: runs at work must hear of it. */
  changed(): void;
}

/** What persons have allowed for good, per project and harness: each grant is one call, letter for letter. */
export function createGrants({ db, clock, changed }: Needs) {
  const store = createStore(db);
  return {
    list(organization: string, project: string | undefined, paging: Paging): Page<Grant> {
      return toPage(store.list(organization, project, paging.after, paging.limit + 1), paging, toGrant);
    },

    /** Allows for good what was shown; one that is there already stays. */
    add(tx: Tx, grant: Omit<Grant, 'id' | 'created_at' | 'updated_at'>): void {
      const now = iso(clock.now());
      store.add({ ...grant, id: clock.id(), created_at: now, updated_at: now });
      tx.after(changed);
    },

    remove(tx: Tx, organization: string, id: string): null {
      if (store.find(id)?.organization_id !== organization) throw new Fault('not_found', `There is no grant ${id}.`);
      store.remove(id);
      tx.after(changed);
      return null;
    },

    /** What a run of the project with this harness need not ask for. */
    for: store.for,
  };
}
export type Grants = ReturnType<typeof createGrants>;
