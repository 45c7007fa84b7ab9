import {
  FileDelete,
  FileList,
  FileListing,
  FilePrecondition,
  FileRead,
  FileReadHeaders,
  FileWrite,
  FileWriteHeaders,
  maxDirectBytes,
  Transfer,
  TransferCreate,
} from '../files.ts';
import { Operation } from '../operations.ts';
import { type Endpoint, row } from '../endpoint.ts';

/** Files of workspaces. */
export const fileRows = {
  listFiles: row('GET /v1/workspaces/{workspace_id}/files', {
    summary: 'List a folder, or search all below it, in ascending order',
    scope: 'files:read',
    query: FileList,
    status: 200,
    reply: FileListing,
  }),
  readFile: row('GET /v1/workspaces/{workspace_id}/file', {
    summary: 'Read a file',
    scope: 'files:read',
    query: FileRead,
    headers: FileReadHeaders,
    status: 200,
    replyBytes: true,
    also: {
      206: 'The part that Range asks for.',
      302: 'To a private address, for five minutes.',
      304: 'Still the same.',
    },
  }),
  writeFile: row('PUT /v1/workspaces/{workspace_id}/file', {
    summary: 'Write a file of up to 4 MiB, or put a transfer in its place',
    scope: 'files:write',
    query: FileWrite,
    headers: FileWriteHeaders,
    bodyBytes: true,
    maxBytes: maxDirectBytes,
    larger: 'POST /v1/workspaces/{workspace_id}/transfers takes files of up to 25 MiB',
    keyRequired: true,
    status: 202,
    reply: Operation,
  }),
  deleteFile: row('DELETE /v1/workspaces/{workspace_id}/file', {
    summary: 'Delete a file',
    scope: 'files:write',
    query: FileDelete,
    headers: FilePrecondition,
    keyRequired: true,
    status: 202,
    reply: Operation,
  }),
  createTransfer: row('POST /v1/workspaces/{workspace_id}/transfers', {
    summary: 'Announce a file of up to 25 MiB, to be uploaded to a private address',
    scope: 'files:write',
    body: TransferCreate,
    status: 201,
    reply: Transfer,
  }),
} as const satisfies Record<string, Endpoint>;
