import { page } from '../common.ts';
import { type Endpoint, row } from '../endpoint.ts';
import { Grant, GrantList } from '../grants.ts';

/** What was allowed for good. */
export const grantRows = {
  listGrants: row('GET /v1/grants', {
    summary: 'List what was allowed for good, newest first',
    scope: 'runs:read',
    query: GrantList,
    status: 200,
    reply: page(Grant),
  }),
  deleteGrant: row('DELETE /v1/grants/{grant_id}', {
    summary: 'Take a permission back: it is asked for again, in runs at work too',
    scope: 'runs:write',
    status: 204,
  }),
} as const satisfies Record<string, Endpoint>;
