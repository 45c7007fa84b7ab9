import { Type, type Static } from 'typebox';
import { input, named, nullable, paging, resource, Time, timeRange, Uuid } from './common.ts';

/** What an endpoint may subscribe to (contract section 9). */
export const webhookEventTypes = [
  'run.started',
  'run.awaiting_input',
  'run.limit_warning',
  'run.completed',
  'run.failed',
  'run.cancelled',
  'checkpoint.created',
  'git_sync.updated',
  'connection.expired',
  'credits.low',
  'webhook_endpoint.disabled',
  'webhook.test',
] as const;
export type WebhookEventType = (typeof webhookEventTypes)[number];

/** What is POSTed to an endpoint. `data` is a short summary that names the object; it never holds a transcript's text. */
export interface WebhookEvent {
  /** The business event: the same in every attempt, at every endpoint and in every replay. Deduplicate by it. */
  id: string;
  type: WebhookEventType;
  created_at: string;
  organization_id: string;
  data: { object: string; id: string } & Record<string, unknown>;
}

const Url = Type.String({ minLength: 1, maxLength: 2_048 });
const Description = Type.String({ maxLength: 500 });
const EventTypes = Type.Array(Type.Enum(['*', ...webhookEventTypes]), {
  minItems: 1,
  uniqueItems: true,
  description: '`*` is every type, those to come included.',
});
const webhook = {
  ...resource,
  url: Type.String(),
  description: nullable(Type.String()),
  event_types: EventTypes,
  status: Type.Enum(['enabled', 'disabled']),
  disabled_reason: nullable(
    Type.String({ description: '`requested`, `deleted`, `gone` (it answered 410) or `failing` (for five days).' }),
  ),
  secrets: Type.Array(
    Type.Object(
      { id: Uuid, last4: Type.String(), created_at: Time, expires_at: nullable(Time) },
      { additionalProperties: false },
    ),
    { description: 'Those that sign now, newest first.' },
  ),
};

export const Webhook = named('Webhook', webhook, 'An address that is told what happens.');
export type Webhook = Static<typeof Webhook>;

export const NewWebhook = named(
  'NewWebhook',
  {
    ...webhook,
    secret: nullable(
      Type.String({ description: 'What signs the deliveries. Shown this once; null in a replay after ten minutes.' }),
    ),
  },
  'An endpoint with its fresh signing secret.',
);
export type NewWebhook = Static<typeof NewWebhook>;

export const WebhookCreate = input('WebhookCreate', {
  url: Url,
  description: Type.Optional(nullable(Description)),
  event_types: Type.Optional(EventTypes),
});
export type WebhookCreate = Static<typeof WebhookCreate>;

export const WebhookPatch = input('WebhookPatch', {
  url: Type.Optional(Url),
  description: Type.Optional(nullable(Description)),
  event_types: Type.Optional(EventTypes),
  status: Type.Optional(Type.Enum(['enabled', 'disabled'])),
});
export type WebhookPatch = Static<typeof WebhookPatch>;

export const SecretRotation = input('SecretRotation', {
  overlap_seconds: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 2_592_000,
      default: 86_400,
      description: 'How long the secrets so far go on signing beside the new one.',
    }),
  ),
});
export type SecretRotation = Static<typeof SecretRotation>;

export const deliveryStatuses = ['pending', 'retrying', 'succeeded', 'exhausted', 'cancelled'] as const;

export const DeliveryAttempt = named('DeliveryAttempt', {
  number: Type.Integer({ minimum: 1 }),
  at: Time,
  duration_ms: Type.Integer({ minimum: 0 }),
  response_status: nullable(Type.Integer()),
  response_excerpt: nullable(Type.String({ description: 'The beginning of what was answered.' })),
  error: nullable(
    Type.Object(
      { code: Type.String(), message: Type.String() },
      { additionalProperties: false, description: 'Why there was no answer that counts.' },
    ),
  ),
});
export type DeliveryAttempt = Static<typeof DeliveryAttempt>;

export const Delivery = named(
  'Delivery',
  {
    ...resource,
    endpoint_id: Uuid,
    event_id: Uuid,
    event_type: Type.Enum([...webhookEventTypes]),
    status: Type.Enum([...deliveryStatuses]),
    attempt_count: Type.Integer({ minimum: 0 }),
    attempts: Type.Array(DeliveryAttempt),
    next_attempt_at: nullable(Time),
    replay_of: nullable(Uuid),
  },
  'One event on its way to one endpoint.',
);
export type Delivery = Static<typeof Delivery>;

export const DeliveryList = Type.Object({
  ...paging,
  ...timeRange,
  status: Type.Optional(Type.String({ description: `A comma list of ${deliveryStatuses.join(', ')}.` })),
  endpoint_id: Type.Optional(Uuid),
  event_type: Type.Optional(Type.String({ description: `A comma list of ${webhookEventTypes.join(', ')}.` })),
});

/** For runs and messages: whom to tell. */
export const WebhookEndpointIds = Type.Array(Uuid, {
  maxItems: 20,
  uniqueItems: true,
  description: 'Only these endpoints are told of the run, of the types they subscribe to.',
});
