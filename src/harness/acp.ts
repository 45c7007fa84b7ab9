import type { EventData, EventType, ToolCategory } from '../api/events.ts';
import { contentText, nameInId, rawText, shortened, unfenced } from './acp-reading.ts';
import { bounded, list, number, type Loose, record, text } from './loose.ts';

/**
 * ACP's `session/update`s as events: state in, events out. No clock, no files: the runner says what time it is, joins the
 * deltas and bounds the output. Nothing that an agent sends is an error here; what makes no sense becomes a `log` event.
 */

/** An event without its time and source. */
export type Step = { [T in EventType]: { type: T; data: EventData[T] } }[EventType];

interface Speech {
  kind: 'message' | 'reasoning';
  id: string;
  /** What the agent calls it, if it does. */
  native: string | null;
  parts: string[];
  length: number;
}

interface Tool {
  id: string;
  /** Milliseconds: first and latest mention. */
  since: number;
  touched: number;
  state: 'held' | 'started' | 'done';
  name: string | null;
  title: string;
  kind: string | null;
  input: unknown;
  locations: string[];
  /** Text of the content that was sent on as output. */
  shown: string;
  streamed: boolean;
  exit_code: number | null;
  rejected: boolean;
}

/** Characters of one message; what is longer goes on in another message. */
const longestMessage = 1_048_576;
/** Milliseconds without news after which a call is taken to be told in full. */
const settleAfter = 250;

const categories: Record<string, ToolCategory> = {
  read: 'read',
  edit: 'edit',
  delete: 'edit',
  move: 'edit',
  search: 'search',
  execute: 'execute',
  fetch: 'fetch',
};
const quiet = new Set([
  'user_message_chunk',
  'available_commands_update',
  'current_mode_update',
  'config_option_update',
  'session_info_update',
  'usage_update',
  'compaction_update',
  'compaction_summary_chunk',
]);

const log = (level: 'debug' | 'info' | 'warn' | 'error', message: string): Step => ({
  type: 'log',
  data: { level, stream: 'daemon', text: message.slice(0, 4096) },
});

const notice = (update: Loose): Step => {
  const level = { warning: 'warn', error: 'error' } as const;
  const words = [text(update.title), text(update.description)].filter(Boolean).join(': ');
  return log(level[update.severity as 'warning'] ?? 'info', words || bounded(update, 2048));
};

/** The conversation of one prompt. */
export class AcpMapping {
  readonly #id: () => string;
  #speech: Speech | null = null;
  #spoken = new Map<string, number>();
  #tools = new Map<string, Tool>();
  #calls = 0;
  #turns = 0;
  #inTurn = false;
  #text: string | null = null;

  /** `id` makes ids for messages that the agent gives none. */
  constructor(id: () => string) {
    this.#id = id;
  }

  /** The last whole or unfinished message of the assistant; null when it said nothing. */
  get text(): string | null {
    return this.#speech?.kind === 'message' ? this.#speech.parts.join('') : this.#text;
  }

