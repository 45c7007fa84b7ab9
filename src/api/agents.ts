import { Type, type Static } from 'typebox';
import { input, Metadata, Name, named, nullable, paging, resource, Time, Uuid } from './common.ts';
import { OnInput, PermissionMode, RunLimits } from './runs.ts';

/** Which tools of a connection a run may use. */
export const ToolGrant = named('ToolGrant', {
  connection_id: Uuid,
  tools: Type.Array(Type.String()),
});

const Description = nullable(Type.String({ maxLength: 4096 }));
const Harness = nullable(Type.String({ minLength: 1, maxLength: 64 }));
const Model = nullable(Type.String({ minLength: 1, maxLength: 200 }));
const Instructions = nullable(Type.String({ minLength: 1, maxLength: 131_072 }));

export const Agent = named(
  'Agent',
  {
    ...resource,
    name: Type.String(),
    description: nullable(Type.String()),
    revision: Type.Integer({ description: 'Grows by one with each change; also the ETag, in quotation marks.' }),
    harness: nullable(Type.String({ description: 'Null: the configured one, when a run begins.' })),
    model: nullable(Type.String()),
    instructions: nullable(
      Type.String({ description: 'What the agent is told before the first prompt of a session.' }),
    ),
    tools: Type.Array(ToolGrant),
    limits: RunLimits,
    permission_mode: PermissionMode,
    on_input: OnInput,
    metadata: Metadata,
    archived_at: nullable(Time),
  },
  'A reusable definition; each change makes a revision, and runs keep the one that they began with.',
);
export type Agent = Static<typeof Agent>;

export const AgentCreate = input('AgentCreate', {
  name: Name,
  description: Type.Optional(Description),
  harness: Type.Optional(Harness),
  model: Type.Optional(Model),
  instructions: Type.Optional(Instructions),
  limits: Type.Optional(RunLimits),
  permission_mode: Type.Optional(PermissionMode),
  on_input: Type.Optional(OnInput),
  metadata: Type.Optional(Metadata),
});
export type AgentCreate = Static<typeof AgentCreate>;

export const AgentPatch = input('AgentPatch', { ...AgentCreate.properties, name: Type.Optional(Name) });
export type AgentPatch = Static<typeof AgentPatch>;

export const AgentGet = Type.Object({
  revision: Type.Optional(Type.Integer({ minimum: 1, description: 'As it was then. The newest when absent.' })),
});

export const AgentList = Type.Object({
  ...paging,
  archived: Type.Optional(Type.Boolean({ description: 'Only archived ones, or only the others. Both when absent.' })),
});

export const AgentPrecondition = Type.Object({
  'if-match': Type.Optional(Type.String({ description: 'Change it only while this is its revision, such as "3".' })),
});
