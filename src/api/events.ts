import { Type, type Static } from 'typebox';
import type { Artifact } from './artifacts.ts';
import type { CheckpointTrigger } from './checkpoints.ts';
import { named, paging, type ResourceError, Time, Uuid } from './common.ts';
import type { InputRequest } from './inputs.ts';
import type { Isolation, RunStatus, StopReason } from './runs.ts';
import type { Usage } from './usage.ts';

export type ToolCategory = 'execute' | 'read' | 'edit' | 'search' | 'fetch' | 'mcp' | 'other';

interface Ended {
  stop_reason: StopReason;
  error: ResourceError | null;
  usage: Usage;
}

/** The payload of each event type (contract section 8). */
export interface EventData {
  'run.queued': { blocked_by: { kind: string; id: string | null } | null };
  'run.started': {
    harness: string;
    harness_version: string | null;
    /** The program that was started; null for one that was not recorded. */
    harness_path: string | null;
    model: string | null;
    agent_id: string | null;
    agent_revision: number | null;
    workspace_revision: number;
    isolation: Isolation;
    attempt: number;
  };
  'run.status_changed': { from: RunStatus; to: RunStatus; reason: string };
  'message.started': { message_id: string; role: string };
  'message.delta': { message_id: string; text: string };
  'message.completed': { message_id: string; role: string; text: string };
  'reasoning.delta': { message_id: string; text: string };
  'reasoning.completed': { message_id: string; text: string };
  'tool.started': {
    tool_call_id: string;
    name: string;
    title: string;
    category: ToolCategory;
    input: unknown;
    locations: string[];
    connection_id: string | null;
  };
  'tool.output': { tool_call_id: string; stream: 'stdout' | 'stderr' | null; text: string; truncated: boolean };
  'tool.completed': {
    tool_call_id: string;
    status: 'completed' | 'failed' | 'rejected';
    exit_code: number | null;
    output: string | null;
    duration_ms: number;
  };
  'plan.updated': { items: { text: string; status: 'pending' | 'in_progress' | 'completed' }[] };
  'file.changed': { changes: { path: string; change: 'added' | 'modified' | 'deleted' }[]; workspace_revision: number };
  'usage.updated': Usage & { limit_percent: { cost: number | null; time: number | null } };
  'limit.warning': { limit: 'cost' | 'time'; percent: number };
  'input.requested': InputRequest;
  'input.resolved': { request_id: string; status: InputRequest['status']; answered_by: string | null };
  'artifact.created': Artifact;
  'checkpoint.created': { checkpoint_id: string; trigger: CheckpointTrigger };
  'retry.scheduled': { attempt: number; max_attempts: number; at: string; reason: string };
  log: { level: 'debug' | 'info' | 'warn' | 'error'; stream: 'stdout' | 'stderr' | 'daemon'; text: string };
  'run.completed': Ended;
  'run.failed': Ended;
  'run.cancelled': Ended;
}
export type EventType = keyof EventData;

export const eventTypes = [
  'run.queued',
  'run.started',
  'run.status_changed',
  'message.started',
  'message.delta',
  'message.completed',
  'reasoning.delta',
  'reasoning.completed',
  'tool.started',
  'tool.output',
  'tool.completed',
  'plan.updated',
  'file.changed',
  'usage.updated',
  'limit.warning',
  'input.requested',
  'input.resolved',
  'artifact.created',
  'checkpoint.created',
  'retry.scheduled',
  'log',
  'run.completed',
  'run.failed',
  'run.cancelled',
] as const satisfies EventType[];

export type EventSource = 'harness' | 'daemon' | 'user';

/** An event as it is stored and sent, discriminated by its type. */
export type Event = {
  [T in EventType]: {
    id: string;
    sequence: number;
    run_id: string;
    session_id: string;
    type: T;
    source: EventSource;
    created_at: string;
    data: EventData[T];
  };
}[EventType];

/** An event before the log has given it a place. */
export type EventDraft = {
  [T in EventType]: { type: T; source: EventSource; created_at: string; data: EventData[T] };
}[EventType];

/** The types after which nothing comes. */
export const terminalEvents: readonly EventType[] = ['run.completed', 'run.failed', 'run.cancelled'];

export const EventSchema = named(
  'Event',
  {
    id: Type.String({ description: 'The sequence, as a string: the id of the server-sent event.' }),
    sequence: Type.Integer({ minimum: 1 }),
    run_id: Uuid,
    session_id: Uuid,
    type: Type.Enum([...eventTypes]),
    source: Type.Enum(['harness', 'daemon', 'user']),
    created_at: Time,
    data: Type.Record(Type.String(), Type.Unknown()),
  },
  'One entry of a run’s durable history. Sequences start at 1 and have no gap.',
);
export type StoredEvent = Static<typeof EventSchema>;

const Sequence = Type.String({ pattern: '^[0-9]+$', description: 'Only what came after this sequence.' });

export const EventList = Type.Object({
  ...paging,
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000, default: 100, description: 'How many, at most.' })),
  after: Type.Optional(Sequence),
});

export const EventStream = Type.Object({ after: Type.Optional(Sequence) });
