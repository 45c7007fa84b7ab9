import { Type, type Static } from 'typebox';
import { input, Name, named, nullable, resource, Time, Uuid } from './common.ts';
import { scopes } from './endpoint.ts';

const Scopes = Type.Array(Type.Enum([...scopes]));

const apiKey = {
  ...resource,
  name: Type.String(),
  prefix: Type.String({ description: 'How the key begins.' }),
  last4: Type.String({ description: 'How the key ends.' }),
  scopes: Scopes,
  created_by: Type.String({ description: 'The user or the key that made it.' }),
  expires_at: nullable(Time),
  last_used_at: nullable(Type.String({ format: 'date-time', description: 'To the minute.' })),
  revoked_at: nullable(Time),
};
export const ApiKey = named('ApiKey', apiKey, 'What is known of a key; never the key itself.');
export type ApiKey = Static<typeof ApiKey>;

export const NewApiKey = named(
  'NewApiKey',
  { ...apiKey, key: nullable(Type.String({ description: 'Shown this once.' })) },
  'A key that was just made. A repetition of the request shows it for ten minutes, then null.',
);
export type NewApiKey = Static<typeof NewApiKey>;

export const ApiKeyCreate = input('KeyCreate', {
  name: Name,
  scopes: Type.Array(Type.Enum([...scopes]), {
    minItems: 1,
    uniqueItems: true,
    description: 'No more than whoever makes the key has.',
  }),
  expires_at: Type.Optional(nullable(Time)),
});
export type ApiKeyCreate = Static<typeof ApiKeyCreate>;

export const Organization = named(
  'Organization',
  {
    id: Uuid,
    name: Type.String(),
    credit_policy: Type.Enum(['unlimited', 'prepaid']),
    created_at: Time,
    updated_at: Time,
  },
  'What everything belongs to.',
);
export type Organization = Static<typeof Organization>;

export const OrganizationCreate = input('OrganizationCreate', {
  name: Name,
  credit_policy: Type.Optional(Type.Enum(['unlimited', 'prepaid'])),
});
export type OrganizationCreate = Static<typeof OrganizationCreate>;

export const OrganizationPatch = input('OrganizationPatch', {
  name: Type.Optional(Name),
  credit_policy: Type.Optional(Type.Enum(['unlimited', 'prepaid'])),
});
export type OrganizationPatch = Static<typeof OrganizationPatch>;

export const Member = named(
  'Member',
  {
    user_id: Uuid,
    name: Type.String(),
    role: Type.Enum(['owner', 'member']),
    issuer: nullable(Type.String()),
    subject: nullable(Type.String()),
  },
  'A user who may act in an organization.',
);
export type Member = Static<typeof Member>;

export const MemberCreate = input('MemberCreate', {
  issuer: Type.String({ minLength: 1, maxLength: 2048, description: '`iss` of the user’s tokens.' }),
  subject: Type.String({ minLength: 1, maxLength: 255, description: '`sub` of the user’s tokens.' }),
  name: Type.Optional(Name),
});
export type MemberCreate = Static<typeof MemberCreate>;

export const SignInCode = named(
  'SignInCode',
  {
    code: Type.String({ description: 'For one use.' }),
    url: Type.String({
      description: 'The reference page, with the code in its fragment, which no server gets to see.',
    }),
    expires_at: Time,
  },
  'Lets a browser in.',
);
export type SignInCode = Static<typeof SignInCode>;

export const BrowserSessionCreate = input('BrowserSessionCreate', {
  code: Type.String({ minLength: 1, maxLength: 128 }),
});

export const BrowserSession = named(
  'BrowserSession',
  { token: Type.String({ description: 'To be sent as Authorization: Bearer.' }), expires_at: Time },
  'A session of a browser; to be kept in sessionStorage, never in a cookie.',
);
export type BrowserSession = Static<typeof BrowserSession>;
