import { Type } from 'typebox';
import {
  Checkpoint,
  CheckpointCreate,
  CheckpointDiff,
  CheckpointDiffQuery,
  DiffHeaders,
  RestoreRequest,
} from '../checkpoints.ts';
import { page, paging } from '../common.ts';
import { Operation } from '../operations.ts';
import { type Endpoint, row } from '../endpoint.ts';

const Paging = Type.Object(paging);

/** Checkpoints of workspaces, and going back to one. */
export const checkpointRows = {
  listCheckpoints: row('GET /v1/workspaces/{workspace_id}/checkpoints', {
    summary: 'List the checkpoints of a workspace, newest first',
    scope: 'files:read',
    query: Paging,
    status: 200,
    reply: page(Checkpoint),
  }),
  createCheckpoint: row('POST /v1/workspaces/{workspace_id}/checkpoints', {
    summary: 'Keep the whole tree as it is now',
    scope: 'files:write',
    body: CheckpointCreate,
    status: 202,
    reply: Operation,
  }),
  getCheckpoint: row('GET /v1/checkpoints/{checkpoint_id}', {
    summary: 'Get a checkpoint',
    scope: 'files:read',
    status: 200,
    reply: Checkpoint,
  }),
  deleteCheckpoint: row('DELETE /v1/checkpoints/{checkpoint_id}', {
    summary: 'Remove a checkpoint for good',
    scope: 'files:write',
    status: 202,
    reply: Operation,
  }),
  getCheckpointDiff: row('GET /v1/checkpoints/{checkpoint_id}/diff', {
    summary:
      'Get what differs from a checkpoint to another one, or to the files now: a unified diff, or JSON by Accept',
    scope: 'files:read',
    query: CheckpointDiffQuery,
    headers: DiffHeaders,
    status: 200,
    replyBytes: true,
    replyType: 'text/x-diff',
    reply: CheckpointDiff,
  }),
  restoreWorkspace: row('POST /v1/workspaces/{workspace_id}/restore', {
    summary: 'Make the tree, or parts of it, what it was at a checkpoint',
    scope: 'files:write',
    body: RestoreRequest,
    status: 202,
    reply: Operation,
  }),
} as const satisfies Record<string, Endpoint>;
