import { readFileSync } from 'node:fs';
import type { ProviderConfig } from '../base/config.ts';
import { keyOf, providers as known } from '../base/providers.ts';
import {
  dialectsOf,
  type PriceSetting,
  type ProviderAccess,
  type ProviderKind,
  type Route,
  type Spoken,
} from './access.ts';

/** A provider as others may see it. */
export interface ProviderShown {
  id: string;
  kind: ProviderKind;
  /** Whether it can be called: there is a key, or none is needed. */
  ready: boolean;
  models: ProviderAccess['models'];
}

const addresses: Record<ProviderKind, string | null> = {
  anthropic: 'https://api.anthropic.com',
  openai: 'https://api.openai.com',
  google: 'https://generativelanguage.googleapis.com',
  openai_compatible: null,
};

/** Whether a harness that speaks so can be led to a provider of this kind. */
export const speaks = (kind: ProviderKind, spoken: Spoken): boolean =>
  spoken === 'any' || dialectsOf[kind].includes(spoken);

interface Options {
  /** `[providers.<id>]` of the configuration. */
  settings: Record<string, ProviderConfig>;
  /** The daemon's environment. */
  env: Record<string, string | undefined>;
}

/**
 * The providers of models: those of the configuration, and those for which the daemon's environment has a key or an address.
 * Keys are looked up anew each time, so that a changed file counts from the next run on.
 */
export function createProviders({ settings, env }: Options) {
  const ids = [...new Set([...known.map(({ id }) => id as string), ...Object.keys(settings)])];

  const kindOf = (id: string): ProviderKind =>
    settings[id]?.kind ?? known.find((one) => one.id === id)?.id ?? 'openai_compatible';

  const keyFor = (id: string): string | null => {
    const { api_key_env, api_key_file } = settings[id] ?? {};
    if (api_key_file !== undefined) {
      try {
        return readFileSync(api_key_file, 'utf8').trim() || null;
      } catch {
        return null;
      }
    }
    if (api_key_env !== undefined) return env[api_key_env] || null;
    const standard = known.find((one) => one.id === id);
    return (standard && keyOf(standard, env)) ?? null;
  };

  const accessTo = (id: string): ProviderAccess | undefined => {
    const kind = kindOf(id);
    const standard = known.find((one) => one.id === id);
    const own = settings[id];
    const address = own?.base_url ?? (standard && env[standard.address]) ?? addresses[kind];
    const key = keyFor(id);
    const isKeyNeeded =
      kind !== 'openai_compatible' || own?.api_key_env !== undefined || own?.api_key_file !== undefined;
    if (!address || (key === null && isKeyNeeded)) return undefined;
    const models = Object.fromEntries(
      Object.entries(own?.models ?? {}).map(([name, { input, output, ...more }]): [string, PriceSetting | null] => [
        name,
        input === undefined || output === undefined ? null : { input, output, ...more },
      ]),
    );
    return { id, kind, base_url: address.replace(/\/+$/, ''), key, models };
  };

  const ready = (spoken: Spoken): ProviderAccess[] =>
    ids
      .filter((id) => speaks(kindOf(id), spoken))
      .map(accessTo)
      .filter((one) => one !== undefined);

  /** `provider/model` of a provider that is known here; a model's own name may have slashes, too. */
  const split = (model: string): [id: string, model: string] | null => {
    const slash = model.indexOf('/');
    const id = model.slice(0, Math.max(0, slash));
    return ids.includes(id) ? [id, model.slice(slash + 1)] : null;
  };

  const isOurs = ({ kind, models }: ProviderAccess, model: string): boolean =>
    model in models || (known.find(({ id }) => id === kind)?.models.test(model) ?? false);

  return {
    /** All that are known, with or without a key. */
    list: (): ProviderShown[] =>
      ids.map((id) => ({
        id,
        kind: kindOf(id),
        ready: accessTo(id) !== undefined,
        models: accessTo(id)?.models ?? {},
      })),

    /**
     * Where the calls of a harness go that speaks `spoken`, for a model as the user named it (`provider/model`, a bare id, or
     * null for the default). Undefined when no provider can be called.
     */
    route(spoken: Spoken, model: string | null): Route | undefined {
      const candidates = ready(spoken);
      if (model === null) {
        const [provider] = candidates;
        if (!provider || spoken !== 'any') return provider && { provider, model: null };
        const standard = known.find(({ id }) => id === provider.kind)?.default_model ?? null;
        return { provider, model: Object.keys(provider.models)[0] ?? standard };
      }
      const named = split(model);
      if (named) {
        const provider = candidates.find(({ id }) => id === named[0]);
        if (provider) return { provider, model: named[1] };
      }
      const provider =
        candidates.find((one) => isOurs(one, model)) ??
        candidates.find(({ kind }) => kind === 'openai_compatible') ??
        (spoken === 'any' ? undefined : candidates[0]);
      return provider && { provider, model };
    },

    /** The variables that would make a provider for this interface callable, to be named to the user. */
    keyNames: (spoken: Spoken): string[] =>
      known.filter(({ id }) => speaks(id, spoken)).flatMap(({ keys }) => keys[0] ?? []),
  };
}
export type Providers = ReturnType<typeof createProviders>;
