import type { Usage } from './usage.ts';

/** Nothing used, and nothing known of the cost. */
export const noUsage: Usage = {
  input_tokens: 0,
  cached_input_tokens: 0,
  cache_write_tokens: 0,
  output_tokens: 0,
  reasoning_tokens: 0,
  turns: 0,
  tool_calls: 0,
  duration_ms: 0,
  cost_micro_usd: null,
  cost_source: 'unknown',
};

/** A session's figures with one more run's. Costs that are known add up; one unknown makes the sum unknown. */
export function addUsage(sum: Usage, more: Usage, first: boolean): Usage {
  const known = (first || sum.cost_micro_usd !== null) && more.cost_micro_usd !== null;
  return {
    input_tokens: sum.input_tokens + more.input_tokens,
    cached_input_tokens: sum.cached_input_tokens + more.cached_input_tokens,
    cache_write_tokens: sum.cache_write_tokens + more.cache_write_tokens,
    output_tokens: sum.output_tokens + more.output_tokens,
    reasoning_tokens: sum.reasoning_tokens + more.reasoning_tokens,
    turns: sum.turns + more.turns,
    tool_calls: sum.tool_calls + more.tool_calls,
    duration_ms: sum.duration_ms + more.duration_ms,
    cost_micro_usd: known ? String(BigInt(sum.cost_micro_usd ?? '0') + BigInt(more.cost_micro_usd ?? '0')) : null,
    cost_source: !known ? 'unknown' : first || sum.cost_source === more.cost_source ? more.cost_source : 'estimated',
  };
}
