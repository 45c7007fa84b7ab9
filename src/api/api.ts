import { Type } from 'typebox';
import {
  Checkpoint,
  CheckpointCreate,
  CheckpointDiff,
  CheckpointDiffQuery,
  DiffHeaders,
  RestoreRequest,
} from './checkpoints.ts';
import { page, paging } from './common.ts';
import { type Endpoint, type Input, type Reply, row } from './endpoint.ts';
import { EventList, EventSchema, EventStream } from './events.ts';
import {
  FileDelete,
  FileList,
  FileListing,
  FilePrecondition,
  FileRead,
  FileReadHeaders,
  FileWrite,
  FileWriteHeaders,
  maxDirectBytes,
  Transfer,
  TransferCreate,
} from './files.ts';
import { InputRequest, InputRequestList, RunInput } from './inputs.ts';
import { Operation, OperationGet, OperationList } from './operations.ts';
import { Project, ProjectCreate, ProjectDeletion, ProjectList, ProjectPatch } from './projects.ts';
import { Empty, Run, RunAccepted, RunCreate, RunList, RunResult } from './runs.ts';
import { Harness, Me, Model } from './server.ts';
import { Session, SessionList } from './sessions.ts';
import { Workspace, WorkspaceCreate, WorkspaceDelete, WorkspacePatch } from './workspaces.ts';

const Paging = Type.Object(paging);
const MiB = 1_048_576;

/** Every operation of /v1 that exists, in the order of the specification, section 4. */
export const api = {
  listProjects: row('GET /v1/projects', {
    summary: 'List projects, newest first',
    scope: 'projects:read',
    query: ProjectList,
    status: 200,
    reply: page(Project),
  }),
  createProject: row('POST /v1/projects', {
    summary: 'Create a project',
    scope: 'projects:write',
    body: ProjectCreate,
    status: 201,
    reply: Project,
  }),
  getProject: row('GET /v1/projects/{project_id}', {
    summary: 'Get a project',
    scope: 'projects:read',
    status: 200,
    reply: Project,
  }),
  updateProject: row('PATCH /v1/projects/{project_id}', {
    summary: 'Change a project’s name, description or metadata, or take it out of the archive',
    scope: 'projects:write',
    body: ProjectPatch,
    status: 200,
    reply: Project,
  }),
  deleteProject: row('DELETE /v1/projects/{project_id}', {
    summary: 'Archive a project once its runs have finished',
    scope: 'projects:write',
    status: 202,
    reply: Operation,
  }),
  scheduleProjectDeletion: row('POST /v1/projects/{project_id}/deletion', {
    summary: 'Schedule the permanent removal of an archived project',
    scope: 'projects:write',
    body: ProjectDeletion,
    status: 202,
    reply: Operation,
  }),
  cancelProjectDeletion: row('DELETE /v1/projects/{project_id}/deletion', {
    summary: 'Take back a scheduled removal',
    scope: 'projects:write',
    status: 200,
    reply: Project,
  }),

  listWorkspaces: row('GET /v1/projects/{project_id}/workspaces', {
    summary: 'List the workspaces of a project, newest first',
    scope: 'projects:read',
    query: Paging,
    status: 200,
    reply: page(Workspace),
  }),
  createWorkspace: row('POST /v1/projects/{project_id}/workspaces', {
    summary: 'Create a workspace',
    scope: 'projects:write',
    body: WorkspaceCreate,
    status: 202,
    reply: Operation,
  }),
  getWorkspace: row('GET /v1/workspaces/{workspace_id}', {
    summary: 'Get a workspace',
    scope: 'projects:read',
    status: 200,
    reply: Workspace,
  }),
  updateWorkspace: row('PATCH /v1/workspaces/{workspace_id}', {
    summary: 'Rename a workspace or change its metadata',
    scope: 'projects:write',
    body: WorkspacePatch,
    status: 200,
    reply: Workspace,
  }),
  deleteWorkspace: row('DELETE /v1/workspaces/{workspace_id}', {
    summary: 'Schedule the removal of a workspace',
    scope: 'projects:write',
    query: WorkspaceDelete,
    status: 202,
    reply: Operation,
  }),
  cancelWorkspaceDeletion: row('DELETE /v1/workspaces/{workspace_id}/deletion', {
    summary: 'Take back a scheduled removal',
    scope: 'projects:write',
    status: 200,
    reply: Workspace,
  }),

  listFiles: row('GET /v1/workspaces/{workspace_id}/files', {
    summary: 'List a folder, or search all below it, in ascending order',
    scope: 'files:read',
    query: FileList,
    status: 200,
    reply: FileListing,
  }),
  readFile: row('GET /v1/workspaces/{workspace_id}/file', {
    summary: 'Read a file',
    scope: 'files:read',
    query: FileRead,
    headers: FileReadHeaders,
    status: 200,
    replyBytes: true,
    also: {
      206: 'The part that Range asks for.',
      302: 'To a private address, for five minutes.',
      304: 'Still the same.',
    },
  }),
  writeFile: row('PUT /v1/workspaces/{workspace_id}/file', {
    summary: 'Write a file of up to 4 MiB, or put a transfer in its place',
    scope: 'files:write',
    query: FileWrite,
    headers: FileWriteHeaders,
    bodyBytes: true,
    maxBytes: maxDirectBytes,
    larger: 'POST /v1/workspaces/{workspace_id}/transfers takes files of up to 25 MiB',
    keyRequired: true,
    status: 202,
    reply: Operation,
  }),
  deleteFile: row('DELETE /v1/workspaces/{workspace_id}/file', {
    summary: 'Delete a file',
    scope: 'files:write',
    query: FileDelete,
    headers: FilePrecondition,
    keyRequired: true,
    status: 202,
    reply: Operation,
  }),
  createTransfer: row('POST /v1/workspaces/{workspace_id}/transfers', {
    summary: 'Announce a file of up to 25 MiB, to be uploaded to a private address',
    scope: 'files:write',
    body: TransferCreate,
    status: 201,
    reply: Transfer,
  }),

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

  listOperations: row('GET /v1/operations', {
    summary: 'List operations, newest first',
    scope: null,
    query: OperationList,
    status: 200,
    reply: page(Operation),
  }),
  getOperation: row('GET /v1/operations/{operation_id}', {
    summary: 'Get an operation, or wait for its end',
    scope: null,
    query: OperationGet,
    status: 200,
    reply: Operation,
  }),

  getMe: row('GET /v1/me', { summary: 'Who is calling, and with which rights', scope: null, status: 200, reply: Me }),
  listModels: row('GET /v1/models', {
    summary: 'List the models that are known, with their prices',
    scope: null,
    query: Paging,
    status: 200,
    reply: page(Model),
  }),
  listHarnesses: row('GET /v1/harnesses', {
    summary: 'List the harnesses, and which of them are installed',
    scope: null,
    query: Paging,
    status: 200,
    reply: page(Harness),
  }),
} as const satisfies Record<string, Endpoint>;

export type Api = typeof api;
export type OperationId = keyof Api;
export type InputOf<Id extends OperationId> = Input<Api[Id]>;
export type ReplyOf<Id extends OperationId> = Reply<Api[Id]>;
