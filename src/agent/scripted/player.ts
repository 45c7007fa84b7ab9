import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Script, Step } from '../../api/script.ts';
import { type Peer, RpcError } from '../peer.ts';
import { writablePlaceOf } from '../tools/place.ts';
import { ToolError } from '../tools/tool.ts';

type Json = Record<string, unknown>;

/** How a script ended. */
export interface Played {
  stopReason: 'end_turn' | 'max_turn_requests' | 'cancelled';
  usage: Json;
}

interface Options {
  peer: Peer;
  sessionId: string;
  root: string;
  signal: AbortSignal;
  id(): string;
  wait(ms: number, signal: AbortSignal): Promise<void>;
  log(line: string): void;
  crash(code: number): void;
  /** More was spent; the answer is the session's sum in millionths of a dollar. */
  spend(micro: bigint): bigint;
}

const figures = [
  'input_tokens',
  'cached_input_tokens',
  'cache_write_tokens',
  'output_tokens',
  'reasoning_tokens',
] as const;

/** Plays the steps of a script as an agent would do them. */
export class Player {
  readonly #options: Options;
  readonly #used = Object.fromEntries(figures.map((name) => [name, 0])) as Record<(typeof figures)[number], number>;

  constructor(options: Options) {
    this.#options = options;
  }

  /** Plays to the end. Throws RpcError where the script wants an error. */
  async play(steps: Script['steps']): Promise<Played> {
    const end = await this.#all(steps);
    const { input_tokens, cached_input_tokens, cache_write_tokens, output_tokens, reasoning_tokens } = this.#used;
    return {
      stopReason: this.#options.signal.aborted ? 'cancelled' : end === 'turn_limit' ? 'max_turn_requests' : 'end_turn',
      usage: {
        inputTokens: input_tokens,
        cachedReadTokens: cached_input_tokens,
        cachedWriteTokens: cache_write_tokens,
        outputTokens: output_tokens,
        thoughtTokens: reasoning_tokens,
        totalTokens: input_tokens + cached_input_tokens + cache_write_tokens + output_tokens,
      },
    };
  }

  async #all(steps: readonly Step[]): Promise<'end_turn' | 'turn_limit' | null> {
    for (const step of steps) {
      if (this.#options.signal.aborted) return null;
      const end = await this.#one(step);
      if (end) return end;
    }
    return null;
  }

