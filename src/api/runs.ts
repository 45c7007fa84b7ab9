import { Type, type Static } from 'typebox';
import {
  input,
  Metadata,
  Money,
  named,
  nullable,
  paging,
  resource,
  ResourceError,
  Time,
  timeRange,
  Uuid,
} from './common.ts';
import { InputRequest } from './inputs.ts';
import { Network } from './network.ts';
import { Usage } from './usage.ts';
import { WebhookEndpointIds } from './webhooks.ts';

export const runStatuses = [
  'queued',
  'running',
  'awaiting_input',
  'cancelling',
  'completed',
  'failed',
  'cancelled',
] as const;
export type RunStatus = (typeof runStatuses)[number];

/** The statuses that a run never leaves. */
export const terminalStatuses = ['completed', 'failed', 'cancelled'] as const;
export type TerminalStatus = (typeof terminalStatuses)[number];
/** Whether a run of this status will never change again. */
export const isTerminal = (status: RunStatus): status is TerminalStatus =>
  (terminalStatuses as readonly string[]).includes(status);

export const stopReasons = [
  'end_turn',
  'cancelled',
  'time_limit',
  'cost_limit',
  'credits_exhausted',
  'turn_limit',
  'input_rejected',
  'input_expired',
  'harness_failed',
  'harness_lost',
  'harness_stalled',
  'provider_error',
] as const;
export type StopReason = (typeof stopReasons)[number];

export type RunErrorCode =
  | 'time_limit_exceeded'
  | 'cost_limit_exceeded'
  | 'insufficient_credits'
  | 'harness_not_found'
  | 'harness_failed'
  | 'harness_lost'
  | 'harness_stalled'
  | 'provider_auth'
  | 'provider_rate_limited'
  | 'provider_error'
  | 'input_expired'
  | 'workspace_failed'
  | 'internal_error';

export const RunLimits = named('RunLimits', {
  timeout_seconds: Type.Optional(Type.Integer({ minimum: 1, maximum: 604_800 })),
  max_cost_micro_usd: Type.Optional(Money),
  max_turns: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000 })),
});
export type RunLimits = Static<typeof RunLimits>;

export const PermissionMode = Type.Enum(['ask', 'accept_edits', 'full']);
export type PermissionMode = Static<typeof PermissionMode>;
export const OnInput = Type.Enum(['ask', 'reject', 'fail']);
export type OnInput = Static<typeof OnInput>;

/** What becomes of a run whose session is at work. */
export const OnBusy = Type.Enum(['queue', 'reject', 'interrupt'], {
  description:
    'While a run of the session has not ended: wait in order (the default), answer 409 session_busy, or stop the run that has begun.',
});

export const RunCreate = input('RunCreate', {
  session_id: Type.Optional(Uuid),
  workspace_id: Type.Optional(Uuid),
  project_id: Type.Optional(Uuid),
  agent_id: Type.Optional(Uuid),
  agent_revision: Type.Optional(Type.Integer({ minimum: 1, description: 'The newest when absent.' })),
  harness: Type.Optional(Type.String({ minLength: 1, maxLength: 64 })),
  model: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
  prompt: Type.String({ minLength: 1, maxLength: 1_048_576 }),
  billing_mode: Type.Optional(Type.Enum(['managed', 'external'])),
  limits: Type.Optional(RunLimits),
  permission_mode: Type.Optional(PermissionMode),
  on_input: Type.Optional(OnInput),
  input_timeout_seconds: Type.Optional(Type.Integer({ minimum: 1, maximum: 604_800, default: 86_400 })),
  sandbox: Type.Optional(Type.Enum(['auto', 'none', 'required'])),
  network: Type.Optional(Network),
  checkpoint: Type.Optional(
    Type.Object(
      {
        before: Type.Optional(Type.Boolean({ default: true })),
        after: Type.Optional(Type.Boolean({ default: true })),
      },
      { additionalProperties: false, description: 'Whether the tree is kept before the run and after it.' },
    ),
  ),
  output_schema: Type.Optional(
    Type.Record(Type.String(), Type.Unknown(), {
      description:
        'A JSON Schema (2020-12, or draft-07 where $schema says so) that the final answer must fit; at most 64 KiB and 32 levels.',
    }),
  ),
  artifacts: Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 1024 }), {
      maxItems: 32,
      description:
        'Globs, from the workspace’s root, of files to keep when the run has ended: `*`, `?`, `**`, `[a-z]`, `{one,two}`. `*` and `**` stand for no names with a dot at their beginning.',
    }),
  ),
  webhook_endpoint_ids: Type.Optional(WebhookEndpointIds),
  on_busy: Type.Optional(OnBusy),
  metadata: Type.Optional(Metadata),
});
export type RunCreate = Static<typeof RunCreate>;

