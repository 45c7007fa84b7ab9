import type { App } from '../../src/app.ts';
import { prefersJson } from '../accept.ts';
import type { Handlers } from '../bind.ts';

type Routes =
  | 'listCheckpoints'
  | 'createCheckpoint'
  | 'getCheckpoint'
  | 'getCheckpointDiff'
  | 'deleteCheckpoint'
  | 'restoreWorkspace';

export const checkpointRoutes = ({ checkpoints }: App): Pick<Handlers, Routes> => ({
  listCheckpoints: ({ path }, { principal, paging }) =>
    checkpoints.list(principal.organization_id, path.workspace_id, paging()),
  createCheckpoint: ({ path, body }, { principal, tx }) =>
    checkpoints.create(tx, principal.organization_id, path.workspace_id, body),
  getCheckpoint: ({ path }, { principal }) => checkpoints.get(principal.organization_id, path.checkpoint_id),

  async getCheckpointDiff({ path: { checkpoint_id }, query, headers }, { principal: { organization_id }, signal }) {
    const against = (query.against ?? 'workspace').toLowerCase();
    const isJson = prefersJson(headers.accept, 'text/x-diff');
    const body = Buffer.from(
      isJson
        ? JSON.stringify(await checkpoints.difference(organization_id, checkpoint_id, against, signal))
        : await checkpoints.compare(organization_id, checkpoint_id, against, signal),
    );
    const type = isJson ? 'application/json; charset=utf-8' : 'text/x-diff; charset=utf-8';
    return {
      status: 200,
      headers: { 'content-type': type, 'content-length': String(body.length), vary: 'Accept' },
      body,
    };
  },

  deleteCheckpoint: ({ path }, { principal, tx }) =>
    checkpoints.remove(tx, principal.organization_id, path.checkpoint_id),
  restoreWorkspace: ({ path, body }, { principal, tx }) =>
    checkpoints.restore(tx, principal.organization_id, path.workspace_id, body),
});
