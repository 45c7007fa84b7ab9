import type { Provider, Usage as PricedUsage } from '@pydantic/genai-prices';
import type { Dialect } from '../api/usage.ts';
import type { ProviderAccess } from './access.ts';

/** Tokens of one call. Input is without what came from the cache or went there; output is with the reasoning. */
export interface Tokens {
  input_tokens: number;
  cached_input_tokens: number;
  cache_write_tokens: number;
  output_tokens: number;
  reasoning_tokens: number;
}

/** What a call used, and its price at the list in millionths of a dollar, rounded up; null where no price is known. */
export interface Priced {
  tokens: Tokens;
  cost: bigint | null;
}

type Who = Pick<ProviderAccess, 'kind' | 'base_url' | 'models'>;
type Table = typeof import('@pydantic/genai-prices');

/** Some megabytes of prices, which nobody needs who does not ask for them. */
const table = (): Promise<Table> => import('@pydantic/genai-prices');

const flavors: Record<Dialect, string> = {
  anthropic: 'default',
  responses: 'responses',
  chat: 'chat',
  gemini: 'default',
};

/** How models of the configuration are priced: as a provider of their own. */
function ownPrices(models: ProviderAccess['models'], model: string): Provider | undefined {
  const price = models[model];
  if (!price) return undefined;
  const prices = {
    input_mtok: price.input,
    output_mtok: price.output,
    cache_read_mtok: price.cached_input ?? price.input,
    cache_write_mtok: price.cache_write ?? price.input,
  };
  return {
    id: 'own',
    name: 'own',
    api_pattern: '^$',
    models: [{ id: model, match: { equals: model }, prices }],
  };
}

/** Millionths of a dollar, rounded up but for what is only the noise of a floating point. */
const micro = (dollars: number): bigint => BigInt(Math.max(0, Math.ceil(dollars * 1e6 - 1e-6)));

/** The price table, loaded: prices usages of one provider. */
export class Prices {
  readonly #table: Table;
  readonly #who: Who;

  private constructor(loaded: Table, who: Who) {
    this.#table = loaded;
    this.#who = who;
  }

  /** Loads the table. */
  static async open(who: Who): Promise<Prices> {
    return new Prices(await table(), who);
  }

  /** Millionths of a dollar for these figures; null where no price is known. */
  cost(model: string, usage: PricedUsage): bigint | null {
    const { kind, base_url, models } = this.#who;
    const own = ownPrices(models, model);
    const where = own
      ? { provider: own }
      : kind === 'openai_compatible'
        ? { providerApiUrl: base_url }
        : { providerId: kind };
    const price = this.#table.calcPrice(usage, model, where);
    return price && micro(price.total_price);
  }

  /** At most so much for a call: input and output tokens that are only estimated. */
  most(model: string, input_tokens: number, output_tokens: number): bigint | null {
    return this.cost(model, { input_tokens, output_tokens });
  }

  /** Reads what a provider says about a call: a body with `usage` (`usageMetadata` for Gemini). Undefined when it says nothing. */
  read(dialect: Dialect, model: string, body: Record<string, unknown>): Priced | undefined {
    const flavored = { anthropic: 'anthropic', gemini: 'google', responses: 'openai', chat: 'openai' }[dialect];
    const provider = this.#table.findProvider({ providerId: flavored });
    let usage: PricedUsage;
    try {
      ({ usage } = this.#table.extractUsage(provider!, { ...body, model, modelVersion: model }, flavors[dialect]));
    } catch {
      return undefined;
    }
    const count = (name: string): number => Math.max(0, Math.round(usage[name] ?? 0));
    const cached = count('cache_read_tokens');
    const written = count('cache_write_tokens');
    return {
      tokens: {
        input_tokens: Math.max(0, count('input_tokens') - cached - written),
        cached_input_tokens: cached,
        cache_write_tokens: written,
        output_tokens: count('output_tokens'),
        reasoning_tokens: count('output_reasoning_tokens'),
      },
      cost: this.#safe(model, usage),
    };
  }

  /** The details that a provider adds (audio, searches) may contradict its sums; then the sums count. */
  #safe(model: string, usage: PricedUsage): bigint | null {
    const { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens } = usage;
    for (const one of [
      usage,
      { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens },
      { input_tokens, output_tokens },
    ])
      try {
        return this.cost(model, one);
      } catch {
        continue;
      }
    return null;
  }
}
