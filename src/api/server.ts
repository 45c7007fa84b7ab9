import { Type, type Static } from 'typebox';
import { Money, named, nullable, Uuid } from './common.ts';
import { Credits } from './credits.ts';
import { scopes } from './endpoint.ts';

/** The version of the interface description (specification, section 9). */
export const apiVersion = '0.9.0';

export const Me = named('Me', {
  principal: Type.Object(
    {
      type: Type.Enum(['api_key', 'user']),
      id: Uuid,
      name: Type.String(),
      credential: Type.Enum(['api_key', 'session', 'oauth']),
    },
    { additionalProperties: false },
  ),
  organization: Type.Object(
    { id: Uuid, name: Type.String(), credit_policy: Type.Enum(['unlimited', 'prepaid']) },
    { additionalProperties: false },
  ),
  memberships: Type.Array(
    Type.Object({ organization_id: Uuid, name: Type.String(), role: Type.String() }, { additionalProperties: false }),
  ),
  scopes: Type.Array(Type.Enum([...scopes])),
  credits: Credits,
  server: Type.Object(
    {
      version: Type.String(),
      api_version: Type.String(),
      sandbox: Type.Object(
        {
          available: Type.Boolean(),
          level: Type.Enum(['none', 'bubblewrap', 'seatbelt', 'container']),
          reason: nullable(Type.String()),
          remedy: nullable(Type.String()),
        },
        { additionalProperties: false, description: 'Whether runs can be enclosed here; if not, why, and what to do.' },
      ),
    },
    { additionalProperties: false },
  ),
});
export type Me = Static<typeof Me>;

export const Harness = named('Harness', {
  id: Type.String(),
  name: Type.String(),
  installed: Type.Boolean(),
  version: nullable(Type.String()),
  path: nullable(Type.String()),
  status: Type.Enum(['available', 'needs_login', 'not_installed', 'broken']),
  capabilities: Type.Object(
    {
      resume: Type.Boolean(),
      input: Type.Boolean(),
      mcp: Type.Boolean(),
      usage: Type.Boolean(),
      cost: Type.Boolean(),
      models: Type.Boolean(),
      sandbox: Type.Boolean(),
    },
    { additionalProperties: false },
  ),
  install_hint: nullable(Type.String()),
});
export type Harness = Static<typeof Harness>;

export const Model = named('Model', {
  id: Type.String(),
  provider: Type.String(),
  display_name: Type.String(),
  harnesses: Type.Array(Type.String()),
  enabled: Type.Boolean(),
  context_window: nullable(Type.Integer()),
  max_output_tokens: nullable(Type.Integer()),
  pricing: nullable(
    Type.Object(
      { input: nullable(Money), cached_input: nullable(Money), cache_write: nullable(Money), output: nullable(Money) },
      { additionalProperties: false, description: 'Micro-US-dollars per million tokens.' },
    ),
  ),
  status: Type.Enum(['available', 'missing_credentials', 'unavailable']),
});
export type Model = Static<typeof Model>;
