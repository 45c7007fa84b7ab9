import { Type } from 'typebox';
import { page, paging } from '../common.ts';
import { CreditEntry, CreditGrant, Credits } from '../credits.ts';
import { type Endpoint, row } from '../endpoint.ts';
import { UsageQuery, UsageReport } from '../usage-report.ts';

/** What was used, and what there is to spend. */
export const usageRows = {
  getUsage: row('GET /v1/usage', {
    summary: 'What was used, in stretches of time and by whom',
    scope: 'usage:read',
    query: UsageQuery,
    status: 200,
    reply: UsageReport,
  }),
  getCredits: row('GET /v1/credits', {
    summary: 'What the organization has to spend on managed runs',
    scope: 'usage:read',
    status: 200,
    reply: Credits,
  }),
  listCreditEntries: row('GET /v1/credits/ledger', {
    summary: 'List what happened to the credits, newest first',
    scope: 'usage:read',
    query: Type.Object(paging),
    status: 200,
    reply: page(CreditEntry),
  }),
  grantCredits: row('POST /v1/credits/grants', {
    summary: 'Add to the credits (local session only)',
    scope: null,
    body: CreditGrant,
    status: 201,
    reply: CreditEntry,
  }),
} as const satisfies Record<string, Endpoint>;
