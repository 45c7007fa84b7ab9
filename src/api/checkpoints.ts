import { Type, type Static } from 'typebox';
import { input, Metadata, Name, named, nullable, resource, ResourceError, Time, Uuid } from './common.ts';
import { FileChange } from './runs.ts';

const checkpointTriggers = ['manual', 'before_run', 'after_run', 'before_restore', 'before_delete'] as const;
/** What made a checkpoint. */
export type CheckpointTrigger = (typeof checkpointTriggers)[number];

/** Where a checkpoint's repository stood. */
export const CheckpointGit = named('CheckpointGit', {
  head: nullable(Type.String({ description: 'The commit; null before the first.' })),
  branch: nullable(Type.String({ description: 'Null when HEAD is detached.' })),
});
export type CheckpointGit = Static<typeof CheckpointGit>;

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
    git: nullable(CheckpointGit),
    verified_at: nullable(Time),
    expires_at: nullable(
      Type.String({
        format: 'date-time',
        description: 'When it may be removed; null for one that was made by hand. A workspace’s newest stays.',
      }),
    ),
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

/** The type that a diff is asked for with. */
export const DiffHeaders = Type.Object({ accept: Type.Optional(Type.String()) });

export const CheckpointDiffQuery = Type.Object({
  against: Type.Optional(
    Type.String({
      pattern: '^(?:workspace|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$',
      default: 'workspace',
      description: 'Another checkpoint of the same project, or the files as they are now.',
    }),
  ),
});

export const CheckpointDiff = named(
  'CheckpointDiff',
  {
    checkpoint_id: Uuid,
    against: Type.String({ description: 'What it was compared with: a checkpoint’s id, or `workspace`.' }),
    files: Type.Array(FileChange),
    additions: nullable(Type.Integer()),
    deletions: nullable(Type.Integer()),
    truncated: Type.Boolean({ description: 'More files differ than are named.' }),
  },
  'What came after a checkpoint. Counts of lines are null where a file is no text, or too much differs.',
);
export type CheckpointDiff = Static<typeof CheckpointDiff>;
