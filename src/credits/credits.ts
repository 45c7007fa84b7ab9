import type { Page } from '../api/common.ts';
import type { CreditEntry, CreditGrant, Credits } from '../api/credits.ts';
import { Fault } from '../api/error.ts';
import { type Clock, iso } from '../base/clock.ts';
import type { Db, Tx } from '../base/db.ts';
import { type Paging, toPage } from '../base/page.ts';
import type { Events } from '../events/events.ts';
import { type Account, createStore } from './store.ts';

interface Needs {
  db: Db;
  clock: Clock;
  /** Whether an organization pays ahead. */
  isPrepaid(organization: string): boolean;
  /** Micro-USD that are held for a run that names no cost limit. */
  usualHold: bigint;
  /** Micro-USD: when a hold leaves less than this available, that is told. */
  low: bigint;
  announce: Events['announce'];
}

/**
 * Prepaid credits (contract section 9): a managed run holds its cost limit when it is accepted; at its end it is charged what it
 * used and gets the rest back, once, in the transaction of its end.
 */
export function createCredits({ db, clock, isPrepaid, usualHold, low, announce }: Needs) {
  const store = createStore(db);

  const describe = (organization: string, { balance, held }: Account): Credits => ({
    policy: isPrepaid(organization) ? 'prepaid' : 'unlimited',
    balance_micro_usd: String(balance),
    held_micro_usd: String(held),
    available_micro_usd: String(balance - held),
  });

  const write = (
    organization_id: string,
    kind: CreditEntry['kind'],
    amount: bigint,
    { run_id = null, note = null }: { run_id?: string | null; note?: string | null },
  ): CreditEntry => {
    const { balance, held } = store.account(organization_id);
    const after = {
      balance: kind === 'grant' ? balance + amount : kind === 'charge' ? balance - amount : balance,
      held: kind === 'hold' ? held + amount : kind === 'release' ? held - amount : held,
    };
    const entry = {
      id: clock.id(),
      organization_id,
      kind,
      amount_micro_usd: String(amount),
      run_id,
      note,
      created_at: iso(clock.now()),
    };
    store.add(entry, after);
    return { ...entry, balance_after_micro_usd: String(after.balance), held_after_micro_usd: String(after.held) };
  };

  return {
    /** What an organization has. */
    get: (organization: string): Credits => describe(organization, store.account(organization)),

    /** Everything that happened, newest first. */
    ledger: (organization: string, paging: Paging): Page<CreditEntry> =>
      toPage(store.list(organization, paging.after, paging.limit + 1), paging, ({ key: _key, ...entry }) => entry),

    /** Adds to the balance. */
    grant: (_tx: Tx, organization: string, { amount_micro_usd, note = null }: CreditGrant): CreditEntry =>
      write(organization, 'grant', BigInt(amount_micro_usd), { note }),

    /** The cost limit of a managed run that names none, in micro-USD; null where runs are not paid ahead. */
    limitOf: (organization: string): string | null => (isPrepaid(organization) ? String(usualHold) : null),

    /**
     * Holds what a managed run may cost, where runs are paid ahead and it may cost something. Throws `insufficient_credits` when
     * that much is not available.
     */
    hold(tx: Tx, organization: string, run_id: string, limit: string | null): void {
      if (limit === null || limit === '0' || !isPrepaid(organization)) return;
      const { balance, held } = store.account(organization);
      const available = balance - held;
      const required = BigInt(limit);
      if (required > available)
        throw new Fault(
          'insufficient_credits',
          'The credits do not cover what this run may cost. Grant more, or give it a lower cost limit.',
          { details: { available_micro_usd: String(available), required_micro_usd: String(required) } },
        );
      write(organization, 'hold', required, { run_id });
      if (available < low || available - required >= low) return;
      const { policy: _policy, ...credits } = describe(organization, store.account(organization));
      announce(tx, {
        organization_id: organization,
        run_id: null,
        type: 'credits.low',
        created_at: iso(clock.now()),
        data: { object: 'credits', id: organization, ...credits },
      });
    },

    /** Ends a run's hold: charges what it cost and gives back what was held. Again, or without a hold, it does nothing. */
    settle(_tx: Tx, organization: string, run_id: string, cost: string | null): void {
      const held = store.openHold(run_id);
      if (held === undefined) return;
      if (cost !== null && cost !== '0') write(organization, 'charge', BigInt(cost), { run_id });
      write(organization, 'release', BigInt(held), { run_id });
    },
  };
}
export type CreditsRoom = ReturnType<typeof createCredits>;
