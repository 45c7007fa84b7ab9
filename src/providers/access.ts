import type { Dialect } from '../api/usage.ts';
import type { Provider } from '../base/providers.ts';

/** What a provider is like, whatever it is called. */
export type ProviderKind = Provider['id'];

/** US dollars per million tokens. */
export interface PriceSetting {
  input: number;
  output: number;
  cached_input?: number | undefined;
  cache_write?: number | undefined;
}

/** A provider with all that it takes to call it. The key is a secret: it goes to runs' own processes and nowhere else. */
export interface ProviderAccess {
  id: string;
  kind: ProviderKind;
  /** Absolute, without a slash at the end; the version segment is part of it where the user gave one. */
  base_url: string;
  /** Null for a server that asks for none. */
  key: string | null;
  /** Models that the configuration names, with their prices if it says any. */
  models: Record<string, PriceSetting | null>;
}

/** What a run calls: the provider, and the name of the model there; null where the harness is to choose. */
export interface Route {
  provider: ProviderAccess;
  model: string | null;
}

/** The interface that a harness speaks; `any` for one that is told which. */
export type Spoken = Dialect | 'any';

/** The interfaces that a provider of a kind offers, the preferred one first. */
export const dialectsOf: Record<ProviderKind, readonly Dialect[]> = {
  anthropic: ['anthropic'],
  openai: ['responses', 'chat'],
  google: ['gemini'],
  openai_compatible: ['chat', 'responses'],
};
