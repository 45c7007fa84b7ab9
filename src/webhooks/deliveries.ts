import type { Page } from '../api/common.ts';
import { Fault } from '../api/error.ts';
import type { Operation } from '../api/operations.ts';
import type { Delivery, WebhookEvent, WebhookEventType } from '../api/webhooks.ts';
import { type Clock, iso } from '../base/clock.ts';
import type { Tx } from '../base/db.ts';
import { type Paging, toPage } from '../base/page.ts';
import type { Announcement } from '../events/announcements.ts';
import type { Operations } from '../operations/operations.ts';
import { type Endpoints, subscribes } from './endpoints.ts';
import { type DeliveryFilter, type EndpointRow, toDelivery, type WebhookStore } from './store.ts';

/** What must be known of a run to tell of it. */
export interface RunAbout {
  organization_id: string;
  project_id: string;
  workspace_id: string;
  session_id: string;
  webhook_endpoint_ids: string[] | null;
}

interface Needs {
  clock: Clock;
  store: WebhookStore;
  endpoints: Endpoints;
  operations: Operations;
  runOf(id: string): RunAbout | undefined;
  /** After a commit: something is to be sent. */
  changed(): void;
}

/** Deliveries: one event on its way to one endpoint. */
export function createDeliveries({ clock, store, endpoints, operations, runOf, changed }: Needs) {
  const find = (organization: string, id: string): Delivery => {
    const delivery = store.findDelivery(id);
    if (!delivery || delivery.organization_id !== organization)
      throw new Fault('not_found', `There is no webhook delivery ${id}.`);
    return delivery;
  };

  const add = (endpoint: EndpointRow, event: { id: string; type: WebhookEventType }, replay_of: string | null) => {
    const now = iso(clock.now());
    const delivery: Delivery = {
      id: clock.id(),
      organization_id: endpoint.organization_id,
      endpoint_id: endpoint.id,
      event_id: event.id,
      event_type: event.type,
      status: 'pending',
      attempt_count: 0,
      attempts: [],
      next_attempt_at: now,
      replay_of,
      created_at: now,
      updated_at: now,
    };
    store.addDelivery(delivery);
    return delivery;
  };

  const addEvent = (
    organization_id: string,
    type: WebhookEventType,
    created_at: string,
    data: WebhookEvent['data'],
  ): { id: string; type: WebhookEventType } => {
    const event: WebhookEvent = { id: clock.id(), type, created_at, organization_id, data };
    store.addEvent(event.id, JSON.stringify(event), iso(clock.now()));
    return event;
  };

  const assertEnabled = ({ status, disabled_reason }: EndpointRow): void => {
    if (status === 'enabled') return;
    throw new Fault('invalid_state', `This endpoint is disabled (${disabled_reason}); enable it first.`, {
      details: { state: status },
    });
  };

  return {
    get: find,

    list: (organization: string, filter: DeliveryFilter, paging: Paging): Page<Delivery> =>
      toPage(store.listDeliveries(organization, filter, paging.after, paging.limit + 1), paging, toDelivery),

    /** Makes the deliveries of what was announced, to the endpoints that are enabled now; answers how many. */
    spread(_tx: Tx, { run_id, type, created_at, data, ...rest }: Announcement, enabled: EndpointRow[]): number {
      const run = run_id === null ? undefined : runOf(run_id);
      const organization = run?.organization_id ?? rest.organization_id;
      if (organization === null) return 0;
      const chosen = run?.webhook_endpoint_ids;
      const told = enabled.filter(
        (endpoint) =>
          endpoint.organization_id === organization &&
          subscribes(endpoint, type) &&
          (!chosen || chosen.includes(endpoint.id)),
      );
      if (told.length === 0) return 0;
      const about = run && {
        run_id,
        session_id: run.session_id,
        workspace_id: run.workspace_id,
        project_id: run.project_id,
      };
      const object = { object: 'run', id: run_id!, ...data, ...about };
      const event = addEvent(organization, type, created_at, object);
      for (const endpoint of told) add(endpoint, event, null);
      return told.length;
    },

    /** An event for one endpoint, to see whether it arrives. Throws `invalid_state` when it is disabled. */
    test(tx: Tx, organization: string, id: string): Delivery {
      const endpoint = endpoints.find(organization, id);
      assertEnabled(endpoint);
      const data = { object: 'webhook_endpoint', id };
      const delivery = add(endpoint, addEvent(organization, 'webhook.test', iso(clock.now()), data), null);
      tx.after(changed);
      return delivery;
    },

    /** The same event again under a new delivery. Throws `invalid_state` when its endpoint is disabled. */
    replay(tx: Tx, organization: string, id: string): Operation {
      const { endpoint_id, event_id, event_type } = find(organization, id);
      const endpoint = endpoints.find(organization, endpoint_id);
      assertEnabled(endpoint);
      const fresh = add(endpoint, { id: event_id, type: event_type }, id);
      tx.after(changed);
      const operation = operations.begin(tx, {
        type: 'webhook.replay',
        organization_id: organization,
        resource: { type: 'webhook_delivery', id: fresh.id },
        input: { delivery_id: fresh.id },
      });
      return operations.finish(tx, operation.id, { result: { delivery_id: fresh.id, event_id } });
    },
  };
}
export type Deliveries = ReturnType<typeof createDeliveries>;
