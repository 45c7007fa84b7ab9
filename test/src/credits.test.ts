import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Fault } from '../../src/api/error.ts';
import { noUsage } from '../../src/api/figures.ts';
import type { ModelCall } from '../../src/api/usage.ts';
import { iso } from '../../src/base/clock.ts';
import { type Db, openDb, type Tx } from '../../src/base/db.ts';
import { packageRoot } from '../../src/base/root.ts';
import { createCredits } from '../../src/credits/credits.ts';
import { createEvents } from '../../src/events/events.ts';
import { createUsage } from '../../src/usage/usage.ts';
import { createTestClock } from '../kit/clock.ts';
import { rounds } from '../kit/random.ts';

const organization = 'o';

/** The ledgers over a database that can be left at any time, as by a kill. */
function openLedgers(folder: string) {
  const clock = createTestClock();
  let db: Db;
  let events: ReturnType<typeof createEvents>;
  let credits: ReturnType<typeof createCredits>;
  let usage: ReturnType<typeof createUsage>;
  const open = () => {
    db = openDb(join(folder, 'test.db'), join(packageRoot, 'src/schema'));
    events = createEvents({ db });
    const { announce } = events;
    credits = createCredits({ db, clock, isPrepaid: () => true, usualHold: 1_000n, low: 500n, announce });
    usage = createUsage({ db, clock });
  };
  open();
  return {
    clock,
    get credits() {
      return credits;
    },
    get usage() {
      return usage;
    },
    write: <T>(fn: (tx: Tx) => T): T => db.write(fn),
    announced: () => events.announcements(10).filter(({ type }) => type === 'credits.low').length,
    /** Does something, dies before it is committed, and starts again. */
    die(fn: (tx: Tx) => void) {
      try {
        db.write((tx) => {
          fn(tx);
          throw new Error('killed');
        });
      } catch {
        // As by kill -9: nothing of it is there.
      }
      db.close();
      open();
    },
    close: () => db.close(),
  };
}

const ownerOf = (id: string) => ({
  id,
  organization_id: organization,
  project_id: 'p',
  workspace_id: 'w',
  session_id: `s${id}`,
  agent_id: null,
  api_key_id: null,
  harness: 'builtin',
  billing_mode: 'managed' as const,
  model: 'm',
});
const callOf = (call_id: string, at: number, cost: number): ModelCall => ({
  call_id,
  at: iso(at),
  provider: 'anthropic',
  model: cost % 2 ? 'm' : 'n',
  dialect: 'anthropic',
  status: 'completed',
  http_status: 200,
  main: true,
  duration_ms: 1,
  input_tokens: cost,
  cached_input_tokens: 0,
  cache_write_tokens: 0,
  output_tokens: 1,
  reasoning_tokens: 0,
  cost_micro_usd: String(cost),
  cost_source: 'reported',
});

type Step =
  | { do: 'grant'; amount: number }
  | { do: 'accept'; limit: number }
  | { do: 'call'; run: number; call: number; cost: number }
  | { do: 'end'; run: number }
  | { do: 'wait'; hours: number };
const run = fc.nat(7);
const step: fc.Arbitrary<{ step: Step; dies: boolean }> = fc.record({
  step: fc.oneof(
    fc.record({ do: fc.constant('grant' as const), amount: fc.integer({ min: 1, max: 5_000 }) }),
    fc.record({ do: fc.constant('accept' as const), limit: fc.integer({ min: 1, max: 2_000 }) }),
    fc.record({ do: fc.constant('call' as const), run, call: fc.nat(3), cost: fc.nat(900) }),
    fc.record({ do: fc.constant('end' as const), run }),
    fc.record({ do: fc.constant('wait' as const), hours: fc.nat(40) }),
  ),
  dies: fc.boolean(),
});

