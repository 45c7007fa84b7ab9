import { Type, type Static } from 'typebox';
import { input, Metadata, Name, named, nullable, resource, ResourceError, Time, Uuid } from './common.ts';

const checkpointTriggers = ['manual', 'before_run', 'after_run', 'before_restore', 'before_delete'] as const;
/** What made a checkpoint. */
export type CheckpointTrigger = (typeof checkpointTriggers)[number];

export const Checkpoint = named(
  'Checkpoint',
  {
    ...resource,
    workspace_id: Uuid,
    name: nullable(Type.String()),
    status: Type.Enum(['creating', 'verified', 'failed', 'corrupt'], {
      description: '`verified`: every object was read back and hashed. Only then it can be restored.',
    }),
    trigger: Type.Enum([...checkpointTriggers]),
    run_id: nullable(Uuid),
    parent_id: nullable(Uuid),
    revision: Type.Integer({ description: 'Of the workspace when it was made.' }),
    tree_hash: nullable(Type.String({ description: 'Equal for equal trees.' })),
    file_count: nullable(Type.Integer({ description: 'Files and links.' })),
    size_bytes: nullable(Type.Integer({ description: 'Of all files.' })),
    stored_bytes: nullable(Type.Integer({ description: 'What it added to the store.' })),
    verified_at: nullable(Time),
    expires_at: nullable(Time),
    error: nullable(ResourceError),
    metadata: Metadata,
  },
  'The whole tree of a workspace as it was at one time.',
);
export type Checkpoint = Static<typeof Checkpoint>;

export const CheckpointCreate = input('CheckpointCreate', {
  name: Type.Optional(Name),
  metadata: Type.Optional(Metadata),
});
export type CheckpointCreate = Static<typeof CheckpointCreate>;

export const RestoreRequest = input('RestoreRequest', {
  checkpoint_id: Uuid,
  paths: Type.Optional(
    nullable(
      Type.Array(Type.String(), {
        minItems: 1,
        maxItems: 10_000,
        description: 'Only these and what is below them; all when null.',
      }),
    ),
  ),
  dry_run: Type.Optional(Type.Boolean({ default: false, description: 'Say what would be done, and do nothing.' })),
});
export type RestoreRequest = Static<typeof RestoreRequest>;
