import { page } from '../common.ts';
import { Session, SessionList } from '../sessions.ts';
import { type Endpoint, row } from '../endpoint.ts';

/** Sessions. */
export const sessionRows = {
  listSessions: row('GET /v1/sessions', {
    summary: 'List sessions, newest first',
    scope: 'runs:read',
    query: SessionList,
    status: 200,
    reply: page(Session),
  }),
  getSession: row('GET /v1/sessions/{session_id}', {
    summary: 'Get a session',
    scope: 'runs:read',
    status: 200,
    reply: Session,
  }),
} as const satisfies Record<string, Endpoint>;
