import { Type } from 'typebox';
import { page, paging } from '../common.ts';
import { Operation } from '../operations.ts';
import { Workspace, WorkspaceCreate, WorkspaceDelete, WorkspacePatch } from '../workspaces.ts';
import { type Endpoint, row } from '../endpoint.ts';

const Paging = Type.Object(paging);

/** Workspaces. */
export const workspaceRows = {
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
} as const satisfies Record<string, Endpoint>;
