import type { LanguageModel, ModelMessage } from 'ai';
import type { Clock } from '../base/clock.ts';
import { jsonIn } from '../base/json-in.ts';
import { estimate, latterHalf, summarised, summaryPrompt, withoutOldAnswers } from './compaction.ts';
import type { Conversation } from './conversation.ts';
import { type ModelFailure, rpcFailure } from './failure.ts';
import type { Choice } from './model.ts';
import { RpcError } from './peer.ts';
import { type Answer, askModel, type Call, type Tokens } from './step.ts';
import { type Bench, bounded, type Done, type Tool, ToolError } from './tools/tool.ts';

/** Tokens of a prompt, as ACP's `PromptResponse.usage` has them. */
export interface TurnUsage {
  inputTokens: number;
  outputTokens: number;
  totalTokens: number;
  thoughtTokens: number;
  cachedReadTokens: number;
  cachedWriteTokens: number;
}

/** What a turn tells while it goes on. */
export interface Audience {
  text(id: string, piece: string): void | Promise<void>;
  thought(id: string, piece: string): void | Promise<void>;
  /** A call begins; the tool is null when there is none of that name. */
  began(call: Call, tool: Tool | null): void;
  shown(call: Call, piece: string): void;
  ended(call: Call, done: Done | { refused: true } | { failed: string }): void;
  /** Something that the person should know. */
  notice(sentence: string): void;
  /** Whether the person lets this call through. */
  permits(call: Call, tool: Tool): Promise<boolean>;
}

/** What a turn needs. */
export interface TurnNeeds {
  clock: Clock;
  choice: Choice;
  model: LanguageModel;
  conversation: Conversation;
  instructions: string;
  tools: readonly Tool[];
  bench: Omit<Bench, 'show'>;
  audience: Audience;
  /** Answers of the model, at most. */
  max_steps: number;
  /** Tokens of the conversation from which on it is shortened. */
  room: number;
}

/** Calls that fail for a while are made again this often; the pause in milliseconds begins here and doubles. */
const tries = 5;
const firstPause = 400;
const longestPause = 60_000;

const refusedText = 'The person refused this call. Do not try the same by another way.';

/** One prompt's work: the model and its tools by turns, until it has nothing more to do. */
export class Turn {
  readonly #needs: TurnNeeds;
  readonly #sum: Tokens = { input: 0, cached: 0, written: 0, output: 0, thoughts: 0 };
  #shortened = false;

  constructor(needs: TurnNeeds) {
    this.#needs = needs;
  }

  /** Tokens so far. */
  get usage(): TurnUsage {
    const { input, cached, written, output, thoughts } = this.#sum;
    return {
      inputTokens: input,
      outputTokens: output,
      totalTokens: input + cached + written + output,
      thoughtTokens: thoughts,
      cachedReadTokens: cached,
      cachedWriteTokens: written,
    };
  }

