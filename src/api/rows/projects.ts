import { page } from '../common.ts';
import { Operation } from '../operations.ts';
import { Project, ProjectCreate, ProjectDeletion, ProjectList, ProjectPatch } from '../projects.ts';
import { type Endpoint, row } from '../endpoint.ts';

/** Projects. */
export const projectRows = {
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
} as const satisfies Record<string, Endpoint>;
