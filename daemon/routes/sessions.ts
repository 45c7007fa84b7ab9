import type { App } from '../../src/app.ts';
import type { Handlers } from '../bind.ts';
import { callerOf, assertTaking, toldOf } from './runs.ts';

type Routes = 'listSessions' | 'createSession' | 'getSession' | 'updateSession' | 'continueSession' | 'forkSession';

export const sessionRoutes = (app: App): Pick<Handlers, Routes> => {
  const { sessions, conversations, supervisor } = app;
  return {
    listSessions: ({ query }, { principal, paging }) =>
      sessions.list(principal.organization_id, query.workspace_id, paging()),
    createSession: ({ body }, { principal, tx }) => conversations.create(tx, principal.organization_id, body),
    getSession: ({ path }, { principal }) => sessions.get(principal.organization_id, path.session_id),
    updateSession: ({ path, body }, { principal, tx }) =>
      sessions.update(tx, principal.organization_id, path.session_id, body),
    continueSession({ path, body }, { principal, tx }) {
      assertTaking(supervisor);
      const { organization_id } = principal;
      return conversations.send(
        tx,
        organization_id,
        path.session_id,
        toldOf(app, organization_id, body),
        callerOf(principal),
      );
    },
    forkSession: ({ path, body }, { principal, tx }) =>
      conversations.fork(tx, principal.organization_id, path.session_id, body),
  };
};