  /** Works on a prompt. Throws RpcError when the model fails for good. */
  async run(prompt: string, schema?: object): Promise<'end_turn' | 'cancelled' | 'max_turn_requests' | 'max_tokens'> {
    const { conversation, choice, bench, max_steps, room } = this.#needs;
    const provider = choice.provider.id;
    if (estimate(conversation.messages(provider)) > room) await this.#shorten(false);
    conversation.add(provider, { role: 'user', content: prompt });
    for (let step = 0; step < max_steps; step++) {
      const answer = await this.#ask(conversation.messages(provider));
      if (!answer) return 'cancelled';
      if (answer.message) conversation.add(provider, answer.message);
      for (const call of answer.calls) {
        const output = bench.signal.aborted ? null : await this.#call(call);
        const value = output ?? '[This was not begun, as the person cancelled.]';
        conversation.add(provider, {
          role: 'tool',
          content: [{ type: 'tool-result', toolCallId: call.id, toolName: call.name, output: { type: 'text', value } }],
        });
      }
      if (bench.signal.aborted) return 'cancelled';
      if (answer.calls.length === 0) {
        if (schema && 'type' in schema && schema.type === 'object' && !jsonIn(answer.text))
          return (await this.#form(schema)) ? 'end_turn' : 'cancelled';
        return answer.cut ? 'max_tokens' : 'end_turn';
      }
      // Where what was said is not what takes the room, to say less of it would not help.
      const isLong = answer.context > room && estimate(conversation.messages(provider)) > room * 0.3;
      if (isLong) await this.#shorten(true);
    }
    return 'max_turn_requests';
  }

  /**
   * Asks once more, for the answer in its form, which the provider sees to. False when the turn was cancelled. A provider that
   * does not take the form is no failure: the client looks at the answer anyway.
   */
  async #form(schema: object): Promise<boolean> {
    const { conversation, choice } = this.#needs;
    const provider = choice.provider.id;
    conversation.add(provider, { role: 'user', content: 'Now give the final answer as JSON of the form asked for.' });
    const answer = await this.#ask(conversation.messages(provider), { schema, tools: [] }).catch((error: unknown) => {
      if (error instanceof RpcError && (error.data as { status?: number }).status === 400) return undefined;
      throw error;
    });
    if (answer?.message) conversation.add(provider, answer.message);
    return answer !== null;
  }

  /** Asks the model, again where that may help; null when the turn was cancelled. */
  async #ask(
    messages: ModelMessage[],
    { schema, tools, silent }: { schema?: object; tools?: readonly Tool[]; silent?: boolean } = {},
  ): Promise<Extract<Answer, { ok: true }> | null> {
    const { clock, model, choice, instructions, bench, audience, conversation } = this.#needs;
    let current = messages;
    for (let attempt = 1; ; attempt++) {
      const id = clock.id();
      const answer = await askModel({
        model,
        provider: choice.provider.id,
        name: choice.model,
        instructions,
        messages: current,
        tools: tools ?? this.#needs.tools,
        signal: bench.signal,
        ...(schema ? { schema } : {}),
        tell: (kind, piece) => {
          if (!silent) return kind === 'text' ? audience.text(id, piece) : audience.thought(id, piece);
        },
      });
      if (answer.ok) {
        for (const key of ['input', 'cached', 'written', 'output', 'thoughts'] as const)
          this.#sum[key] += answer.tokens[key];
        return answer;
      }
      const { failure, aborted } = answer;
      if (aborted) {
        // What was said so far is part of the conversation.
        if (answer.text !== '' && !silent)
          conversation.add(choice.provider.id, { role: 'assistant', content: answer.text });
        return null;
      }
      if (failure.too_long && !this.#shortened && !silent) {
        await this.#shorten(true);
        current = conversation.messages(choice.provider.id);
        continue;
      }
      if (!failure.retryable || attempt === tries) throw rpcFailure(failure);
      if (!(await this.#pause(failure, attempt))) return null;
    }
  }

  /** Waits before the next attempt; false when the turn was cancelled meanwhile. */
  async #pause(failure: ModelFailure, attempt: number): Promise<boolean> {
    const { clock, audience, bench } = this.#needs;
    const ms = Math.min(failure.wait ?? firstPause * 2 ** (attempt - 1), longestPause);
    audience.notice(`The model failed (${failure.status ?? failure.message}); it is asked again in ${ms / 1000} s.`);
    await new Promise<void>((resolve) => {
      const cancel = clock.timer(ms, resolve);
      bench.signal.addEventListener(
        'abort',
        () => {
          cancel();
          resolve();
        },
        { once: true },
      );
      if (bench.signal.aborted) resolve();
    });
    return !bench.signal.aborted;
  }

  /**
   * Makes the conversation shorter: old answers of tools first, then a summary, then its first half. In the middle of a turn
   * the prompt that is being worked on stays as it is.
   */
  async #shorten(amidTurn: boolean): Promise<void> {
    const { conversation, choice, room, audience } = this.#needs;
    const provider = choice.provider.id;
    const before = conversation.messages(provider);
    this.#shortened = true;
    const { messages, removed } = withoutOldAnswers(before);
    if (removed > 0 && estimate(messages) < room * 0.6) {
      conversation.restart(messages);
      audience.notice(`The conversation was long: ${removed} old answers of tools were taken out of it.`);
      return;
    }
    const latest = amidTurn ? messages.findLast(({ role }) => role === 'user') : undefined;
    const request: ModelMessage = { role: 'user', content: summaryPrompt };
    const answer = await this.#ask([...messages, request], { tools: [], silent: true }).catch(() => null);
    if (answer && answer.text !== '') {
      conversation.restart([...summarised(answer.text), ...(latest ? [latest] : [])]);
      audience.notice('The conversation was long: a summary took its place.');
      return;
    }
    conversation.restart(latterHalf(messages));
    audience.notice('The conversation was too long: the older part of it was left out.');
  }

  /** Does what the model wants done; the answer is for the model. */
  async #call(call: Call): Promise<string> {
    const { tools, audience, bench } = this.#needs;
    const tool = tools.find(({ name }) => name === call.name) ?? null;
    audience.began(call, tool);
    const fail = (words: string): string => {
      audience.ended(call, { failed: words });
      return `Error: ${words}`;
    };
    if (!tool) return fail(`There is no tool "${call.name}".`);
    const input = call.input;
    if (call.invalid !== null || typeof input !== 'object' || input === null)
      return fail(bounded(call.invalid ?? 'The input must be an object.', 2000));
    if (tool.asks && !(await audience.permits(call, tool))) {
      audience.ended(call, { refused: true });
      return refusedText;
    }
    if (bench.signal.aborted) return fail('The person cancelled.');
    try {
      const show = (piece: string): void => audience.shown(call, piece);
      const done = await tool.run(input as Record<string, unknown>, { ...bench, show });
      audience.ended(call, done);
      return bench.signal.aborted ? `${done.text}\n[The person cancelled.]` : done.text;
    } catch (error) {
      const words = error instanceof Error ? error.message : String(error);
      return fail(error instanceof ToolError ? words : `${call.name} failed: ${words}`);
    }
  }
}
