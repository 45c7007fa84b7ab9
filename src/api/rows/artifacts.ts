import { Type } from 'typebox';
import { Artifact, Download } from '../artifacts.ts';
import { page, paging } from '../common.ts';
import { type Endpoint, row } from '../endpoint.ts';

/** What runs have left. */
export const artifactRows = {
  listArtifacts: row('GET /v1/runs/{run_id}/artifacts', {
    summary: 'List what a run has left, newest first',
    scope: 'runs:read',
    query: Type.Object(paging),
    status: 200,
    reply: page(Artifact),
  }),
  getArtifact: row('GET /v1/artifacts/{artifact_id}', {
    summary: 'Get an artifact’s facts',
    scope: 'runs:read',
    status: 200,
    reply: Artifact,
  }),
  downloadArtifact: row('GET /v1/artifacts/{artifact_id}/download', {
    summary: 'Get a short-lived address of an artifact’s bytes',
    scope: 'runs:read',
    status: 200,
    reply: Download,
  }),
} as const satisfies Record<string, Endpoint>;
