import { userInfo } from 'node:os';
import type {
  BrowserSession,
  Member,
  MemberCreate,
  Organization,
  OrganizationCreate,
  OrganizationPatch,
} from '../api/access.ts';
import type { Page } from '../api/common.ts';
import { scopes as allScopes } from '../api/endpoint.ts';
import { Fault } from '../api/error.ts';
import type { Me } from '../api/server.ts';
import { type Clock, iso } from '../base/clock.ts';
import type { Config } from '../base/config.ts';
import type { Db, Tx } from '../base/db.ts';
import { type Paging, toPage } from '../base/page.ts';
import { createApiKeys } from './api-keys.ts';
import { createBrowsers } from './browser.ts';
import { createOauth } from './oauth.ts';
import { assertOwner, type Principal, refused } from './principal.ts';
import type { SessionToken } from './session-token.ts';
import { createStore, type User } from './store.ts';

export type { Principal } from './principal.ts';

interface Needs {
  db: Db;
  clock: Clock;
  token: SessionToken;
  config: Config['oauth'];
}

const withoutKey = <Row extends { key: number }>(row: Row): Omit<Row, 'key'> => {
  const { key: _key, ...rest } = row;
  return rest;
};

/** Credentials, organizations and memberships. First start makes one organization and one user, its owner. */
export function createAccess({ db, clock, token, config }: Needs) {
  const store = createStore(db);
  const apiKeys = createApiKeys({ store, clock });
  const browsers = createBrowsers({ store, clock });
  const oauth = createOauth({ issuers: config.issuers, clock });

  const found = (fields: OrganizationCreate, owner: string): Organization => {
    const now = iso(clock.now());
    const organization = {
      id: clock.id(),
      credit_policy: 'unlimited' as const,
      ...fields,
      created_at: now,
      updated_at: now,
    };
    store.addOrganization(organization);
    store.addMember(organization.id, owner, 'owner');
    return organization;
  };

  db.write(() => {
    if (store.owner()) return;
    const user = { id: clock.id(), name: userInfo().username };
    store.addUser(user, iso(clock.now()));
    found({ name: 'default' }, user.id);
    store.set('cursor_secret', clock.random(32).toString('base64url'));
  });
  // The one user at this machine.
  const owner = store.owner()!;

  const select = (user: User, wanted: string | undefined): string => {
    const memberships = store.organizationsOf(user.id);
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
        { details: { memberships: store.memberships(user.id) } },
      );
    return only.organization_id;
  };

  /** The organization of this id, of which the principal is a member. Throws `not_found`. */
  const mine = (principal: Principal, id: string): Organization => {
    const within =
      principal.type === 'api_key' ? principal.organization_id === id : store.member(id, principal.id) !== undefined;
    const organization = within && store.organization(id);
    if (!organization) throw new Fault('not_found', 'There is no such organization.');
    return organization;
  };

  return {
    /** The key that page cursors are sealed with. */
    cursorSecret: Buffer.from(store.setting('cursor_secret')!, 'base64url'),
    apiKeys,
    assertOwner,

    /**
     * Who sent this `Authorization` header; later for a token whose issuer's keys must be had first. Throws `unauthenticated`,
     * or the organization faults for a selector that does not fit.
     */
    authenticate(authorization: string | undefined, organization: string | undefined): Principal | Promise<Principal> {
      if (!authorization) throw refused('missing', 'This needs a credential: Authorization: Bearer <token>.');
      const [, credential] = /^Bearer +([\x21-\x7e]+)$/i.exec(authorization) ?? [];
      if (!credential) throw refused('malformed', 'The Authorization header must read: Bearer <token>.');
      if (apiKeys.isKey(credential)) return apiKeys.authenticate(credential, organization);
      if (oauth.isToken(credential))
        return oauth.verify(credential).then(({ issuer, subject, name, scopes, expires_at }) => {
          const user = store.userOf(issuer, subject);
          if (!user)
            throw new Fault('organization_forbidden', `${name} is not a member of any organization of this daemon.`);
          const organization_id = select(user, organization);
          return { type: 'user', ...user, credential: 'oauth', organization_id, scopes, expires_at };
        });
      const expires_at = token.matches(credential) ? null : browsers.sessionEnd(credential);
      if (expires_at === undefined) throw refused('unknown', 'This credential is not known here.');
      const organization_id = select(owner, organization);
      return { type: 'user', ...owner, credential: 'session', organization_id, scopes: allScopes, expires_at };
    },

    /** What `GET /v1/me` says of a principal, but for credits and the server. */
    describe(principal: Principal): Omit<Me, 'server' | 'credits'> {
      const { type, id, name, credential, organization_id } = principal;
      const { credit_policy, name: called } = store.organization(organization_id)!;
      return {
        principal: { type, id, name, credential },
        organization: { id: organization_id, name: called, credit_policy },
        memberships: type === 'api_key' ? [{ organization_id, name: called, role: 'member' }] : store.memberships(id),
        scopes: [...principal.scopes],
      };
    },

    /** A code that lets a browser in. Throws `owner_only`. */
    signInCode(principal: Principal) {
      assertOwner(principal, 'Codes for browsers are made');
      return browsers.code();
    },

    /** Takes a code and answers a browser's session. Throws `unauthenticated`. */
    enter: (code: string): BrowserSession => browsers.enter(code),

    /** Puts another token into the session's file and ends the sessions of all browsers. Throws `owner_only`. */
    rotate(principal: Principal, tx: Tx): void {
      assertOwner(principal, 'The session’s token is replaced');
      browsers.clear();
      tx.after(() => token.rotate());
    },

    /** Organizations of the principal, newest first. */
    organizations(principal: Principal, paging: Paging): Page<Organization> {
      if (principal.type === 'api_key')
        return { data: [mine(principal, principal.organization_id)], next_cursor: null };
      const rows = store.organizationsOfUser(principal.id, paging.after, paging.limit + 1);
      return toPage(rows, paging, withoutKey);
    },

    /** An organization of the principal. Throws `not_found`. */
    organization: mine,

    /** Whether the organization of this id pays ahead. */
    isPrepaid: (id: string): boolean => store.organization(id)?.credit_policy === 'prepaid',

    /** Makes an organization, whose owner the local user is. Throws `owner_only`. */
    createOrganization(principal: Principal, fields: OrganizationCreate): Organization {
      assertOwner(principal, 'Organizations are made');
      return found(fields, owner.id);
    },

    /** Throws `owner_only`, `not_found`. */
    updateOrganization(principal: Principal, id: string, fields: OrganizationPatch): Organization {
      assertOwner(principal, 'Organizations are changed');
      mine(principal, id);
      store.updateOrganization(id, { ...fields, updated_at: iso(clock.now()) });
      return mine(principal, id);
    },

    /** Members of an organization, newest first. Throws `not_found`. */
    members(principal: Principal, id: string, paging: Paging): Page<Member> {
      mine(principal, id);
      return toPage(store.members(id, paging.after, paging.limit + 1), paging, withoutKey);
    },

    /** Lets the user of an OAuth issuer act in an organization; again is no error. Throws `owner_only`, `not_found`. */
    addMember(principal: Principal, id: string, { issuer, subject, name = subject }: MemberCreate): Member {
      assertOwner(principal, 'Members are added');
      mine(principal, id);
      let user = store.userOf(issuer, subject);
      if (!user) {
        user = { id: clock.id(), name: name.slice(0, 120) };
        store.addUser({ ...user, issuer, subject }, iso(clock.now()));
      }
      store.addMember(id, user.id, 'member');
      return { user_id: user.id, name: user.name, role: 'member', issuer, subject };
    },

    /** Takes a member out. Throws `owner_only`, `not_found`; `invalid_state` for the owner, who stays. */
    removeMember(principal: Principal, id: string, user: string): void {
      assertOwner(principal, 'Members are taken out');
      mine(principal, id);
      const member = store.member(id, user);
      if (!member) throw new Fault('not_found', 'There is no such member.');
      if (member.role === 'owner')
        throw new Fault('invalid_state', 'The owner stays a member.', { details: { state: 'owner' } });
      store.removeMember(id, user);
    },
  };
}
export type Access = ReturnType<typeof createAccess>;
