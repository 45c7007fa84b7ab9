import type { Page } from '../api/common.ts';
import { Fault } from '../api/error.ts';
import type {
  NewWebhook,
  SecretRotation,
  Webhook,
  WebhookCreate,
  WebhookEventType,
  WebhookPatch,
} from '../api/webhooks.ts';
import { type Clock, iso } from '../base/clock.ts';
import type { Tx } from '../base/db.ts';
import { type Paging, toPage } from '../base/page.ts';
import type { Secrets } from '../base/secrets.ts';
import { type Destinations, Refused } from './destinations.ts';
import type { EndpointRow, WebhookStore } from './store.ts';

interface Needs {
  clock: Clock;
  store: WebhookStore;
  secrets: Secrets;
  destinations: Destinations;
}

/** Secrets that may sign at once: each adds two signatures to a header. */
const mostSecrets = 5;
const placeOf = (id: string) => `webhook_secrets ${id}`;

/** Endpoints: who is told, of what, and with which secrets that is signed. */
export function createEndpoints({ clock, store, secrets, destinations }: Needs) {
  const find = (organization: string, id: string): EndpointRow => {
    const row = store.findEndpoint(id);
    if (!row || row.organization_id !== organization)
      throw new Fault('not_found', `There is no webhook endpoint ${id}.`);
    return row;
  };

  const toWebhook = (row: EndpointRow): Webhook => {
    const { key: _k, loopback: _l, failing_since: _f, ...webhook } = row;
    const live = store.secrets(row.id, iso(clock.now()));
    return {
      ...webhook,
      secrets: live.map(({ id, last4, created_at, expires_at }) => ({ id, last4, created_at, expires_at })),
    };
  };

  const addSecret = (webhook: string): string => {
    const secret = `whsec_${clock.random(32).toString('base64')}`;
    const id = clock.id();
    store.addSecret({
      id,
      webhook_id: webhook,
      sealed: secrets.seal(secret, placeOf(id)),
      last4: secret.slice(-4),
      expires_at: null,
      created_at: iso(clock.now()),
    });
    return secret;
  };

  const assertAllowed = (url: string, loopback: boolean): Promise<void> =>
    destinations.check(url, { loopback }).then(
      () => {},
      (error: unknown) => {
        throw error instanceof Refused ? error.fault() : error;
      },
    );

  /** Ends it, with what was still to be delivered to it. */
  const disable = (id: string, reason: 'requested' | 'deleted' | 'gone' | 'failing'): void => {
    const now = iso(clock.now());
    store.updateEndpoint(id, { status: 'disabled', disabled_reason: reason, updated_at: now });
    store.cancelOpen(id, now);
  };

  return {
    find,
    disable,

    get: (organization: string, id: string): Webhook => toWebhook(find(organization, id)),

    list: (organization: string, paging: Paging): Page<Webhook> =>
      toPage(store.listEndpoints(organization, paging.after, paging.limit + 1), paging, toWebhook),

    /**
     * Checks where it leads; what is answered then registers it. `local`: the local session asks, which may name loopback
     * addresses. Rejects with `invalid_request`.
     */
    async create(
      organization: string,
      { url, description = null, event_types = ['*'] }: WebhookCreate,
      local: boolean,
    ): Promise<(tx: Tx) => NewWebhook> {
      await assertAllowed(url, local);
      return () => {
        const now = iso(clock.now());
        const id = clock.id();
        store.addEndpoint({
          id,
          organization_id: organization,
          url: new URL(url).href,
          description,
          event_types,
          status: 'enabled',
          disabled_reason: null,
          loopback: local,
          failing_since: null,
          created_at: now,
          updated_at: now,
        });
        const secret = addSecret(id);
        return { ...toWebhook(store.findEndpoint(id)!), secret };
      };
    },

    /** The same for a change; a new address is checked like a first one. Enabling it again forgets its failures. */
    async update(
      organization: string,
      id: string,
      { url, description, event_types, status }: WebhookPatch,
      local: boolean,
    ): Promise<(tx: Tx) => Webhook> {
      const before = find(organization, id);
      if (url !== undefined) await assertAllowed(url, local);
      else if (status === 'enabled' && before.status === 'disabled') await assertAllowed(before.url, before.loopback);
      return () => {
        const { status: was } = find(organization, id);
        store.updateEndpoint(id, {
          ...(url === undefined ? {} : { url: new URL(url).href, loopback: local, failing_since: null }),
          ...(description === undefined ? {} : { description }),
          ...(event_types === undefined ? {} : { event_types }),
          updated_at: iso(clock.now()),
        });
        if (status === 'enabled' && was === 'disabled')
          store.updateEndpoint(id, { status, disabled_reason: null, failing_since: null });
        if (status === 'disabled' && was === 'enabled') disable(id, 'requested');
        return toWebhook(find(organization, id));
      };
    },

    /** Disables it for good; its deliveries can be looked at until they are forgotten, and it with them. */
    remove(_tx: Tx, organization: string, id: string): void {
      if (find(organization, id).disabled_reason !== 'deleted') disable(id, 'deleted');
    },

    /** A new secret; those so far go on signing for `overlap_seconds`. */
    rotate(_tx: Tx, organization: string, id: string, { overlap_seconds = 86_400 }: SecretRotation): NewWebhook {
      find(organization, id);
      const now = clock.now();
      store.expireSecrets(id, iso(now + overlap_seconds * 1_000));
      for (const { id: oldest } of store.secrets(id, iso(now)).slice(mostSecrets - 1)) store.removeSecret(oldest);
      const secret = addSecret(id);
      return { ...toWebhook(find(organization, id)), secret };
    },

    /** The secrets that sign now, newest first. Throws when the key that sealed them is another one. */
    signing: (id: string): string[] =>
      store.secrets(id, iso(clock.now())).map((row) => secrets.open(row.sealed, placeOf(row.id))),

    /** Throws `not_found` naming the first of these that is no endpoint of the organization. */
    assertKnown(organization: string, ids: readonly string[]): void {
      for (const id of ids) find(organization, id);
    },
  };
}
export type Endpoints = ReturnType<typeof createEndpoints>;

/** Whether an endpoint wants events of a type. */
export const subscribes = ({ event_types }: EndpointRow, type: WebhookEventType): boolean =>
  event_types.includes('*') || event_types.includes(type);