export const Isolation = named('Isolation', {
  level: Type.Enum(['none', 'bubblewrap', 'seatbelt', 'container']),
  filesystem_enforced: Type.Boolean(),
  network_enforced: Type.Boolean(),
});
export type Isolation = Static<typeof Isolation>;
/** Nothing is enforced: the run can do whatever the account can. */
export const noIsolation: Isolation = { level: 'none', filesystem_enforced: false, network_enforced: false };

export const CheckpointIds = Type.Object(
  { before: nullable(Uuid), after: nullable(Uuid) },
  { additionalProperties: false },
);

export const Run = named(
  'Run',
  {
    ...resource,
    run_id: Uuid,
    session_id: Uuid,
    workspace_id: Uuid,
    project_id: Uuid,
    agent_id: nullable(Uuid),
    agent_revision: nullable(Type.Integer()),
    harness: Type.String(),
    model: nullable(Type.String()),
    prompt: Type.String(),
    billing_mode: Type.Enum(['managed', 'external']),
    limits: RunLimits,
    permission_mode: PermissionMode,
    on_input: OnInput,
    input_timeout_seconds: Type.Integer(),
    sandbox: Type.Enum(['auto', 'none', 'required']),
    network: Network,
    checkpoint: Type.Object({ before: Type.Boolean(), after: Type.Boolean() }, { additionalProperties: false }),
    output_schema: nullable(Type.Record(Type.String(), Type.Unknown())),
    artifacts: Type.Array(Type.String()),
    webhook_endpoint_ids: nullable(Type.Array(Uuid)),
    metadata: Metadata,
    status: Type.Enum([...runStatuses]),
    stop_reason: nullable(Type.Enum([...stopReasons])),
    error: nullable(ResourceError),
    pending_input: Type.Array(InputRequest),
    usage: Usage,
    isolation: nullable(Isolation),
    checkpoint_ids: CheckpointIds,
    last_sequence: Type.Integer(),
    queued_at: Time,
    started_at: nullable(Time),
    finished_at: nullable(Time),
    attempt: Type.Integer(),
  },
  'One piece of work by one harness in one workspace.',
);
export type Run = Static<typeof Run>;

export const RunAccepted = named('RunAccepted', {
  run_id: Uuid,
  id: Uuid,
  session_id: Uuid,
  workspace_id: Uuid,
  project_id: Uuid,
  status: Type.Enum([...runStatuses]),
});
export type RunAccepted = Static<typeof RunAccepted>;

export const FileChange = named('FileChange', {
  path: Type.String(),
  change: Type.Enum(['added', 'modified', 'deleted']),
  additions: nullable(Type.Integer()),
  deletions: nullable(Type.Integer()),
});
export type FileChange = Static<typeof FileChange>;

export const Changes = named('Changes', {
  files: Type.Array(FileChange),
  additions: nullable(Type.Integer()),
  deletions: nullable(Type.Integer()),
});
export type Changes = Static<typeof Changes>;

export const RunResult = named(
  'RunResult',
  {
    run_id: Uuid,
    status: Type.Enum([...runStatuses]),
    final: Type.Boolean({ description: 'True exactly in a terminal status; only then is the result complete.' }),
    text: nullable(Type.String()),
    structured_output: nullable(Type.Unknown()),
    stop_reason: nullable(Type.Enum([...stopReasons])),
    error: nullable(ResourceError),
    usage: Usage,
    changes: Changes,
    artifact_ids: Type.Array(Uuid),
    checkpoint_ids: CheckpointIds,
    last_sequence: Type.Integer(),
  },
  'What came of a run, so far or for good.',
);
export type RunResult = Static<typeof RunResult>;

export const RunList = Type.Object({
  ...paging,
  ...timeRange,
  status: Type.Optional(Type.String({ description: `A comma list of ${runStatuses.join(', ')}.` })),
  project_id: Type.Optional(Uuid),
  workspace_id: Type.Optional(Uuid),
  session_id: Type.Optional(Uuid),
  idempotency_key: Type.Optional(
    Type.String({ pattern: '^[\\x21-\\x7e]{1,255}$', description: 'The run that was created with this key.' }),
  ),
});

export const Empty = Type.Object({}, { additionalProperties: false });
