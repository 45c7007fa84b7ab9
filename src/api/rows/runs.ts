import { page } from '../common.ts';
import { EventList, EventSchema, EventStream } from '../events.ts';
import { InputRequest, InputRequestList, RunInput } from '../inputs.ts';
import { Empty, Run, RunAccepted, RunCreate, RunList, RunResult } from '../runs.ts';
import { type Endpoint, row } from '../endpoint.ts';

const MiB = 1_048_576;

/** Runs, their events and what they ask. */
export const runRows = {
  listRuns: row('GET /v1/runs', {
    summary: 'List runs, newest first',
    scope: 'runs:read',
    query: RunList,
    status: 200,
    reply: page(Run),
  }),
  createRun: row('POST /v1/runs', {
    summary: 'Start a run',
    scope: 'runs:write',
    body: RunCreate,
    maxBytes: 8 * MiB,
    status: 202,
    reply: RunAccepted,
  }),
  getRun: row('GET /v1/runs/{run_id}', { summary: 'Get a run', scope: 'runs:read', status: 200, reply: Run }),
  cancelRun: row('POST /v1/runs/{run_id}/cancel', {
    summary: 'Ask a run to stop; asking again changes nothing',
    scope: 'runs:write',
    body: Empty,
    status: 202,
    reply: Run,
  }),
  submitRunInput: row('POST /v1/runs/{run_id}/input', {
    summary: 'Answer a pending question of a run',
    scope: 'runs:write',
    body: RunInput,
    maxBytes: 8 * MiB,
    status: 202,
    reply: Run,
  }),
  getRunResult: row('GET /v1/runs/{run_id}/result', {
    summary: 'Get what came of a run, so far or for good',
    scope: 'runs:read',
    status: 200,
    reply: RunResult,
  }),
  getRunDiff: row('GET /v1/runs/{run_id}/diff', {
    summary: 'Get what a run changed in the files as a unified diff',
    scope: 'runs:read',
    status: 200,
    replyBytes: true,
    replyType: 'text/x-diff',
  }),
  listRunEvents: row('GET /v1/runs/{run_id}/events', {
    summary: 'Page through a run’s history, oldest first',
    scope: 'runs:read',
    query: EventList,
    status: 200,
    reply: page(EventSchema),
  }),
  streamRun: row('GET /v1/runs/{run_id}/stream', {
    summary: 'Follow a run live as server-sent events',
    scope: 'runs:read',
    query: EventStream,
    status: 200,
    stream: true,
  }),
  listInputRequests: row('GET /v1/input-requests', {
    summary: 'List questions to a person over all runs, newest first',
    scope: 'runs:read',
    query: InputRequestList,
    status: 200,
    reply: page(InputRequest),
  }),
} as const satisfies Record<string, Endpoint>;
