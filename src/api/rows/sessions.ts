import { page } from '../common.ts';
import { type Endpoint, row } from '../endpoint.ts';
import { RunAccepted } from '../runs.ts';
import { MessageCreate, Session, SessionCreate, SessionFork, SessionList, SessionPatch } from '../sessions.ts';

const MiB = 1_048_576;

/** Sessions. */
export const sessionRows = {
  listSessions: row('GET /v1/sessions', {
    summary: 'List sessions, newest first',
    scope: 'runs:read',
    query: SessionList,
    status: 200,
    reply: page(Session),
  }),
  createSession: row('POST /v1/sessions', {
    summary: 'Begin a conversation, without a run yet',
    scope: 'runs:write',
    body: SessionCreate,
    status: 201,
    reply: Session,
  }),
  getSession: row('GET /v1/sessions/{session_id}', {
    summary: 'Get a session',
    scope: 'runs:read',
    status: 200,
    reply: Session,
  }),
  updateSession: row('PATCH /v1/sessions/{session_id}', {
    summary: 'Give a session another title, archive it or take it out of the archive',
    scope: 'runs:write',
    body: SessionPatch,
    status: 200,
    reply: Session,
  }),
  continueSession: row('POST /v1/sessions/{session_id}/messages', {
    summary: 'Send the next message of a conversation, which starts a run',
    scope: 'runs:write',
    body: MessageCreate,
    maxBytes: 8 * MiB,
    status: 202,
    reply: RunAccepted,
  }),
  forkSession: row('POST /v1/sessions/{session_id}/fork', {
    summary: 'Begin a conversation that goes on after a run of this one, with the files as they were then',
    scope: 'runs:write',
    body: SessionFork,
    status: 201,
    reply: Session,
  }),
} as const satisfies Record<string, Endpoint>;
