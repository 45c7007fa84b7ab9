import type { App } from '../../src/app.ts';
import type { Handlers } from '../bind.ts';

type Routes = 'listCheckpoints' | 'createCheckpoint' | 'getCheckpoint' | 'deleteCheckpoint' | 'restoreWorkspace';

export const checkpointRoutes = ({ checkpoints }: App): Pick<Handlers, Routes> => ({
  listCheckpoints: ({ path }, { principal, paging }) =>
    checkpoints.list(principal.organization_id, path.workspace_id, paging()),
  createCheckpoint: ({ path, body }, { principal, tx }) =>
    checkpoints.create(tx, principal.organization_id, path.workspace_id, body),
  getCheckpoint: ({ path }, { principal }) => checkpoints.get(principal.organization_id, path.checkpoint_id),
  deleteCheckpoint: ({ path }, { principal, tx }) =>
    checkpoints.remove(tx, principal.organization_id, path.checkpoint_id),
  restoreWorkspace: ({ path, body }, { principal, tx }) =>
    checkpoints.restore(tx, principal.organization_id, path.workspace_id, body),
});
