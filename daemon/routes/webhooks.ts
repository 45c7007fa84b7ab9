import { deliveryStatuses, webhookEventTypes } from '../../src/api/webhooks.ts';
import type { App } from '../../src/app.ts';
import type { Handlers } from '../bind.ts';
import { readList, readRange } from '../filters.ts';

type Routes =
  | 'listWebhookEndpoints'
  | 'createWebhookEndpoint'
  | 'getWebhookEndpoint'
  | 'updateWebhookEndpoint'
  | 'deleteWebhookEndpoint'
  | 'rotateWebhookSecret'
  | 'testWebhookEndpoint'
  | 'listWebhookDeliveries'
  | 'getWebhookDelivery'
  | 'replayWebhookDelivery';

const isLocal = ({ credential }: { credential: string }) => credential === 'session';

export const webhookRoutes = ({ webhooks: { endpoints, deliveries } }: App): Pick<Handlers, Routes> => ({
  listWebhookEndpoints: (_input, { principal, paging }) => endpoints.list(principal.organization_id, paging()),
  createWebhookEndpoint: ({ body }, { principal }) =>
    endpoints.create(principal.organization_id, body, isLocal(principal)),
  getWebhookEndpoint: ({ path }, { principal }) => endpoints.get(principal.organization_id, path.endpoint_id),
  updateWebhookEndpoint: ({ path, body }, { principal }) =>
    endpoints.update(principal.organization_id, path.endpoint_id, body, isLocal(principal)),
  deleteWebhookEndpoint({ path }, { principal, tx }) {
    endpoints.remove(tx, principal.organization_id, path.endpoint_id);
    return null;
  },
  rotateWebhookSecret: ({ path, body }, { principal, tx }) =>
    endpoints.rotate(tx, principal.organization_id, path.endpoint_id, body),
  testWebhookEndpoint: ({ path }, { principal, tx }) =>
    deliveries.test(tx, principal.organization_id, path.endpoint_id),

  listWebhookDeliveries({ query }, { principal, paging }) {
    const { status, event_type, endpoint_id, from, to } = query;
    const statuses = readList('status', status, deliveryStatuses);
    const types = readList('event_type', event_type, webhookEventTypes);
    return deliveries.list(
      principal.organization_id,
      {
        ...readRange({ ...(from ? { from } : {}), ...(to ? { to } : {}) }),
        ...(statuses ? { status: statuses } : {}),
        ...(types ? { type: types } : {}),
        ...(endpoint_id ? { endpoint_id } : {}),
      },
      paging(),
    );
  },
  getWebhookDelivery: ({ path }, { principal }) => deliveries.get(principal.organization_id, path.delivery_id),
  replayWebhookDelivery: ({ path }, { principal, tx }) =>
    deliveries.replay(tx, principal.organization_id, path.delivery_id),
});