test('through any history of grants, runs, repetitions and crashes, ledger, usage and runs agree to the micro-dollar', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const folder = mkdtempSync(join(tmpdir(), 'agentctl-credits-'));
      const ledgers = openLedgers(folder);
      const begun = ledgers.clock.now();
      /** What must be: granted money, and of each run its hold, its calls and whether it has ended. */
      let granted = 0;
      const runs: { id: string; hold: number; calls: Map<number, number>; ended: boolean }[] = [];
      const spentOf = ({ calls }: (typeof runs)[number]) => [...calls.values()].reduce((sum, cost) => sum + cost, 0);
      const expected = () => {
        const charged = runs.filter(({ ended }) => ended).reduce((sum, one) => sum + spentOf(one), 0);
        const held = runs.filter(({ ended }) => !ended).reduce((sum, { hold }) => sum + hold, 0);
        return { balance: granted - charged, held };
      };

      const perform = (one: Step): ((tx: Tx) => void) | undefined => {
        if (one.do === 'grant')
          return (tx) => void ledgers.credits.grant(tx, organization, { amount_micro_usd: String(one.amount) });
        if (one.do === 'accept')
          return (tx) => {
            const id = `r${runs.length}`;
            ledgers.credits.hold(tx, organization, id, String(one.limit));
            ledgers.usage.begin(tx, { ...ownerOf(id), created_at: iso(ledgers.clock.now()) });
          };
        if (one.do === 'wait') return undefined;
        const target = runs[one.run];
        if (!target) return undefined;
        const { id } = target;
        if (one.do === 'call')
          return target.ended
            ? undefined
            : (tx) => ledgers.usage.record(tx, ownerOf(id), callOf(String(one.call), ledgers.clock.now(), one.cost));
        return (tx) => {
          const figures = ledgers.usage.summed(id, noUsage);
          ledgers.usage.finish(tx, id, figures, 'm');
          ledgers.credits.settle(tx, organization, id, figures.cost_micro_usd);
        };
      };
      const learn = (one: Step) => {
        if (one.do === 'grant') granted += one.amount;
        else if (one.do === 'accept')
          runs.push({ id: `r${runs.length}`, hold: one.limit, calls: new Map(), ended: false });
        else if (one.do === 'call') {
          const { calls } = runs[one.run]!;
          // The same call told again is the same call.
          if (!calls.has(one.call)) calls.set(one.call, one.cost);
        } else if (one.do === 'end') runs[one.run]!.ended = true;
      };

      for (const { step: one, dies } of steps) {
        if (one.do === 'wait') ledgers.clock.advance(one.hours * 3_600_000);
        const act = perform(one);
        if (!act) continue;
        if (dies) ledgers.die(act);
        const before = expected();
        let refused = false;
        try {
          ledgers.write(act);
        } catch (error) {
          refused = (error as Fault).code === 'insufficient_credits';
          if (!refused) throw error;
        }
        expect(refused).toBe(one.do === 'accept' && one.limit > before.balance - before.held);
        if (!refused) learn(one);

        const { balance, held } = expected();
        expect(ledgers.credits.get(organization)).toEqual({
          policy: 'prepaid',
          balance_micro_usd: String(balance),
          held_micro_usd: String(held),
          available_micro_usd: String(balance - held),
        });
      }

      const paging = { limit: 200, after: null, seal: String };
      const entries = ledgers.credits.ledger(organization, paging).data.toReversed();
      let [balance, held] = [0, 0];
      for (const { kind, amount_micro_usd, balance_after_micro_usd, held_after_micro_usd } of entries) {
        const amount = Number(amount_micro_usd);
        if (kind === 'grant') balance += amount;
        else if (kind === 'charge') balance -= amount;
        else held += kind === 'hold' ? amount : -amount;
        expect([balance_after_micro_usd, held_after_micro_usd]).toEqual([String(balance), String(held)]);
      }
      const total = runs.reduce((sum, one) => sum + spentOf(one), 0);
      ledgers.clock.advance(1);
      const range = { from: iso(begun), to: iso(ledgers.clock.now()) };
      for (const bucket of ['total', 'hour', 'day', 'month'] as const)
        for (const group_by of ['', 'model', 'session,model']) {
          const { data, totals } = ledgers.usage.inRange(
            organization,
            { ...range, bucket, group_by, time_zone: 'Asia/Kathmandu' },
            { limit: 10_000, after: null, seal: String },
          );
          expect(data.reduce((sum, { cost_micro_usd }) => sum + Number(cost_micro_usd), 0)).toBe(total);
          expect(data.reduce((sum, one) => sum + one.runs, 0)).toBe(runs.length);
          expect(totals).toMatchObject({ runs: runs.length, cost_micro_usd: String(total) });
        }
      for (const one of runs) expect(Number(ledgers.usage.summed(one.id, noUsage).cost_micro_usd)).toBe(spentOf(one));
      ledgers.close();
      rmSync(folder, { recursive: true });
    }),
    { numRuns: rounds({ short: 25, long: 500 }, 'AGENTCTL_HISTORIES') },
  );
});

test('that little is left is told once, by the hold that goes below the mark', () => {
  const folder = mkdtempSync(join(tmpdir(), 'agentctl-credits-'));
  const ledgers = openLedgers(folder);
  ledgers.write((tx) => ledgers.credits.grant(tx, organization, { amount_micro_usd: '1000' }));
  const told = ['300', '100', '101', '100'].map((limit, index) => {
    ledgers.write((tx) => ledgers.credits.hold(tx, organization, `r${index}`, limit));
    return ledgers.announced();
  });
  expect(told).toEqual([0, 0, 1, 1]);
  ledgers.close();
  rmSync(folder, { recursive: true });
});
