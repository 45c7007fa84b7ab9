import { resolve } from 'node:path';
import type { Peer } from './peer.ts';
import type { Call } from './step.ts';
import { planOf } from './tools/plan.ts';
import type { Done, Tool } from './tools/tool.ts';
import type { Audience } from './turn.ts';

/** What the agent asks about before it does it: all that changes something, all but edits, or nothing. */
export const modes = ['ask', 'accept_edits', 'full'] as const;
export type Mode = (typeof modes)[number];

type Json = Record<string, unknown>;

/** A diff that is sent has at most so many characters in each half. */
const longestDiff = 100_000;

/** What goes on in a session, told to the client as ACP's updates. */
export class Stage implements Audience {
  readonly #peer: Peer;
  readonly #sessionId: string;
  readonly #root: string;
  #mode: Mode = 'ask';
  #signal: AbortSignal = AbortSignal.abort();
  #tool: Tool | null = null;
  /** What the person has allowed for good: `edit`, or a command. */
  readonly #allowed = new Set<string>();

  constructor(peer: Peer, sessionId: string, root: string) {
    this.#peer = peer;
    this.#sessionId = sessionId;
    this.#root = root;
  }

  set mode(mode: Mode) {
    this.#mode = mode;
  }

  /** A turn begins that ends with this signal. */
  begin(signal: AbortSignal): void {
    this.#signal = signal;
  }

  #update(sessionUpdate: string, fields: Json): void {
    this.#peer.notify('session/update', { sessionId: this.#sessionId, update: { sessionUpdate, ...fields } });
  }

  text(messageId: string, text: string): Promise<void> {
    this.#update('agent_message_chunk', { messageId, content: { type: 'text', text } });
    return this.#peer.drained();
  }

  thought(messageId: string, text: string): Promise<void> {
    this.#update('agent_thought_chunk', { messageId, content: { type: 'text', text } });
    return this.#peer.drained();
  }

  notice(title: string): void {
    this.#update('notice', { severity: 'warning', title });
  }

  /** The call as ACP describes it. */
  #described(call: Call, tool: Tool | null): Json {
    const input = (typeof call.input === 'object' && call.input !== null ? call.input : {}) as Json;
    const path = tool?.path?.(input) ?? null;
    return {
      toolCallId: call.id,
      name: call.name,
      title: tool?.title(input) ?? call.name,
      kind: tool?.kind ?? 'other',
      rawInput: call.input,
      locations: path === null ? [] : [{ path: resolve(this.#root, path) }],
    };
  }

  began(call: Call, tool: Tool | null): void {
    this.#tool = tool;
    this.#update('tool_call', { ...this.#described(call, tool), status: tool?.asks ? 'pending' : 'in_progress' });
  }

  shown(call: Call, data: string): void {
    this.#update('tool_call_update', { toolCallId: call.id, _meta: { terminal_output_delta: { data } } });
  }

  ended(call: Call, done: Done | { refused: true } | { failed: string }): void {
    const toolCallId = call.id;
    if ('refused' in done) return this.#update('tool_call_update', { toolCallId, status: 'failed' });
    const text = (words: string): Json => ({ type: 'content', content: { type: 'text', text: words } });
    if ('failed' in done)
      return this.#update('tool_call_update', { toolCallId, status: 'failed', content: [text(done.failed)] });
    if (this.#tool?.name === 'plan') this.#update('plan', { entries: planOf(call.input as Json) });
    const { diff, exit_code = null } = done;
    const content = diff ? [{ type: 'diff', path: diff.path, ...halves(diff) }, text(done.text)] : [text(done.text)];
    this.#update('tool_call_update', {
      toolCallId,
      status: 'completed',
      content,
      ...(exit_code === null ? {} : { _meta: { terminal_exit: { exit_code } } }),
    });
  }

  async permits(call: Call, tool: Tool): Promise<boolean> {
    const { command } = call.input as Json;
    const always = tool.kind === 'edit' ? 'edit' : `${tool.name} ${String(command)}`;
    const free = this.#mode === 'full' || (this.#mode === 'accept_edits' && tool.kind === 'edit');
    if (!free && !this.#allowed.has(always)) {
      const asked = this.#peer.request('session/request_permission', {
        sessionId: this.#sessionId,
        toolCall: { ...this.#described(call, tool), status: 'pending' },
        options: [
          { optionId: 'allow', name: 'Allow', kind: 'allow_once' },
          {
            optionId: 'always',
            name: tool.kind === 'edit' ? 'Allow all edits of this run' : 'Allow this command in this run',
            kind: 'allow_always',
          },
          { optionId: 'reject', name: 'Reject', kind: 'reject_once' },
        ],
      });
      const chosen = await Promise.race([asked.then(optionIn, () => null), this.#cancelled()]);
      if (chosen === 'always') this.#allowed.add(always);
      if (chosen !== 'allow' && chosen !== 'always') return false;
    }
    this.#update('tool_call_update', { toolCallId: call.id, status: 'in_progress' });
    return true;
  }

  #cancelled(): Promise<null> {
    return new Promise((done) => {
      if (this.#signal.aborted) done(null);
      this.#signal.addEventListener('abort', () => done(null), { once: true });
    });
  }
}

const optionIn = (answer: unknown): string | null => {
  const outcome = (answer as { outcome?: { outcome?: string; optionId?: string } } | null)?.outcome;
  return outcome?.outcome === 'selected' ? (outcome.optionId ?? null) : null;
};

const halves = ({ oldText, newText }: { oldText: string | null; newText: string }): Json => ({
  oldText: oldText?.slice(0, longestDiff) ?? null,
  newText: newText.slice(0, longestDiff),
});
