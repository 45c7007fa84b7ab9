/** A model provider: where a key for it is looked for, and what is asked for when nobody names a model. */
export interface Provider {
  /** What stands before the slash in `provider/model`. */
  id: 'anthropic' | 'openai' | 'google' | 'openai_compatible';
  /** Variables that may hold a key; the first that is set counts. */
  keys: readonly string[];
  /** The variable that may hold another address than the provider's own. */
  address: string;
  /** Null where only the user can know. */
  default_model: string | null;
  /** Model ids that are known to be this provider's. */
  models: RegExp;
}

/** The providers, in the order in which they are taken when nothing is said. */
export const providers: readonly Provider[] = [
  {
    id: 'anthropic',
    keys: ['ANTHROPIC_API_KEY'],
    address: 'ANTHROPIC_BASE_URL',
    default_model: 'claude-sonnet-5',
    models: /^claude-/,
  },
  {
    id: 'openai',
    keys: ['OPENAI_API_KEY'],
    address: 'OPENAI_BASE_URL',
    default_model: 'gpt-6-sol',
    models: /^(gpt-\d|chatgpt-|codex-|o\d)/,
  },
  {
    id: 'google',
    keys: ['GEMINI_API_KEY', 'GOOGLE_API_KEY', 'GOOGLE_GENERATIVE_AI_API_KEY'],
    address: 'GOOGLE_GEMINI_BASE_URL',
    default_model: 'gemini-3.8-flash',
    models: /^gemini-/,
  },
  {
    id: 'openai_compatible',
    keys: ['OPENAI_COMPATIBLE_API_KEY'],
    address: 'OPENAI_COMPATIBLE_BASE_URL',
    default_model: null,
    models: /^$/,
  },
];

type Variables = Record<string, string | undefined>;

/** The key for a provider; undefined where there is none. */
export const keyOf = ({ keys }: Provider, env: Variables): string | undefined =>
  keys.map((name) => env[name]).find((value) => value !== undefined && value !== '');

/** True when the provider can be asked: it has a key or, where a server of one's own may need none, an address. */
export const isReachable = (provider: Provider, env: Variables): boolean =>
  keyOf(provider, env) !== undefined || (provider.id === 'openai_compatible' && Boolean(env[provider.address]));
