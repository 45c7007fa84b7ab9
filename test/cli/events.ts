import type { Event } from '../../src/api/client.ts';
import type { EventData, EventType } from '../../src/api/events.ts';
import type { InputRequest } from '../../src/api/inputs.ts';
import { noUsage } from '../../src/api/figures.ts';
import type { Usage } from '../../src/api/usage.ts';

const runId = '019a3b2c-4d5e-7000-8000-000000000001';
const began = Date.parse('2026-01-02T03:04:05.000Z');

/** Usage with the figures that matter in a test. */
export const usage = (some: Partial<Usage> = {}): Usage => ({
  ...noUsage,
  ...some,
});

/** A question of an agent about a command. */
export const permission = (some: Partial<InputRequest> = {}): InputRequest => ({
  id: '019a3b2c-4d5e-7000-8000-00000000000a',
  organization_id: runId,
  created_at: new Date(began).toISOString(),
  updated_at: new Date(began).toISOString(),
  run_id: runId,
  kind: 'permission',
  title: 'Run a command?',
  message: 'rm -rf build && npm run build',
  tool_call_id: null,
  options: [
    { id: 'once', label: 'Allow once', kind: 'allow_once' },
    { id: 'always', label: 'Always allow rm', kind: 'allow_always' },
    { id: 'no', label: 'Reject', kind: 'reject_once' },
  ],
  allow_text: false,
  schema: null,
  grant: null,
  status: 'pending',
  answer: null,
  answered_by: null,
  expires_at: new Date(began + 86_400_000).toISOString(),
  ...some,
});

/** A type and its data, 100 ms after the one before. */
export type Step = { [T in EventType]: [type: T, data: EventData[T]] }[EventType];

/** Events of one run, numbered from `first`. */
export const events = (steps: Step[], first = 1): Event[] =>
  steps.map(([type, data], n) => {
    const sequence = first + n;
    const created_at = new Date(began + sequence * 100).toISOString();
    return {
      id: String(sequence),
      sequence,
      run_id: runId,
      session_id: runId,
      type,
      source: 'harness',
      created_at,
      data,
    } as Event;
  });

/** The beginning of a run that has a harness. */
export const started = (harness = 'claude', model: string | null = 'sonnet-4.5'): Step[] => [
  ['run.queued', { blocked_by: null }],
  [
    'run.started',
    {
      harness,
      harness_version: '2.1.0',
      harness_path: '/usr/bin/claude-agent-acp',
      model,
      agent_id: null,
      agent_revision: null,
      workspace_revision: 1,
      isolation: { level: 'bubblewrap', filesystem_enforced: true, network_enforced: false },
      attempt: 1,
    },
  ],
  ['run.status_changed', { from: 'queued', to: 'running', reason: 'started' }],
];

/** A tool call from its start to its end. */
export const tool = (id: string, title: string, output: string, exit_code = 0): Step[] => [
  [
    'tool.started',
    { tool_call_id: id, name: 'bash', title, category: 'execute', input: {}, locations: [], connection_id: null },
  ],
  ['tool.output', { tool_call_id: id, stream: 'stdout', text: output, truncated: false }],
  [
    'tool.completed',
    { tool_call_id: id, status: exit_code === 0 ? 'completed' : 'failed', exit_code, output, duration_ms: 1200 },
  ],
];

/** The end of a run. */
export const completed = (some: Partial<Usage> = {}): Step => [
  'run.completed',
  {
    stop_reason: 'end_turn',
    error: null,
    usage: usage({
      duration_ms: 63_000,
      input_tokens: 12_000,
      output_tokens: 345,
      tool_calls: 2,
      cost_micro_usd: '123400',
      ...some,
    }),
  },
];

export { runId };
