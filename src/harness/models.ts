import type { Model } from '../api/server.ts';
import type { HarnessRow } from './row.ts';

/** The providers whose models are listed, and the interfaces that harnesses reach them by. */
const providers: Record<string, readonly HarnessRow['dialect'][]> = {
  anthropic: ['anthropic', 'any'],
  openai: ['responses', 'chat', 'any'],
  google: ['gemini', 'any'],
};

/** A price in dollars per million tokens, tiered or not, as micro-dollars. */
const micro = (price: unknown): string | null => {
  const dollars = typeof price === 'number' ? price : (price as { base?: number } | undefined)?.base;
  return dollars === undefined ? null : String(Math.round(dollars * 1_000_000));
};

/**
 * The text models that are known, with today's list prices, by provider and id; `harnesses` are the given ones that speak to
 * the provider, `available` when one of them is installed.
 */
export async function listModels(rows: readonly HarnessRow[], installed: ReadonlySet<string>): Promise<Model[]> {
  // Some megabytes of prices, which nobody needs who does not ask for them.
  const { calcPrice, findProvider } = await import('@pydantic/genai-prices');
  return Object.entries(providers).flatMap(([providerId, dialects]) => {
    const harnesses = rows.filter(({ dialect }) => dialect !== null && dialects.includes(dialect)).map(({ id }) => id);
    const status = harnesses.some((id) => installed.has(id)) ? ('available' as const) : ('unavailable' as const);
    const models = findProvider({ providerId })?.models ?? [];
    return models.flatMap(({ id, name, context_window, deprecated }): Model[] => {
      const price = calcPrice({ input_tokens: 1, output_tokens: 1 }, id, { providerId })?.model_price;
      const pricing = {
        input: micro(price?.input_mtok),
        cached_input: micro(price?.cache_read_mtok),
        cache_write: micro(price?.cache_write_mtok),
        output: micro(price?.output_mtok),
      };
      if (deprecated || pricing.input === null || pricing.output === null) return [];
      return [
        {
          id,
          provider: providerId,
          display_name: name ?? id,
          harnesses,
          enabled: true,
          context_window: context_window ?? null,
          max_output_tokens: null,
          pricing,
          status,
        },
      ];
    });
  });
}
