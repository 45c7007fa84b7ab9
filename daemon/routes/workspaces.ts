import type { App } from '../../src/app.ts';
import type { Handlers } from '../bind.ts';

type Routes =
  | 'listWorkspaces'
  | 'createWorkspace'
  | 'getWorkspace'
  | 'updateWorkspace'
  | 'deleteWorkspace'
  | 'cancelWorkspaceDeletion';

export const workspaceRoutes = ({ projects, workspaces }: App): Pick<Handlers, Routes> => ({
  listWorkspaces: ({ path }, { principal, paging }) =>
    workspaces.list(projects.get(principal.organization_id, path.project_id).id, paging()),
  createWorkspace: ({ path, body }, { principal, tx }) => {
    const project = projects.getActive(principal.organization_id, path.project_id);
    return workspaces.create(tx, project, body, principal.credential === 'session').operation;
  },
  getWorkspace: ({ path }, { principal }) => workspaces.use(principal.organization_id, path.workspace_id),
  updateWorkspace: ({ path, body }, { principal, tx }) =>
    workspaces.update(tx, principal.organization_id, path.workspace_id, body),
  deleteWorkspace: ({ path, query }, { principal, tx }) =>
    workspaces.scheduleDeletion(tx, principal.organization_id, path.workspace_id, query.after_seconds ?? 86_400),
  cancelWorkspaceDeletion: ({ path }, { principal, tx }) =>
    workspaces.cancelDeletion(tx, principal.organization_id, path.workspace_id),
});
