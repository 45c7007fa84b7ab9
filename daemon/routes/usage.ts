import type { App } from '../../src/app.ts';
import type { Handlers } from '../bind.ts';

type Operations = 'getUsage' | 'getCredits' | 'listCreditEntries' | 'grantCredits';

export const usageRoutes = ({ access, credits, usage }: App): Pick<Handlers, Operations> => ({
  getUsage: ({ query }, { principal, textPaging }) => usage.inRange(principal.organization_id, query, textPaging()),
  getCredits: (_input, { principal }) => credits.get(principal.organization_id),
  listCreditEntries: (_input, { principal, paging }) => credits.ledger(principal.organization_id, paging()),
  grantCredits({ body }, { principal, tx }) {
    access.assertOwner(principal, 'Credits are granted');
    return credits.grant(tx, principal.organization_id, body);
  },
});
