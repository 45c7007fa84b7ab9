import { Type, type Static } from 'typebox';
import { input, named, nullable, paging, resource, Time, Uuid } from './common.ts';

/** What a write may hold, and a read without `download`, in bytes. */
export const maxDirectBytes = 4_194_304;
/** What a staged transfer may hold, in bytes. */
export const maxStagedBytes = 26_214_400;

/** The path of a file. Its grammar is checked where it is used, as `invalid_path`. */
const FilePath = Type.String({
  description: 'Relative to the workspace: POSIX separators, no `.` or `..`, at most 4096 bytes.',
});
const Sha256 = Type.String({ pattern: '^[0-9a-fA-F]{64}$' });

export const FileEntry = named('FileEntry', {
  path: Type.String(),
  name: Type.String(),
  type: Type.Enum(['file', 'directory', 'symlink']),
  size_bytes: nullable(Type.Integer({ description: 'Of a file.' })),
  etag: nullable(Type.String({ description: 'Of a file; null where it is large and was not read yet.' })),
  executable: Type.Boolean(),
  modified_at: Time,
  media_type: nullable(Type.String({ description: 'What a file’s name promises.' })),
});
export type FileEntry = Static<typeof FileEntry>;

export const FileListing = named(
  'FileListing',
  {
    workspace_id: Uuid,
    revision: Type.Integer({ description: 'Of the workspace when the listing was made.' }),
    path: Type.String(),
    data: Type.Array(FileEntry),
    next_cursor: nullable(Type.String()),
  },
  'One folder of a workspace, or everything below it, in ascending order.',
);
export type FileListing = Static<typeof FileListing>;

export const FileList = Type.Object({
  ...paging,
  path: Type.Optional(Type.String({ default: '', description: 'The folder; the workspace itself when empty.' })),
  query: Type.Optional(
    Type.String({
      maxLength: 4096,
      description: 'Only what has this in its relative path, in any case, at any depth.',
    }),
  ),
  recursive: Type.Optional(Type.Boolean({ default: false, description: 'Everything below the folder.' })),
});

export const FileRead = Type.Object({
  path: FilePath,
  download: Type.Optional(Type.Boolean({ default: false, description: 'Answer 302 to a private URL, for any size.' })),
});

export const FileWrite = Type.Object({
  path: FilePath,
  transfer_id: Type.Optional(
    Type.String({ format: 'uuid', description: 'Take the bytes of this transfer; send no body.' }),
  ),
});

export const FileDelete = Type.Object({ path: FilePath });

export const FileReadHeaders = Type.Object({
  'if-none-match': Type.Optional(Type.String({ description: 'Answer 304 when the file has one of these ETags.' })),
  range: Type.Optional(Type.String({ description: '`bytes=from-to`: answer 206 with this part.' })),
  'if-range': Type.Optional(Type.String({ description: 'Heed Range only while the file has this ETag.' })),
});

export const FilePrecondition = Type.Object({
  'if-match': Type.Optional(
    Type.String({
      description: 'Required: ETags of which the file must have one, `*` for any file, `"absent"` for none yet.',
    }),
  ),
  'if-none-match': Type.Optional(Type.String({ description: '`*` may stand in place of `If-Match: "absent"`.' })),
});

export const FileWriteHeaders = Type.Object({
  ...FilePrecondition.properties,
  'x-file-executable': Type.Optional(
    Type.Enum(['true', 'false'], { description: 'Sets the bit; without it a file keeps its mode.' }),
  ),
});

export const TransferCreate = input('TransferCreate', {
  path: FilePath,
  size_bytes: Type.Integer({ minimum: 0, maximum: maxStagedBytes }),
  sha256: Sha256,
});
export type TransferCreate = Static<typeof TransferCreate>;

export const Transfer = named(
  'Transfer',
  {
    ...resource,
    workspace_id: Uuid,
    path: Type.String(),
    size_bytes: Type.Integer(),
    sha256: Type.String(),
    status: Type.Enum(['pending', 'uploaded', 'used']),
    upload_url: Type.String({ description: 'PUT the raw bytes here, without a credential, before it expires.' }),
    expires_at: Time,
  },
  'A large file on its way into a workspace: create, PUT to upload_url, then write the file with transfer_id.',
);
export type Transfer = Static<typeof Transfer>;
