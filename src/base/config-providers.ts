import { Type } from 'typebox';

/** `[providers.<id>]` of config.toml: where models are called, and with which key. */
export const ProviderSettings = Type.Record(
  Type.String({ pattern: '^[a-z0-9][a-z0-9_-]{0,63}$' }),
  Type.Object(
    {
      kind: Type.Optional(Type.Enum(['anthropic', 'openai', 'google', 'openai_compatible'])),
      base_url: Type.Optional(Type.String({ pattern: '^https?://', description: 'Another address than its own.' })),
      api_key_env: Type.Optional(
        Type.String({ minLength: 1, description: 'The variable of the daemon’s environment that holds the key.' }),
      ),
      api_key_file: Type.Optional(
        Type.String({ pattern: '^/', description: 'A file that holds the key and nothing else.' }),
      ),
      models: Type.Optional(
        Type.Record(
          Type.String({ minLength: 1 }),
          Type.Object(
            {
              input: Type.Optional(Type.Number({ minimum: 0 })),
              output: Type.Optional(Type.Number({ minimum: 0 })),
              cached_input: Type.Optional(Type.Number({ minimum: 0 })),
              cache_write: Type.Optional(Type.Number({ minimum: 0 })),
            },
            { additionalProperties: false },
          ),
          { description: 'Models of one’s own, and what they cost in US dollars per million tokens.' },
        ),
      ),
    },
    { additionalProperties: false },
  ),
  {
    default: {},
    additionalProperties: false,
    description: 'Where models are called: more providers, or changes to anthropic, openai and google.',
  },
);
