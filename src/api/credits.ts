import { Type, type Static } from 'typebox';
import { input, Money, named, nullable, Time, Uuid } from './common.ts';

/** Money that may be owed. */
const SignedMoney = Type.String({ pattern: '^(0|-?[1-9][0-9]{0,17})$' });

export const Credits = named(
  'Credits',
  {
    policy: Type.Enum(['unlimited', 'prepaid']),
    balance_micro_usd: Type.String({
      pattern: '^(0|-?[1-9][0-9]{0,17})$',
      description: 'Granted and not charged. Below zero only where the last call of a model cost more than was held.',
    }),
    held_micro_usd: Type.String({ pattern: '^(0|[1-9][0-9]{0,17})$', description: 'For runs that have not ended.' }),
    available_micro_usd: SignedMoney,
  },
  'What an organization has to spend on managed runs, if it pays ahead.',
);
export type Credits = Static<typeof Credits>;

export const creditKinds = ['grant', 'hold', 'release', 'charge'] as const;

export const CreditEntry = named(
  'CreditEntry',
  {
    id: Uuid,
    organization_id: Uuid,
    kind: Type.Enum([...creditKinds]),
    amount_micro_usd: Money,
    run_id: nullable(Uuid),
    note: nullable(Type.String()),
    balance_after_micro_usd: SignedMoney,
    held_after_micro_usd: Money,
    created_at: Time,
  },
  'Something that happened to the credits. A grant adds to the balance, a charge takes from it; a hold keeps back, a release gives back.',
);
export type CreditEntry = Static<typeof CreditEntry>;

export const CreditGrant = input('CreditGrant', {
  amount_micro_usd: Type.String({ pattern: '^[1-9][0-9]{0,14}$', description: 'At most 999,999,999 dollars at once.' }),
  note: Type.Optional(nullable(Type.String({ maxLength: 512 }))),
});
export type CreditGrant = Static<typeof CreditGrant>;
