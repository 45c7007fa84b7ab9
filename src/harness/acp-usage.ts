import type { Usage } from '../api/usage.ts';
import { number, record } from './loose.ts';

type Figures = Omit<Usage, 'duration_ms'>;

/** The cumulative cost that a `usage_update` tells, in US dollars; null when it tells none. */
export function costOf(raw: unknown): number | null {
  const update = record(raw);
  if (update?.sessionUpdate !== 'usage_update') return null;
  const cost = record(update.cost);
  const amount = number(cost?.amount);
  return amount !== null && amount >= 0 && (cost?.currency === 'USD' || cost?.currency === undefined) ? amount : null;
}

/** Tokens of two prompts together. */
export const addedTokens = (one: Partial<Figures>, other: Partial<Figures>): Partial<Figures> => {
  const sum: Record<string, unknown> = { ...one };
  for (const [name, value] of Object.entries(other))
    if (typeof value === 'number') sum[name] = value + (number(sum[name]) ?? 0);
  return sum;
};

/**
 * The tokens that the answer to `session/prompt` tells; empty when it tells none. `usage` counts input without what came from
 * the cache; Gemini has only `_meta.quota`, with the cached in the input and the thoughts outside of the output.
 */
export function tokensOf(raw: unknown): Partial<Figures> {
  const result = record(raw);
  const count = (value: unknown): number => Math.max(0, Math.round(number(value) ?? 0));
  const usage = record(result?.usage);
  if (usage) {
    return {
      input_tokens: count(usage.inputTokens),
      cached_input_tokens: count(usage.cachedReadTokens),
      cache_write_tokens: count(usage.cachedWriteTokens),
      output_tokens: count(usage.outputTokens),
      reasoning_tokens: count(usage.thoughtTokens),
    };
  }
  const quota = record(record(record(result?._meta)?.quota)?.token_count);
  if (!quota) return {};
  return { input_tokens: count(quota.input_tokens), output_tokens: count(quota.output_tokens) };
}
