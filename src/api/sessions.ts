import { Type, type Static } from 'typebox';
import { Metadata, named, nullable, paging, resource, Uuid } from './common.ts';
import { Usage } from './usage.ts';

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

export const SessionList = Type.Object({ ...paging, workspace_id: Type.Optional(Uuid) });
