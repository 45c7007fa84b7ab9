import type { Model } from '../api/server.ts';
import { dialectsOf, type ProviderKind, type Spoken } from './access.ts';
import { type ProviderShown } from './providers.ts';

/** A harness as far as models go: `dialect` is null for one that calls none. */
export interface Speaker {
  id: string;
  dialect: Spoken | null;
  installed: boolean;
}

/** A price in dollars per million tokens, tiered or not, as micro-dollars. */
const micro = (price: unknown): string | null => {
  const dollars = typeof price === 'number' ? price : (price as { base?: number } | undefined)?.base;
  return dollars === undefined ? null : String(Math.round(dollars * 1_000_000));
};

const speakersOf = (kind: ProviderKind, speakers: readonly Speaker[]): Speaker[] =>
  speakers.filter(({ dialect }) => dialect !== null && (dialect === 'any' || dialectsOf[kind].includes(dialect)));

/**
 * The text models that are known, with today's list prices, by provider and id; what the configuration names comes first.
 * `available`: the provider can be called, and a harness that speaks to it is installed.
 */
export async function listModels(providers: readonly ProviderShown[], speakers: readonly Speaker[]): Promise<Model[]> {
  // Some megabytes of prices, which nobody needs who does not ask for them.
  const { calcPrice, findProvider } = await import('@pydantic/genai-prices');
  return providers.flatMap(({ id: provider, kind, ready, models: own }) => {
    const able = speakersOf(kind, speakers);
    const base = {
      provider,
      harnesses: able.map(({ id }) => id),
      enabled: true,
      max_output_tokens: null,
      status: !able.some(({ installed }) => installed)
        ? ('unavailable' as const)
        : ready
          ? ('available' as const)
          : ('missing_credentials' as const),
    };
    const configured = Object.entries(own).map(([id, price]): Model => ({
      ...base,
      id,
      display_name: id,
      context_window: null,
      pricing: price && {
        input: micro(price.input),
        cached_input: micro(price.cached_input ?? price.input),
        cache_write: micro(price.cache_write ?? price.input),
        output: micro(price.output),
      },
    }));
    const known = (findProvider({ providerId: kind })?.models ?? []).flatMap(
      ({ id, name, context_window, deprecated }): Model[] => {
        const price = calcPrice({ input_tokens: 1, output_tokens: 1 }, id, { providerId: kind })?.model_price;
        const pricing = {
          input: micro(price?.input_mtok),
          cached_input: micro(price?.cache_read_mtok),
          cache_write: micro(price?.cache_write_mtok),
          output: micro(price?.output_mtok),
        };
        if (deprecated || id in own || pricing.input === null || pricing.output === null) return [];
        return [{ ...base, id, display_name: name ?? id, context_window: context_window ?? null, pricing }];
      },
    );
    return [...configured, ...known];
  });
}
