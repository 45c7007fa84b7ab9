import { Type, type Static } from 'typebox';
import { input, Metadata, Name, named, nullable, resource, ResourceError, Time, Uuid } from './common.ts';

export const WorkspaceSource = Type.Union([
  Type.Object({ type: Type.Literal('empty') }, { additionalProperties: false }),
  Type.Object(
    {
      type: Type.Literal('directory'),
      path: Type.String({ minLength: 1, maxLength: 4096, pattern: '^/[^\\u0000]*$' }),
      mode: Type.Enum(['in_place', 'copy', 'worktree']),
    },
    { additionalProperties: false },
  ),
  Type.Object(
    {
      type: Type.Literal('git'),
      url: Type.String({
        minLength: 1,
        maxLength: 2048,
        description:
          'https, ssh (also user@host:path), or file with the local session; without a password or token. No submodules are fetched and no hooks or filters run.',
      }),
      ref: Type.Optional(
        nullable(
          Type.String({ minLength: 1, maxLength: 255, description: 'A branch, a tag, or a whole commit hash.' }),
        ),
      ),
      depth: Type.Optional(
        nullable(Type.Integer({ minimum: 1, maximum: 1_000_000, description: 'So many commits of the history.' })),
      ),
    },
    { additionalProperties: false },
  ),
  Type.Object({ type: Type.Literal('checkpoint'), checkpoint_id: Uuid }, { additionalProperties: false }),
]);
export type WorkspaceSource = Static<typeof WorkspaceSource>;

export const Writer = named('Writer', {
  kind: Type.Enum(['run', 'file', 'restore', 'sync']),
  id: Uuid,
  since: Time,
});
export type Writer = Static<typeof Writer>;

export const WorkspaceGit = named('WorkspaceGit', {
  remote_url: nullable(Type.String()),
  branch: nullable(Type.String()),
  base_branch: nullable(Type.String()),
  provider: nullable(Type.Enum(['github', 'gitlab', 'gitea'])),
  connection_id: nullable(Uuid),
  author: nullable(Type.String()),
});
export type WorkspaceGit = Static<typeof WorkspaceGit>;

export const WorkspaceWatch = named(
  'WorkspaceWatch',
  {
    mode: Type.Enum(['off', 'starting', 'watching', 'scanning'], {
      description:
        'How changes that nobody made through agentctl are noticed: `watching` at once, `scanning` by looking through the tree every few seconds, `off` when somebody looks into the workspace again.',
    }),
    reason: nullable(Type.String({ description: 'Why it is not watched.' })),
  },
  'How a tree is followed while its workspace is in use: for ten minutes after it, or a file in it, was last read.',
);
export type WorkspaceWatch = Static<typeof WorkspaceWatch>;

export const Workspace = named(
  'Workspace',
  {
    ...resource,
    project_id: Uuid,
    name: Type.String(),
    status: Type.Enum(['provisioning', 'ready', 'restoring', 'deleting', 'deleted', 'failed']),
    source: WorkspaceSource,
    path: Type.String({ description: 'Where its files are on this machine.' }),
    revision: Type.Integer({
      description: 'Grows by one with each observed change of the tree, whoever made it: the API, a run, an editor.',
    }),
    watch: WorkspaceWatch,
    writer: nullable(Writer),
    git: nullable(WorkspaceGit),
    base_checkpoint_id: nullable(Uuid),
    delete_after: nullable(Time),
    error: nullable(ResourceError),
    metadata: Metadata,
  },
  'An isolated tree of files that runs work in, one writer at a time.',
);
export type Workspace = Static<typeof Workspace>;

export const WorkspaceCreate = input('WorkspaceCreate', {
  name: Type.Optional(Name),
  source: Type.Optional(WorkspaceSource),
  metadata: Type.Optional(Metadata),
});
export type WorkspaceCreate = Static<typeof WorkspaceCreate>;

export const WorkspacePatch = input('WorkspacePatch', {
  name: Type.Optional(Name),
  metadata: Type.Optional(Metadata),
});
export type WorkspacePatch = Static<typeof WorkspacePatch>;

export const WorkspaceDelete = Type.Object({
  after_seconds: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 31_536_000,
      default: 86_400,
      description: 'How long one may change one’s mind.',
    }),
  ),
});
