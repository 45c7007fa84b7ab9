import { userInfo } from 'node:os';
import { type Scope, scopes as allScopes } from '../api/endpoint.ts';
import { Fault } from '../api/error.ts';
import type { Me } from '../api/server.ts';
import { type Clock, iso } from '../base/clock.ts';
import type { Db } from '../base/db.ts';
import type { SessionToken } from './session-token.ts';
import { createStore, type Organization } from './store.ts';

/** Who calls, in which organization, with which rights. */
export interface Principal {
  type: 'user' | 'api_key';
  id: string;
  name: string;
  credential: 'session' | 'api_key' | 'oauth';
  organization_id: string;
  scopes: readonly Scope[];
}

/** Credentials, organizations and memberships. First start makes one organization and one user, its owner. */
export function createAccess({ db, clock, token }: { db: Db; clock: Clock; token: SessionToken }) {
  const store = createStore(db);

  db.write(() => {
    if (store.owner()) return;
    const name = userInfo().username;
    store.found(
      { id: clock.id(), name },
      { id: clock.id(), name: 'default', credit_policy: 'unlimited' },
      iso(clock.now()),
    );
    store.set('cursor_secret', clock.random(32).toString('base64url'));
  });
  // There is one user and the memberships change only through this room.
  const owner = store.owner()!;

  const select = (memberships: { organization_id: string }[], wanted: string | undefined): string => {
    if (wanted !== undefined) {
      const organization = wanted.toLowerCase();
      if (!memberships.some(({ organization_id }) => organization_id === organization))
        throw new Fault('organization_forbidden', 'You are not a member of the organization in X-Organization-Id.');
      return organization;
    }
    const [only, ...others] = memberships;
    if (!only) throw new Fault('organization_forbidden', 'You are not a member of any organization.');
    if (others.length > 0)
      throw new Fault(
        'organization_required',
        'You are a member of several organizations: name one in X-Organization-Id.',
      );
    return only.organization_id;
  };

  return {
    /** The key that page cursors are sealed with. */
    cursorSecret: Buffer.from(store.setting('cursor_secret')!, 'base64url'),

    /**
     * Who sent this `Authorization` header. Throws `unauthenticated`, or the organization faults for a selector that
     * does not fit.
     */
    authenticate(authorization: string | undefined, organization: string | undefined): Principal {
      const refuse = (reason: string, message: string) =>
        new Fault('unauthenticated', message, { details: { reason }, headers: { 'www-authenticate': 'Bearer' } });
      if (!authorization) throw refuse('missing', 'This needs a credential: Authorization: Bearer <token>.');
      const [, credential] = /^Bearer +([\x21-\x7e]+)$/i.exec(authorization) ?? [];
      if (!credential) throw refuse('malformed', 'The Authorization header must read: Bearer <token>.');
      if (!token.matches(credential)) throw refuse('unknown', 'This credential is not known here.');
      return {
        type: 'user',
        id: owner.id,
        name: owner.name,
        credential: 'session',
        organization_id: select(store.organizationsOf(owner.id), organization),
        scopes: allScopes,
      };
    },

    /** The organization of a principal. */
    organization: (id: string): Organization => store.organization(id)!,

    /** What `GET /v1/me` says of a principal, but for the server's part. */
    describe(principal: Principal): Omit<Me, 'server'> {
      const { type, id, name, credential } = principal;
      return {
        principal: { type, id, name, credential },
        organization: store.organization(principal.organization_id)!,
        memberships: store.memberships(id),
        scopes: [...principal.scopes],
        credits: null,
      };
    },
  };
}
export type Access = ReturnType<typeof createAccess>;
