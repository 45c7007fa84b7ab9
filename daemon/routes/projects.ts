import type { App } from '../../src/app.ts';
import type { Handlers } from '../bind.ts';

type Routes =
  | 'listProjects'
  | 'createProject'
  | 'getProject'
  | 'updateProject'
  | 'deleteProject'
  | 'scheduleProjectDeletion'
  | 'cancelProjectDeletion';

export const projectRoutes = ({ projects }: App): Pick<Handlers, Routes> => ({
  listProjects: ({ query }, { principal, paging }) => projects.list(principal.organization_id, query, paging()),
  createProject: ({ body }, { principal, tx }) => projects.create(tx, principal.organization_id, body),
  getProject: ({ path }, { principal }) => projects.get(principal.organization_id, path.project_id),
  updateProject: ({ path, body }, { principal, tx }) =>
    projects.update(tx, principal.organization_id, path.project_id, body),
  deleteProject: ({ path }, { principal, tx }) => projects.archive(tx, principal.organization_id, path.project_id),
  scheduleProjectDeletion: ({ path, body }, { principal, tx }) =>
    projects.scheduleDeletion(tx, principal.organization_id, path.project_id, body.after_seconds ?? 604_800),
  cancelProjectDeletion: ({ path }, { principal, tx }) =>
    projects.cancelDeletion(tx, principal.organization_id, path.project_id),
});
