import type { LanguageModel } from 'ai';
import { isReachable, keyOf, type Provider, providers } from '../base/providers.ts';
import { RpcError } from './peer.ts';

type Variables = Record<string, string | undefined>;

/** A model that was chosen: `name` is `provider/model`. */
export interface Choice {
  name: string;
  provider: Provider;
  model: string;
}

/** Variables of the agent that no command may see: keys, and the way past the gateway. */
export const secretVariables: readonly string[] = [
  ...providers.flatMap(({ keys }) => keys),
  'AGENTCTL_GATEWAY',
  'AGENTCTL_GATEWAY_KEY',
];

/**
 * The model to use: `AGENTCTL_MODEL` as `provider/model` or a bare id, otherwise `AGENTCTL_DEFAULT_MODEL`, otherwise the default
 * of the first provider that has a key. Throws ACP's "authentication required" (-32000) when no provider can be asked.
 */
export function chooseModel(env: Variables): Choice {
  const wanted = env.AGENTCTL_MODEL || env.AGENTCTL_DEFAULT_MODEL;
  const usable = (provider: Provider): boolean => Boolean(env.AGENTCTL_GATEWAY) || isReachable(provider, env);
  if (!wanted) {
    const provider = providers.find((one) => one.default_model !== null && usable(one));
    if (!provider?.default_model) throw noProvider('No provider of models has a key here');
    return { name: `${provider.id}/${provider.default_model}`, provider, model: provider.default_model };
  }
  const slash = wanted.indexOf('/');
  const named = providers.find(({ id }) => id === wanted.slice(0, Math.max(0, slash)));
  const model = named ? wanted.slice(slash + 1) : wanted;
  const provider =
    named ??
    providers.find(({ models }) => models.test(model)) ??
    providers.toReversed().find((one) => !env.AGENTCTL_GATEWAY && isReachable(one, env));
  if (!provider)
    throw new RpcError(-32602, `Nobody here knows the model "${wanted}". Name its provider, as in "openai/${wanted}".`);
  if (!usable(provider)) throw noProvider(`There is no key for the provider of "${provider.id}/${model}"`);
  return { name: `${provider.id}/${model}`, provider, model };
}

const noProvider = (what: string): RpcError => {
  const names = providers.flatMap(({ keys }) => keys[0] ?? []).join(', ');
  return new RpcError(-32000, `${what}. Set one of ${names} where the daemon is started.`);
};

/** An address with this last segment, which may be there already. */
const ending = (address: string, segment: string): string => {
  const base = address.replace(/\/+$/, '');
  return /\/v\d\w*$/.test(base) ? base : `${base}/${segment}`;
};

/** The model itself. Only the package of its provider is loaded. */
export async function openModel({ provider, model }: Choice, env: Variables): Promise<LanguageModel> {
  const gateway = env.AGENTCTL_GATEWAY;
  const address = gateway || env[provider.address];
  const apiKey = gateway ? (env.AGENTCTL_GATEWAY_KEY ?? 'none') : (keyOf(provider, env) ?? 'none');
  const at = (segment: string) => (address ? { baseURL: ending(address, segment) } : {});
  switch (provider.id) {
    case 'anthropic': {
      const { createAnthropic } = await import('@ai-sdk/anthropic');
      return createAnthropic({ apiKey, ...at('v1') })(model);
    }
    case 'openai': {
      const { createOpenAI } = await import('@ai-sdk/openai');
      return createOpenAI({ apiKey, ...at('v1') }).responses(model);
    }
    case 'google': {
      const { createGoogle } = await import('@ai-sdk/google');
      return createGoogle({ apiKey, ...at('v1beta') })(model);
    }
    case 'openai_compatible': {
      const { createOpenAICompatible } = await import('@ai-sdk/openai-compatible');
      // The user's own address is whole already; the gateway's is not.
      const baseURL = gateway ? ending(gateway, 'v1') : (address ?? '');
      return createOpenAICompatible({
        name: 'openai_compatible',
        apiKey,
        baseURL,
        includeUsage: true,
        supportsStructuredOutputs: true,
      })(model);
    }
  }
}
