import type { App } from '../../src/app.ts';
import type { Handlers } from '../bind.ts';

export const sessionRoutes = ({ sessions }: App): Pick<Handlers, 'listSessions' | 'getSession'> => ({
  listSessions: ({ query }, { principal, paging }) =>
    sessions.list(principal.organization_id, query.workspace_id, paging()),
  getSession: ({ path }, { principal }) => sessions.get(principal.organization_id, path.session_id),
});
