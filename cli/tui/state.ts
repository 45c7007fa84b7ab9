import type { Event } from '../../src/api/client.ts';
import type { EventData } from '../../src/api/events.ts';
import type { InputRequest } from '../../src/api/inputs.ts';
import type { Isolation, RunLimits, RunResult, RunStatus } from '../../src/api/runs.ts';
import type { Usage } from '../../src/api/usage.ts';

/** A tool call that goes on. */
export interface Tool {
  id: string;
  title: string;
  category: EventData['tool.started']['category'];
  locations: string[];
  /** The end of its output, at most `outputKept` characters. */
  output: string;
  startedAt: number;
}

/** A finished piece of the transcript: printed once, above the live part. */
export type Block = { key: string } & (
  | { kind: 'prompt'; text: string }
  | { kind: 'started'; harness: string; model: string | null; isolation: Isolation; attempt: number }
  | { kind: 'message' | 'reasoning'; text: string }
  | { kind: 'output'; stream: 'stdout' | 'stderr' | null; text: string }
  | {
      kind: 'tool';
      tool: Tool;
      status: 'completed' | 'failed' | 'rejected';
      exitCode: number | null;
      durationMs: number;
    }
  | { kind: 'answered'; request: InputRequest; status: InputRequest['status']; by: string | null }
  | { kind: 'note'; level: 'info' | 'warn' | 'error'; text: string }
  | { kind: 'summary'; view: Summary }
);

/** How a run ended, with what it changed where that is known. */
export interface Summary {
  runId: string;
  harness: string;
  status: 'completed' | 'failed' | 'cancelled';
  ended: EventData['run.failed'];
  changes: RunResult['changes'] | null;
  files: Files;
  artifacts: Left[];
}

/** A file that the run was asked to leave. */
type Left = Pick<EventData['artifact.created'], 'path' | 'size_bytes'>;

/** Files changed so far, by path. */
export type Files = Record<string, 'added' | 'modified' | 'deleted'>;

/** All that the live view shows, made from events alone. */
export interface View {
  runId: string;
  status: RunStatus;
  harness: string;
  model: string | null;
  limits: RunLimits;
  blocks: Block[];
  message: { id: string; text: string } | null;
  reasoning: { id: string; text: string } | null;
  tools: Tool[];
  plan: EventData['plan.updated']['items'];
  files: Files;
  artifacts: Left[];
  usage: Usage | null;
  percent: { cost: number | null; time: number | null };
  pending: InputRequest[];
  blockedBy: string | null;
  /** Milliseconds since the epoch. */
  startedAt: number | null;
  finishedAt: number | null;
  /** Waiting for a person does not count as working time. */
  waitedMs: number;
  waitingSince: number | null;
  ended: { status: Summary['status']; data: EventData['run.failed'] } | null;
  sequence: number;
}

/** What is known of a run before its first event. */
export interface Start {
  runId: string;
  harness: string;
  model: string | null;
  prompt: string;
  limits: RunLimits;
}

const outputKept = 64 * 1024;

/** The view before the first event. */
export function begin({ runId, harness, model, prompt, limits }: Start): View {
  return {
    runId,
    status: 'queued',
    harness,
    model,
    limits,
    blocks: [{ key: 'prompt', kind: 'prompt', text: prompt }],
    message: null,
    reasoning: null,
    tools: [],
    plan: [],
    files: {},
    artifacts: [],
    usage: null,
    percent: { cost: null, time: null },
    pending: [],
    blockedBy: null,
    startedAt: null,
    finishedAt: null,
    waitedMs: 0,
    waitingSince: null,
    ended: null,
    sequence: 0,
  };
}

/** A block more. */
const add = (view: View, key: string, block: DistributiveOmit<Block, 'key'>): View => ({
  ...view,
  blocks: [...view.blocks, { key, ...block } as Block],
});
type DistributiveOmit<T, K extends keyof T> = T extends unknown ? Omit<T, K> : never;

