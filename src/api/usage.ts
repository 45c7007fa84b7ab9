import { Type, type Static } from 'typebox';
import { Money, named, nullable } from './common.ts';

export const Usage = named(
  'Usage',
  {
    input_tokens: Type.Integer({ description: 'Without what came from the provider’s cache or was written to it.' }),
    cached_input_tokens: Type.Integer(),
    cache_write_tokens: Type.Integer(),
    output_tokens: Type.Integer({ description: 'With the reasoning.' }),
    reasoning_tokens: Type.Integer(),
    turns: Type.Integer(),
    tool_calls: Type.Integer(),
    duration_ms: Type.Integer(),
    cost_micro_usd: nullable(Money),
    cost_source: Type.Enum(['reported', 'estimated', 'unknown']),
  },
  'What was used so far. An unknown cost is null, never "0".',
);
export type Usage = Static<typeof Usage>;

/** The interfaces by which models are called: Anthropic Messages, OpenAI Responses, Chat Completions, Gemini. */
export type Dialect = 'anthropic' | 'responses' | 'chat' | 'gemini';

/** One call of a model, or what a harness says that all its calls of a run came to. */
export interface ModelCall {
  /** Unique in its run. */
  call_id: string;
  at: string;
  provider: string | null;
  model: string | null;
  dialect: Dialect | null;
  /** `cut`: the stream ended before the provider had said what it used. */
  status: 'completed' | 'failed' | 'cut';
  /** What the provider answered; null when it could not be reached, or nobody knows. */
  http_status: number | null;
  /** The call had tools to offer: it is the agent's own turn, not a title or a summary. */
  main: boolean;
  duration_ms: number;
  input_tokens: number;
  cached_input_tokens: number;
  cache_write_tokens: number;
  output_tokens: number;
  reasoning_tokens: number;
  cost_micro_usd: string | null;
  cost_source: Usage['cost_source'];
}