  #update(sessionUpdate: string, fields: Json): void {
    const { peer, sessionId } = this.#options;
    peer.notify('session/update', { sessionId, update: { sessionUpdate, ...fields } });
  }

  #say(kind: 'agent_message_chunk' | 'agent_thought_chunk', text: string): void {
    this.#update(kind, { messageId: this.#options.id(), content: { type: 'text', text } });
  }

  async #one(step: Step): Promise<'end_turn' | 'turn_limit' | null> {
    const { signal, wait, log, crash, spend } = this.#options;
    if ('message' in step) this.#say('agent_message_chunk', step.message);
    else if ('reasoning' in step) this.#say('agent_thought_chunk', step.reasoning);
    else if ('plan' in step) {
      const entries = step.plan.map(({ text, status }) => ({ content: text, status, priority: 'medium' }));
      this.#update('plan', { entries });
    } else if ('tool' in step) await this.#tool(step.tool);
    else if ('write' in step) {
      const { path, content } = step.write;
      this.#change('write', path, (place) => {
        mkdirSync(dirname(place), { recursive: true });
        writeFileSync(place, content);
      });
    } else if ('delete' in step) this.#change('delete', step.delete.path, (place) => rmSync(place));
    else if ('ask' in step)
      return this.#all((await this.#allowed(step.ask)) ? (step.allowed ?? []) : (step.rejected ?? []));
    else if ('question' in step) await this.#question(step.question);
    else if ('usage' in step) for (const name of figures) this.#used[name] += step.usage[name] ?? 0;
    else if ('cost_micro_usd' in step) {
      const amount = Number(spend(BigInt(step.cost_micro_usd))) / 1e6;
      this.#update('usage_update', { used: 0, size: 0, cost: { amount, currency: 'USD' } });
    } else if ('log' in step) log(step.log);
    else if ('wait_ms' in step) await wait(step.wait_ms, signal);
    else if ('hang' in step) while (!signal.aborted) await wait(3_600_000, signal);
    else if ('crash' in step) crash(step.crash.exit_code);
    else if ('error' in step) {
      const { status, message } = step.error;
      throw new RpcError(-32603, message, status === undefined ? undefined : { status });
    } else return step.end;
    return null;
  }

  #begin(fields: Json): string {
    const toolCallId = this.#options.id();
    this.#update('tool_call', { toolCallId, status: 'in_progress', ...fields });
    return toolCallId;
  }

  async #tool(tool: Extract<Step, { tool: unknown }>['tool']): Promise<void> {
    const { wait, signal } = this.#options;
    const { name, title = name, category: kind = 'other', input = {}, output, exit_code } = tool;
    const toolCallId = this.#begin({ name, title, kind, rawInput: input });
    if (tool.duration_ms) await wait(tool.duration_ms, signal);
    this.#update('tool_call_update', {
      toolCallId,
      status: signal.aborted ? 'failed' : (tool.status ?? 'completed'),
      ...(output === undefined ? {} : { content: [{ type: 'content', content: { type: 'text', text: output } }] }),
      ...(exit_code === undefined ? {} : { _meta: { terminal_exit: { exit_code } } }),
    });
  }

  /** Changes a file as a tool would. */
  #change(name: string, path: string, change: (place: string) => void): void {
    const title = `${name === 'write' ? 'Write' : 'Delete'} ${path}`;
    const toolCallId = this.#begin({ name, title, kind: 'edit', rawInput: { path } });
    try {
      const place = writablePlaceOf(this.#options.root, path);
      change(place);
      this.#update('tool_call_update', { toolCallId, status: 'completed', locations: [{ path: place }] });
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      const words = error instanceof ToolError ? error.message : `${title} failed${code ? ` (${code})` : ''}.`;
      this.#update('tool_call_update', { toolCallId, status: 'failed' });
      throw new RpcError(-32602, words);
    }
  }

  async #asked(method: string, params: Json): Promise<Json | null> {
    const { peer, sessionId, signal } = this.#options;
    const cancelled = new Promise<null>((resolve) =>
      signal.addEventListener('abort', () => resolve(null), { once: true }),
    );
    return Promise.race([peer.request(method, { sessionId, ...params }) as Promise<Json>, cancelled]);
  }

  async #allowed({
    title,
    category: kind = 'other',
    input = {},
  }: Extract<Step, { ask: unknown }>['ask']): Promise<boolean> {
    const toolCallId = this.#options.id();
    const answer = await this.#asked('session/request_permission', {
      toolCall: { toolCallId, title, kind, rawInput: input, status: 'pending' },
      options: [
        { optionId: 'allow', name: 'Allow', kind: 'allow_once' },
        { optionId: 'reject', name: 'Reject', kind: 'reject_once' },
      ],
    });
    const isAllowed = (answer?.outcome as Json | undefined)?.optionId === 'allow';
    this.#update('tool_call_update', { toolCallId, status: isAllowed ? 'completed' : 'failed' });
    return isAllowed;
  }

  async #question({ message, options }: Extract<Step, { question: unknown }>['question']): Promise<void> {
    const answer = { type: 'string', title: message, ...(options ? { enum: options } : {}) };
    const reply = await this.#asked('elicitation/create', {
      mode: 'form',
      message,
      requestedSchema: { type: 'object', properties: { answer }, required: ['answer'] },
    });
    const content = reply?.action === 'accept' ? (reply.content as Json | undefined) : undefined;
    if (reply) this.#say('agent_message_chunk', typeof content?.answer === 'string' ? content.answer : '(no answer)');
  }
}
