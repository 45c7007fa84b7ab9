import type { CreditEntry } from '../api/credits.ts';
import type { Db } from '../base/db.ts';
import { insertSql } from '../base/rows.ts';

/** An account in micro-USD. */
export interface Account {
  balance: bigint;
  held: bigint;
}

interface Row {
  balance: string;
  held: string;
}

const columns = `key, id, organization_id, kind, CAST(amount_micro_usd AS TEXT) AS amount_micro_usd, run_id, note,
  CAST(balance_after AS TEXT) AS balance_after_micro_usd, CAST(held_after AS TEXT) AS held_after_micro_usd, created_at`;

export const createStore = (db: Db) => ({
  account(organization: string): Account {
    const row = db.get<Row>(
      'SELECT CAST(balance AS TEXT) AS balance, CAST(held AS TEXT) AS held FROM credit_accounts WHERE organization_id = ?',
      [organization],
    );
    return { balance: BigInt(row?.balance ?? 0), held: BigInt(row?.held ?? 0) };
  },

  /** Writes down what happened, and what the account is after it. */
  add(entry: Omit<CreditEntry, 'balance_after_micro_usd' | 'held_after_micro_usd'>, { balance, held }: Account) {
    const { organization_id, amount_micro_usd } = entry;
    db.run('INSERT OR REPLACE INTO credit_accounts (organization_id, balance, held) VALUES (?, ?, ?)', [
      organization_id,
      balance,
      held,
    ]);
    const row = { ...entry, amount_micro_usd: BigInt(amount_micro_usd), balance_after: balance, held_after: held };
    db.run(insertSql('credit_entries', row), row);
  },

  /** What was held for a run and has not been given back or charged; undefined when nothing is. */
  openHold: (run: string): string | undefined =>
    db.get<{ amount: string }>(
      `SELECT CAST(amount_micro_usd AS TEXT) AS amount FROM credit_entries WHERE run_id = :run AND kind = 'hold'
       AND NOT EXISTS (SELECT 1 FROM credit_entries WHERE run_id = :run AND kind = 'release')`,
      { run },
    )?.amount,

  list: (organization: string, after: number | null, limit: number): (CreditEntry & { key: number })[] =>
    db.all(
      `SELECT ${columns} FROM credit_entries WHERE organization_id = :organization AND key < :after ORDER BY key DESC LIMIT :limit`,
      { organization, limit, after: after ?? Number.MAX_SAFE_INTEGER },
    ),
});
