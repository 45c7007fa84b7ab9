import { Type, type Static } from 'typebox';
import { Money, named, nullable } from './common.ts';

export const Usage = named(
  'Usage',
  {
    input_tokens: Type.Integer(),
    cached_input_tokens: Type.Integer(),
    cache_write_tokens: Type.Integer(),
    output_tokens: Type.Integer(),
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