  /**
   * How often the model was asked and tools were called. Turns are counted from what is seen: the model speaks or calls again
   * after a call has ended.
   */
  get counts(): { turns: number; tool_calls: number } {
    return { turns: this.#turns, tool_calls: this.#calls };
  }

  /** True while a tool call waits to be told in full: call `settle` within a quarter second. */
  get holding(): boolean {
    return this.#tools.values().some((tool) => tool.state === 'held');
  }

  /** What is known of a tool call's kind (`edit`, `read`, `execute`, …). */
  kindOf(id: string): string | null {
    return this.#tools.get(id)?.kind ?? null;
  }

  /** A `session/update` at `now` milliseconds. */
  update(raw: unknown, now: number): Step[] {
    const update = record(raw);
    const kind = text(update?.sessionUpdate);
    if (!update || kind === null) return [log('debug', `An update without a kind: ${bounded(raw, 2048)}`)];
    switch (kind) {
      case 'agent_message_chunk':
        return this.#chunk('message', update, now);
      case 'agent_thought_chunk':
        return this.#chunk('reasoning', update, now);
      case 'tool_call':
      case 'tool_call_update':
        return this.#tool(update, now, false);
      case 'plan':
      case 'plan_update':
      case 'plan_removed':
        return [...this.#pause(now), this.#plan(update)];
      case 'notice':
        return [...this.#pause(now), notice(update)];
      default:
        return quiet.has(kind) ? [] : [log('debug', `An update of a kind unknown here: ${bounded(update, 2048)}`)];
    }
  }

  /** The tool call for which the agent asks permission: it may be the first that is heard of it. */
  permission(raw: unknown, now: number): Step[] {
    const call = record(raw);
    if (!call || text(call.toolCallId) === null) return [];
    const steps = this.#tool({ ...call, status: 'pending' }, now, true);
    return [...steps, ...this.settle(now, true)];
  }

  /** A person, or the run's rule, said no to this call. */
  rejected(id: string): void {
    const tool = this.#tools.get(id);
    if (!tool) return;
    tool.rejected = true;
    this.#inTurn = false;
  }

  /** Tool calls that are told in full, or all that are held. */
  settle(now: number, all = false): Step[] {
    const steps: Step[] = [];
    for (const tool of this.#tools.values()) {
      if (tool.state === 'held' && (all || now - tool.touched >= settleAfter)) steps.push(...this.#start(tool));
    }
    return steps;
  }

  /** The prompt has ended: nothing stays open. Calls without an end are failed, or rejected. */
  end(now: number): Step[] {
    const steps = this.#pause(now);
    for (const tool of this.#tools.values()) {
      if (tool.state !== 'done') steps.push(...this.#complete(tool, 'failed', now));
    }
    this.#inTurn = false;
    return steps;
  }

  #turn(): void {
    if (this.#inTurn) return;
    this.#inTurn = true;
    this.#turns++;
  }

  #chunk(kind: Speech['kind'], update: Loose, now: number): Step[] {
    const content = record(update.content);
    const piece = text(content?.text);
    if (piece === null)
      return [...this.settle(now, true), log('debug', `Content that is no text: ${bounded(content, 2048)}`)];
    if (piece === '') return [];
    this.#turn();
    const native = text(update.messageId);
    const steps = this.settle(now, true);
    // Some agents say no more of a call that was refused.
    for (const tool of this.#tools.values()) {
      if (tool.rejected && tool.state === 'started') steps.push(...this.#complete(tool, 'failed', now));
    }
    for (let at = 0; at < piece.length;) {
      let end = at + longestMessage;
      // Not between the halves of a character.
      if ((piece.charCodeAt(end - 1) & 0xfc00) === 0xd800) end--;
      steps.push(...this.#say(kind, native, piece.slice(at, end)));
      at = end;
    }
    return steps;
  }

  #say(kind: Speech['kind'], native: string | null, piece: string): Step[] {
    const steps: Step[] = [];
    let speech = this.#speech;
    if (speech && (speech.kind !== kind || speech.native !== native || speech.length + piece.length > longestMessage)) {
      steps.push(...this.#fallSilent());
      speech = null;
    }
    if (!speech) {
      speech = { kind, id: this.#messageId(kind, native), native, parts: [], length: 0 };
      this.#speech = speech;
      if (kind === 'message')
        steps.push({ type: 'message.started', data: { message_id: speech.id, role: 'assistant' } });
    }
    speech.parts.push(piece);
    speech.length += piece.length;
    const data = { message_id: speech.id, text: piece };
    steps.push(kind === 'message' ? { type: 'message.delta', data } : { type: 'reasoning.delta', data });
    return steps;
  }

  /** An id for each speech of its own, although agents use one for several. */
  #messageId(kind: Speech['kind'], native: string | null): string {
    if (native === null) return this.#id();
    const count = (this.#spoken.get(`${kind} ${native}`) ?? 0) + 1;
    this.#spoken.set(`${kind} ${native}`, count);
    return count === 1 ? native.slice(0, 200) : `${native.slice(0, 200)}:${count}`;
  }

  #fallSilent(): Step[] {
    const speech = this.#speech;
    if (!speech) return [];
    this.#speech = null;
    const whole = speech.parts.join('');
    if (speech.kind === 'reasoning')
      return [{ type: 'reasoning.completed', data: { message_id: speech.id, text: whole } }];
    this.#text = whole;
    return [{ type: 'message.completed', data: { message_id: speech.id, role: 'assistant', text: whole } }];
  }

  #pause(now: number): Step[] {
    return [...this.#fallSilent(), ...this.settle(now, true)];
  }

  #plan(update: Loose): Step {
    const entries = update.entries ?? record(update.plan)?.entries;
    const items = list(entries)
      .slice(0, 500)
      .map((entry) => {
        const item = record(entry);
        const status = item?.status;
        return {
          text: (text(item?.content) ?? text(item?.title) ?? '').slice(0, 4096),
          status: status === 'in_progress' || status === 'completed' ? status : 'pending',
        } as const;
      });
    return { type: 'plan.updated', data: { items } };
  }

  #tool(update: Loose, now: number, asked: boolean): Step[] {
    const id = text(update.toolCallId);
    if (id === null) return [log('debug', `A tool call without an id: ${bounded(update, 2048)}`)];
    const steps = this.#fallSilent();
    let tool = this.#tools.get(id);
    if (!tool) {
      this.#turn();
      this.#calls++;
      tool = {
        id,
        since: now,
        touched: now,
        state: 'held',
        name: null,
        title: '',
        kind: null,
        input: null,
        locations: [],
        shown: '',
        streamed: false,
        exit_code: null,
        rejected: false,
      };
      this.#tools.set(id, tool);
    }
    if (tool.state === 'done') return steps;
    this.#merge(tool, update, now);
    const status = text(update.status);
    const meta = record(update._meta);
    const delta = text(record(meta?.terminal_output_delta)?.data);
    if (status === 'in_progress' || delta !== null) steps.push(...this.#start(tool));
    if (delta !== null) {
      tool.streamed = true;
      steps.push(this.#output(tool, delta));
    }
    const ended = status === 'completed' || status === 'failed';
    if (!asked && (status === 'in_progress' || ended || (status === null && tool.state === 'started'))) {
      const whole = contentText(update.content);
      steps.push(...this.#shown(tool, ended && tool.shown === '' ? unfenced(whole) : whole));
    }
    if (ended) {
      if (!tool.streamed && tool.shown === '') steps.push(...this.#shown(tool, rawText(update.rawOutput)));
      steps.push(...this.#complete(tool, status, now));
    }
    return steps;
  }

  /** Takes over what an update says; what it leaves out stays. */
  #merge(tool: Tool, update: Loose, now: number): void {
    const meta = record(update._meta);
    const title = text(update.title);
    const given = text(update.name) ?? text(record(meta?.claudeCode)?.toolName);
    tool.touched = now;
    tool.name = given ?? tool.name ?? nameInId(tool.id) ?? (title && /^[\w.-]{1,64}$/.test(title) ? title : null);
    if (title) tool.title = title.slice(0, 1000);
    tool.kind = text(update.kind) ?? tool.kind;
    const input = update.rawInput;
    const empty =
      input === undefined || input === null || (record(input) && Object.keys(record(input) ?? {}).length === 0);
    if (!empty) tool.input = input;
    const named = list(update.locations).flatMap((location) => text(record(location)?.path) ?? []);
    const changed = list(update.content).flatMap((entry) => {
      const diff = record(entry);
      return diff?.type === 'diff' ? (text(diff.path) ?? []) : [];
    });
    const paths = named.length > 0 ? named : tool.locations.length > 0 ? [] : changed;
    if (paths.length > 0) tool.locations = [...new Set(paths)].slice(0, 200);
    const raw = record(update.rawOutput);
    const exit =
      record(meta?.terminal_exit)?.exit_code ?? raw?.exit_code ?? raw?.exitCode ?? record(raw?.metadata)?.exit;
    tool.exit_code = number(exit) ?? tool.exit_code;
  }

  #start(tool: Tool): Step[] {
    if (tool.state !== 'held') return [];
    tool.state = 'started';
    const name = tool.name ?? tool.kind ?? 'tool';
    const data = {
      tool_call_id: tool.id,
      name,
      title: tool.title === '' ? name : tool.title,
      category: /^mcp[_.:-]/.test(name) ? ('mcp' as const) : (categories[tool.kind ?? ''] ?? ('other' as const)),
      input: shortened(tool.input),
      locations: tool.locations,
      connection_id: null,
    };
    tool.input = null;
    return [{ type: 'tool.started', data }];
  }

  #output(tool: Tool, piece: string): Step {
    return { type: 'tool.output', data: { tool_call_id: tool.id, stream: null, text: piece, truncated: false } };
  }

  /** Content comes whole each time: what was sent on already is left out. */
  #shown(tool: Tool, whole: string): Step[] {
    if (whole === '' || whole === tool.shown) return [];
    const steps = this.#start(tool);
    const more = whole.startsWith(tool.shown) ? whole.slice(tool.shown.length) : whole;
    tool.shown = whole;
    return [...steps, this.#output(tool, more)];
  }

  #complete(tool: Tool, status: 'completed' | 'failed', now: number): Step[] {
    const steps = this.#start(tool);
    tool.state = 'done';
    tool.shown = '';
    if (!tool.rejected && !this.#tools.values().some((other) => other.state !== 'done')) this.#inTurn = false;
    const data = {
      tool_call_id: tool.id,
      status: status === 'failed' && tool.rejected ? ('rejected' as const) : status,
      exit_code: tool.exit_code,
      // The runner puts the tail of the output here.
      output: null,
      duration_ms: Math.max(0, Math.round(now - tool.since)),
    };
    return [...steps, { type: 'tool.completed', data }];
  }
}