/** The view after an event. An event that was seen already changes nothing. */
export function reduce(before: View, event: Event): View {
  if (event.sequence <= before.sequence) return before;
  const view = { ...before, sequence: event.sequence };
  const at = Date.parse(event.created_at);
  const key = String(event.sequence);
  const { type, data } = event;
  switch (type) {
    case 'run.queued':
      return { ...view, blockedBy: data.blocked_by ? data.blocked_by.kind : null };
    case 'run.started': {
      const { harness, model, isolation, attempt } = data;
      const started = {
        ...view,
        status: 'running' as const,
        harness,
        model: model ?? view.model,
        blockedBy: null,
        startedAt: at,
      };
      return add(started, key, { kind: 'started', harness, model: started.model, isolation, attempt });
    }
    case 'run.status_changed':
      return moved(view, data.to, at);
    case 'message.started':
      return data.role === 'user'
        ? view
        : { ...finishReasoning(view, key), message: { id: data.message_id, text: '' } };
    case 'message.delta': {
      const text = view.message?.id === data.message_id ? view.message.text : '';
      return { ...finishReasoning(view, key), message: { id: data.message_id, text: text + data.text } };
    }
    case 'message.completed': {
      const done = finishReasoning(view.message?.id === data.message_id ? { ...view, message: null } : view, `${key}r`);
      return data.role === 'user' || data.text.trim() === ''
        ? done
        : add(done, key, { kind: 'message', text: data.text });
    }
    case 'reasoning.delta': {
      const same = view.reasoning?.id === data.message_id;
      const earlier = same ? view : finishReasoning(view, key);
      return {
        ...earlier,
        reasoning: { id: data.message_id, text: (same ? (view.reasoning?.text ?? '') : '') + data.text },
      };
    }
    case 'reasoning.completed': {
      const done = { ...view, reasoning: null };
      return data.text.trim() ? add(done, key, { kind: 'reasoning', text: data.text }) : done;
    }
    case 'tool.started': {
      const { tool_call_id: id, title, name, category, locations } = data;
      const tool: Tool = { id, title: title || name, category, locations, output: '', startedAt: at };
      return { ...finishReasoning(view, key), tools: [...view.tools.filter((other) => other.id !== id), tool] };
    }
    case 'tool.output':
      return toolOutput(view, key, data);
    case 'tool.completed':
      return toolCompleted(view, key, data);
    case 'plan.updated':
      return { ...view, plan: data.items };
    case 'file.changed':
      return { ...view, files: data.changes.reduce(changed, view.files) };
    case 'usage.updated': {
      const { limit_percent, ...usage } = data;
      return { ...view, usage, percent: limit_percent };
    }
    case 'limit.warning': {
      const text = `${data.percent} % of the ${data.limit} limit is used`;
      return add({ ...view, percent: { ...view.percent, [data.limit]: data.percent } }, key, {
        kind: 'note',
        level: 'warn',
        text,
      });
    }
    case 'input.requested':
      return { ...view, pending: [...view.pending.filter(({ id }) => id !== data.id), data] };
    case 'input.resolved': {
      const request = view.pending.find(({ id }) => id === data.request_id);
      const rest = { ...view, pending: view.pending.filter(({ id }) => id !== data.request_id) };
      return request ? add(rest, key, { kind: 'answered', request, status: data.status, by: data.answered_by }) : rest;
    }
    case 'artifact.created': {
      const { kind, path, size_bytes } = data;
      // The daemon's own are there for every run.
      if (kind === 'diff' || kind === 'transcript') return view;
      return { ...view, artifacts: [...view.artifacts, { path, size_bytes }] };
    }
    case 'checkpoint.created':
      return view;
    case 'retry.scheduled': {
      const text = `attempt ${data.attempt} of ${data.max_attempts} follows: ${data.reason}`;
      return add(view, key, { kind: 'note', level: 'warn', text });
    }
    case 'log': {
      if (data.level === 'debug') return view;
      return add(view, key, { kind: 'note', level: data.level, text: data.text });
    }
    case 'run.completed':
      return end(view, key, 'completed', data, at);
    case 'run.failed':
      return end(view, key, 'failed', data, at);
    case 'run.cancelled':
      return end(view, key, 'cancelled', data, at);
  }
}

