import { Type, type Static } from 'typebox';
import { named, resource, Time, Uuid } from './common.ts';

const artifactKinds = ['file', 'diff', 'transcript', 'output'] as const;
/** `file` was asked for; the others are the daemon's own. */
export type ArtifactKind = (typeof artifactKinds)[number];

export const Artifact = named(
  'Artifact',
  {
    ...resource,
    run_id: Uuid,
    workspace_id: Uuid,
    name: Type.String({ description: 'The last segment of its path.' }),
    path: Type.String({ description: 'In the workspace, in $AGENTCTL_ARTIFACTS, or in a list of the daemon’s own.' }),
    kind: Type.Enum([...artifactKinds], {
      description:
        '`file`: named by a glob, or put into $AGENTCTL_ARTIFACTS. `diff`: what GET /v1/runs/{run_id}/diff answers. `transcript`: the run’s events, one a line. `output`: all that a tool call printed, where events do not hold it.',
    }),
    media_type: Type.String({ description: 'What its name promises.' }),
    size_bytes: Type.Integer(),
    sha256: Type.String(),
  },
  'What a run has left, as it was when the run ended.',
);
export type Artifact = Static<typeof Artifact>;

export const Download = named(
  'Download',
  {
    url: Type.String({ description: 'GET it without a credential, with Range if wanted, before it expires.' }),
    expires_at: Time,
    size_bytes: Type.Integer(),
    sha256: Type.String(),
    media_type: Type.String(),
    file_name: Type.String(),
  },
  'A short-lived address of an artifact’s bytes.',
);
export type Download = Static<typeof Download>;
