import { jsonSchema, type LanguageModel, type ModelMessage, streamText, type ToolSet } from 'ai';
import { brokenOff, type ModelFailure, modelFailure } from './failure.ts';
import type { Tool } from './tools/tool.ts';

// What the SDK would warn of goes to nobody who could do something about it.
(globalThis as { AI_SDK_LOG_WARNINGS?: boolean }).AI_SDK_LOG_WARNINGS = false;

/** A call that the model makes. */
export interface Call {
  id: string;
  name: string;
  input: unknown;
  /** The input was no JSON, or there is no such tool. */
  invalid: string | null;
}

/** Tokens of one answer; input does not count what was read from or written to the cache. */
export interface Tokens {
  input: number;
  cached: number;
  written: number;
  output: number;
  thoughts: number;
}

/** What a model answered: its own words as a message, and what it wants done. */
export type Answer =
  | {
      ok: true;
      message: ModelMessage | null;
      text: string;
      calls: Call[];
      cut: boolean;
      tokens: Tokens;
      context: number;
    }
  | { ok: false; failure: ModelFailure; aborted: boolean; text: string };

interface Asked {
  model: LanguageModel;
  provider: string;
  /** The model's id with its provider. */
  name: string;
  instructions: string;
  messages: ModelMessage[];
  tools: readonly Tool[];
  signal: AbortSignal;
  /** The form of the answer, where it must have one. */
  schema?: object;
  tell(kind: 'text' | 'thought', piece: string): void | Promise<void>;
}

/** Google's models that think; the older ones refuse to be asked for it. */
const thinking = /^gemini-(2\.5|[3-9]|\d\d)/;

/** The tools as the SDK takes them: without doing, which is not its business here. */
const toolSet = (tools: readonly Tool[]): ToolSet =>
  Object.fromEntries(
    tools.map(({ name, description, schema: { properties, required } }) => [
      name,
      {
        description,
        inputSchema: jsonSchema({ type: 'object', properties, required, additionalProperties: false } as never),
      },
    ]),
  );

/** What stays the same from call to call is marked, so that Anthropic need not read it anew each time. */
const kept = { anthropic: { cacheControl: { type: 'ephemeral' as const } } };

const withMark = (messages: ModelMessage[]): ModelMessage[] =>
  messages.map((message, index) =>
    index === messages.length - 1 ? { ...message, providerOptions: { ...message.providerOptions, ...kept } } : message,
  );

/** Asks the model once, and tells what it says while it says it. Never throws for what the model or the network does. */
export async function askModel(asked: Asked): Promise<Answer> {
  const { model, provider, name, instructions, messages, tools, signal, schema, tell } = asked;
  let text = '';
  const calls: Call[] = [];
  let failure: ModelFailure | null = null;
  let finish: string | null = null;
  let tokens: Tokens = { input: 0, cached: 0, written: 0, output: 0, thoughts: 0 };
  let context = 0;
  try {
    const { Output } = schema ? await import('ai') : { Output: null };
    const result = streamText({
      model,
      instructions: { role: 'system', content: instructions, providerOptions: kept },
      messages: withMark(messages),
      tools: toolSet(tools),
      maxRetries: 0,
      abortSignal: signal,
      providerOptions: {
        // Nothing of the conversation is kept by the provider; it is all sent each time.
        openai: { store: false, strictJsonSchema: false },
        ...(provider === 'google' && thinking.test(name)
          ? { google: { thinkingConfig: { includeThoughts: true } } }
          : {}),
      },
      ...(Output && schema ? { output: Output.object({ schema: jsonSchema(schema as never) }) } : {}),
      onError: () => {},
    });
    for await (const part of result.stream) {
      switch (part.type) {
        case 'text-delta':
          text += part.text;
          await tell('text', part.text);
          break;
        case 'reasoning-delta':
          await tell('thought', part.text);
          break;
        case 'tool-call':
          calls.push({
            id: part.toolCallId,
            name: part.toolName,
            input: part.input,
            invalid: part.invalid
              ? String((part.error as Error | undefined)?.message ?? 'The input is not valid.')
              : null,
          });
          break;
        case 'error':
          failure ??= modelFailure(part.error);
          break;
        case 'finish-step': {
          const { inputTokens = 0, inputTokenDetails, outputTokens = 0, outputTokenDetails } = part.usage;
          const cached = inputTokenDetails.cacheReadTokens ?? 0;
          const written = inputTokenDetails.cacheWriteTokens ?? 0;
          finish = part.finishReason;
          tokens = {
            input: inputTokenDetails.noCacheTokens ?? Math.max(0, inputTokens - cached - written),
            cached,
            written,
            output: outputTokens,
            thoughts: outputTokenDetails.reasoningTokens ?? 0,
          };
          context = inputTokens + outputTokens;
          break;
        }
        default:
      }
    }
    if (finish === null || finish === 'interrupted' || finish === 'error') failure ??= brokenOff;
    if (failure || signal.aborted) return { ok: false, failure: failure ?? brokenOff, aborted: signal.aborted, text };
    const [message = null] = (await result.responseMessages).filter(({ role }) => role === 'assistant');
    return { ok: true, message, text, calls, cut: finish === 'length', tokens, context };
  } catch (error) {
    return { ok: false, failure: failure ?? modelFailure(error), aborted: signal.aborted, text };
  }
}
