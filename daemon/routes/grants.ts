import type { App } from '../../src/app.ts';
import type { Handlers } from '../bind.ts';

export const grantRoutes = ({ grants }: App): Pick<Handlers, 'listGrants' | 'deleteGrant'> => ({
  listGrants: ({ query }, { principal, paging }) => grants.list(principal.organization_id, query.project_id, paging()),
  deleteGrant: ({ path }, { principal, tx }) => grants.remove(tx, principal.organization_id, path.grant_id),
});
