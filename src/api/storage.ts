import { Type, type Static } from 'typebox';
import { input, named, nullable, Time, Uuid } from './common.ts';

const kinds = ['database', 'checkpoints', 'caches', 'workspaces', 'runs', 'artifacts', 'logs', 'other'] as const;
/** What takes room on the disk. */
export type StorageKind = (typeof kinds)[number];

const Bytes = Type.Integer({ minimum: 0 });

export const Storage = named(
  'Storage',
  {
    computed_at: Time,
    disk: Type.Object(
      { free_bytes: Bytes, capacity_bytes: Bytes },
      { additionalProperties: false, description: 'Of the file system that the data lies on.' },
    ),
    total_bytes: Bytes,
    data: Type.Array(
      Type.Object(
        { kind: Type.Enum([...kinds]), bytes: Bytes, files: Type.Integer() },
        { additionalProperties: false },
      ),
    ),
    projects: Type.Array(
      Type.Object(
        { project_id: Uuid, name: nullable(Type.String()), checkpoint_bytes: Bytes, workspace_bytes: Bytes },
        { additionalProperties: false },
      ),
      { description: 'The largest first, at most 100.' },
    ),
    workspaces: Type.Array(
      Type.Object(
        { workspace_id: Uuid, project_id: Uuid, name: Type.String(), bytes: Bytes },
        { additionalProperties: false },
      ),
      { description: 'Those whose files are the daemon’s own, the largest first, at most 100.' },
    ),
  },
  'Where the daemon’s room on the disk goes. Directories that workspaces use in place are the user’s, and not in it.',
);
export type Storage = Static<typeof Storage>;

export const CollectGarbage = input('CollectGarbage', {
  dry_run: Type.Optional(
    Type.Boolean({ default: false, description: 'Say what would be removed, and remove nothing.' }),
  ),
});
