import type { App } from '../../src/app.ts';
import type { Handlers } from '../bind.ts';

type Routes = 'listArtifacts' | 'getArtifact' | 'downloadArtifact';

export const artifactRoutes = ({ runs, artifacts }: App): Pick<Handlers, Routes> => ({
  listArtifacts({ path }, { principal, paging }) {
    runs.find(principal.organization_id, path.run_id);
    return artifacts.list(path.run_id, paging());
  },
  getArtifact: ({ path }, { principal }) => artifacts.get(principal.organization_id, path.artifact_id),
  downloadArtifact: ({ path }, { principal, origin }) =>
    artifacts.download(principal.organization_id, path.artifact_id, origin),
});
