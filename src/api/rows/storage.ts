import { type Endpoint, row } from '../endpoint.ts';
import { Operation } from '../operations.ts';
import { CollectGarbage, Storage } from '../storage.ts';

/** Room on the disk. */
export const storageRows = {
  getStorage: row('GET /v1/storage', {
    summary: 'Where the room on the disk goes; computed anew at most every ten seconds',
    scope: 'usage:read',
    status: 200,
    reply: Storage,
  }),
  collectGarbage: row('POST /v1/maintenance/gc', {
    summary: 'Remove expired checkpoints and what no checkpoint needs any more; with the local session only',
    scope: 'files:write',
    body: CollectGarbage,
    status: 202,
    reply: Operation,
  }),
} as const satisfies Record<string, Endpoint>;
