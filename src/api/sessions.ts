import { Type, type Static } from 'typebox';
import { input, Metadata, named, nullable, paging, resource, Uuid } from './common.ts';
import { OnBusy, RunLimits } from './runs.ts';
import { Usage } from './usage.ts';
import { WebhookEndpointIds } from './webhooks.ts';

export const Session = named(
  'Session',
  {
    ...resource,
    project_id: Uuid,
    workspace_id: Uuid,
    agent_id: nullable(Uuid),
    agent_revision: nullable(Type.Integer()),
    harness: Type.String(),
    model: nullable(Type.String()),
    title: nullable(Type.String()),
    status: Type.Enum(['idle', 'running', 'awaiting_input', 'archived']),
    latest_run_id: nullable(Uuid),
    run_count: Type.Integer(),
    usage: Usage,
    metadata: Metadata,
  },
  'A continuing conversation: each follow-up is a run that remembers the ones before.',
);
export type Session = Static<typeof Session>;

const Title = nullable(Type.String({ minLength: 1, maxLength: 200 }));

export const SessionCreate = input('SessionCreate', {
  workspace_id: Type.Optional(Uuid),
  project_id: Type.Optional(Uuid),
  agent_id: Type.Optional(Uuid),
  agent_revision: Type.Optional(Type.Integer({ minimum: 1, description: 'The newest when absent.' })),
  harness: Type.Optional(Type.String({ minLength: 1, maxLength: 64 })),
  model: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
  title: Type.Optional(Title),
  metadata: Type.Optional(Metadata),
});
export type SessionCreate = Static<typeof SessionCreate>;

export const SessionPatch = input('SessionPatch', {
  title: Type.Optional(Title),
  archived: Type.Optional(Type.Boolean({ description: 'An archived session takes no messages.' })),
});
export type SessionPatch = Static<typeof SessionPatch>;

export const SessionFork = input('SessionFork', {
  run_id: Type.Optional(
    Type.String({
      format: 'uuid',
      description: 'The run of this session after which to go on; the latest when absent.',
    }),
  ),
  title: Type.Optional(Title),
  metadata: Type.Optional(Metadata),
});
export type SessionFork = Static<typeof SessionFork>;

export const MessageCreate = input('MessageCreate', {
  prompt: Type.String({ minLength: 1, maxLength: 1_048_576 }),
  model: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
  limits: Type.Optional(RunLimits),
  on_busy: Type.Optional(OnBusy),
  webhook_endpoint_ids: Type.Optional(WebhookEndpointIds),
  metadata: Type.Optional(Metadata),
});
export type MessageCreate = Static<typeof MessageCreate>;

export const SessionList = Type.Object({ ...paging, workspace_id: Type.Optional(Uuid) });
