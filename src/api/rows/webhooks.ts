import { Type } from 'typebox';
import { page, paging } from '../common.ts';
import { type Endpoint, row } from '../endpoint.ts';
import { Operation } from '../operations.ts';
import { Empty } from '../runs.ts';
import {
  Delivery,
  DeliveryList,
  NewWebhook,
  SecretRotation,
  Webhook,
  WebhookCreate,
  WebhookPatch,
} from '../webhooks.ts';

/** Webhook endpoints and deliveries. */
export const webhookRows = {
  listWebhookEndpoints: row('GET /v1/webhook-endpoints', {
    summary: 'List webhook endpoints, newest first',
    scope: 'webhooks:read',
    query: Type.Object(paging),
    status: 200,
    reply: page(Webhook),
  }),
  createWebhookEndpoint: row('POST /v1/webhook-endpoints', {
    summary: 'Register an address that is told what happens; the answer shows its signing secret',
    scope: 'webhooks:write',
    body: WebhookCreate,
    checkedFirst: true,
    secret: 'secret',
    status: 201,
    reply: NewWebhook,
  }),
  getWebhookEndpoint: row('GET /v1/webhook-endpoints/{endpoint_id}', {
    summary: 'Get a webhook endpoint',
    scope: 'webhooks:read',
    status: 200,
    reply: Webhook,
  }),
  updateWebhookEndpoint: row('PATCH /v1/webhook-endpoints/{endpoint_id}', {
    summary: 'Change a webhook endpoint, disable it or enable it again',
    scope: 'webhooks:write',
    body: WebhookPatch,
    checkedFirst: true,
    status: 200,
    reply: Webhook,
  }),
  deleteWebhookEndpoint: row('DELETE /v1/webhook-endpoints/{endpoint_id}', {
    summary: 'Disable a webhook endpoint; what was still to be delivered to it is cancelled',
    scope: 'webhooks:write',
    status: 204,
  }),
  rotateWebhookSecret: row('POST /v1/webhook-endpoints/{endpoint_id}/rotate-secret', {
    summary: 'Give it a new signing secret; the old ones go on signing for a while',
    scope: 'webhooks:write',
    body: SecretRotation,
    secret: 'secret',
    status: 200,
    reply: NewWebhook,
  }),
  testWebhookEndpoint: row('POST /v1/webhook-endpoints/{endpoint_id}/test', {
    summary: 'Send it an event of type webhook.test',
    scope: 'webhooks:write',
    body: Empty,
    status: 202,
    reply: Delivery,
  }),
  listWebhookDeliveries: row('GET /v1/webhook-deliveries', {
    summary: 'List deliveries, newest first',
    scope: 'webhooks:read',
    query: DeliveryList,
    status: 200,
    reply: page(Delivery),
  }),
  getWebhookDelivery: row('GET /v1/webhook-deliveries/{delivery_id}', {
    summary: 'Get a delivery with its attempts',
    scope: 'webhooks:read',
    status: 200,
    reply: Delivery,
  }),
  replayWebhookDelivery: row('POST /v1/webhook-deliveries/{delivery_id}/replay', {
    summary: 'Deliver an event again: a new delivery of the same event',
    scope: 'webhooks:write',
    body: Empty,
    status: 202,
    reply: Operation,
  }),
} as const satisfies Record<string, Endpoint>;
