import { Type, type Static } from 'typebox';
import { input, Metadata, Name, named, nullable, paging, resource, Time } from './common.ts';

export const Project = named(
  'Project',
  {
    ...resource,
    name: Type.String(),
    description: nullable(Type.String()),
    persistence: Type.Enum(['persistent', 'ephemeral']),
    status: Type.Enum(['active', 'archiving', 'archived']),
    archived: Type.Boolean(),
    archived_at: nullable(Time),
    delete_after: nullable(Time),
    metadata: Metadata,
  },
  'Holds workspaces and their runs. Archiving keeps files and history.',
);
export type Project = Static<typeof Project>;

export const ProjectCreate = input('ProjectCreate', {
  name: Name,
  persistence: Type.Optional(Type.Enum(['persistent', 'ephemeral'])),
  description: Type.Optional(nullable(Type.String({ maxLength: 4096 }))),
  metadata: Type.Optional(Metadata),
});
export type ProjectCreate = Static<typeof ProjectCreate>;

export const ProjectPatch = input('ProjectPatch', {
  name: Type.Optional(Name),
  description: Type.Optional(nullable(Type.String({ maxLength: 4096 }))),
  metadata: Type.Optional(Metadata),
  archived: Type.Optional(Type.Literal(false, { description: 'Takes the project out of the archive.' })),
});
export type ProjectPatch = Static<typeof ProjectPatch>;

export const ProjectDeletion = input('ProjectDeletion', {
  after_seconds: Type.Optional(Type.Integer({ minimum: 0, maximum: 31_536_000, default: 604_800 })),
});

export const ProjectList = Type.Object({
  ...paging,
  query: Type.Optional(Type.String({ maxLength: 120, description: 'Part of the name, upper and lower case alike.' })),
  archived: Type.Optional(Type.Boolean({ description: 'Only archived ones, or only the others. Both when absent.' })),
});