function moved(view: View, to: RunStatus, at: number): View {
  const waitedMs = view.waitingSince === null ? view.waitedMs : view.waitedMs + at - view.waitingSince;
  return { ...view, status: to, waitedMs, waitingSince: to === 'awaiting_input' ? at : null };
}

/** Thinking that something else has followed is over, also where the harness does not say so. */
function finishReasoning(view: View, key: string): View {
  if (!view.reasoning) return view;
  const { text } = view.reasoning;
  return text.trim()
    ? add({ ...view, reasoning: null }, `${key}r`, { kind: 'reasoning', text })
    : { ...view, reasoning: null };
}

function toolOutput(view: View, key: string, { tool_call_id, stream, text }: EventData['tool.output']): View {
  const tool = view.tools.find(({ id }) => id === tool_call_id);
  if (!tool) return view;
  const all = tool.output + text;
  // A script's output is the result: whole lines go into the transcript as they come.
  const whole = view.harness === 'shell' ? all.lastIndexOf('\n') + 1 : 0;
  const rest = all.slice(whole).slice(-outputKept);
  const tools = view.tools.map((other) => (other === tool ? { ...tool, output: rest } : other));
  if (whole === 0) return { ...view, tools };
  return add({ ...view, tools }, key, { kind: 'output', stream, text: all.slice(0, whole - 1) });
}

function toolCompleted(view: View, key: string, data: EventData['tool.completed']): View {
  const tool = view.tools.find(({ id }) => id === data.tool_call_id);
  if (!tool) return view;
  const rest = { ...view, tools: view.tools.filter((other) => other !== tool) };
  if (view.harness === 'shell')
    return tool.output ? add(rest, key, { kind: 'output', stream: null, text: tool.output }) : rest;
  const output = tool.output || (data.output ?? '').slice(-outputKept);
  const { status, exit_code: exitCode, duration_ms: durationMs } = data;
  return add(rest, key, { kind: 'tool', tool: { ...tool, output }, status, exitCode, durationMs });
}

/** What a further change makes of a file: added and then changed is added, added and then deleted is nothing. */
function changed(files: Files, { path, change }: { path: string; change: Files[string] }): Files {
  const before = files[path];
  if (before === 'added' && change === 'deleted') {
    const { [path]: _, ...rest } = files;
    return rest;
  }
  const now =
    before === 'added' && change === 'modified'
      ? 'added'
      : before === 'deleted' && change === 'added'
        ? 'modified'
        : change;
  return { ...files, [path]: now };
}

function end(view: View, key: string, status: Summary['status'], data: EventData['run.failed'], at: number): View {
  let last = moved(view, status, at);
  last = finishReasoning(last, key);
  if (last.message?.text.trim()) last = add(last, `${key}m`, { kind: 'message', text: last.message.text });
  for (const tool of last.tools) {
    if (last.harness === 'shell')
      last = tool.output ? add(last, `${key}${tool.id}`, { kind: 'output', stream: null, text: tool.output }) : last;
    else
      last = add(last, `${key}${tool.id}`, {
        kind: 'tool',
        tool,
        status: 'failed',
        exitCode: null,
        durationMs: at - tool.startedAt,
      });
  }
  return { ...last, message: null, tools: [], pending: [], usage: data.usage, finishedAt: at, ended: { status, data } };
}

/** The view with the summary as its last block. */
export function summarised(view: View, changes: RunResult['changes'] | null): View {
  if (!view.ended) return view;
  const { status, data } = view.ended;
  const summary: Summary = {
    runId: view.runId,
    harness: view.harness,
    status,
    ended: data,
    changes,
    files: view.files,
    artifacts: view.artifacts,
  };
  return add(view, 'summary', { kind: 'summary', view: summary });
}

/** How long the run has been working at a moment, in milliseconds; null before it has begun. */
export function workedMs({ startedAt, finishedAt, waitedMs, waitingSince }: View, now: number): number | null {
  if (startedAt === null) return null;
  const until = finishedAt ?? waitingSince ?? now;
  return Math.max(0, until - startedAt - waitedMs);
}
