import { Fault } from '../api/error.ts';
import type { Run, RunLimits } from '../api/runs.ts';
import { type Clock, iso } from '../base/clock.ts';
import type { Config } from '../base/config.ts';
import type { CreditsRoom } from '../credits/credits.ts';
import type { Registry } from '../harness/registry.ts';
import type { Providers } from '../providers/providers.ts';
import type { GatewaySpec } from '../runner/protocol.ts';
import type { UsageLedger } from '../usage/usage.ts';
import type { RunRow } from './store.ts';

interface Needs {
  clock: Clock;
  config: Pick<Config, 'budgets'>;
  usage: Pick<UsageLedger, 'spent'>;
  registry: Pick<Registry, 'kind' | 'managedDialect' | 'knowsCost'>;
  providers: Pick<Providers, 'route' | 'keyNames'>;
  credits: Pick<CreditsRoom, 'limitOf'>;
}

type Mode = Run['billing_mode'];

/** Who pays for a run, and by which way its calls of models go. */
export interface Billing {
  /**
   * The mode of a new run: what was wished for, otherwise `managed` where it can be. Throws `invalid_request` for a `managed` run
   * of a harness whose provider has no key here.
   */
  modeOf(harness: string, model: string | null, wanted: Mode | undefined): Mode;
  /** The limits of a new run: where it is paid ahead, an agent that names no cost limit has the usual one. */
  limitsOf(organization: string, harness: string, mode: Mode, limits: RunLimits | undefined): RunLimits;
  /** Throws `invalid_request` when a cost limit could not be kept. */
  assertKept(limits: RunLimits | undefined, harness: string, model: string | null, mode: Mode): void;
  /** Throws `insufficient_credits` for a managed run when the month's budget of its organization or project is used up. */
  assertBudget(mode: Mode, harness: string, owner: { organization_id: string; id: string }): void;
  /** Whether the run's calls go through a gateway. */
  isMetered(row: Pick<RunRow, 'harness' | 'billing_mode'>): boolean;
  /** The gateway of a run that is to begin; null for one whose harness calls models by itself, undefined when the key has gone. */
  gatewayOf(row: Pick<RunRow, 'harness' | 'model' | 'billing_mode'>): GatewaySpec | null | undefined;
}

const refuse = (path: string, message: string): Fault =>
  new Fault('invalid_request', message, { param: path, details: { errors: [{ path: `/${path}`, message }] } });

/**
 * The rules of contract section 7, "billing_mode": a managed run's calls go through its gateway, with a key of ours. A harness
 * that cannot be told where to call is metered by what it reports, and `external` is the harness's own account.
 */
export function createBilling({ clock, config, registry, providers, usage, credits }: Needs): Billing {
  const routeOf = (harness: string, model: string | null) => {
    const dialect = registry.managedDialect(harness);
    return dialect === null ? null : providers.route(dialect, model);
  };

  return {
    modeOf(harness, model, wanted) {
      if (wanted === 'external') return 'external';
      if (routeOf(harness, model) !== undefined) return 'managed';
      if (wanted === undefined) return 'external';
      const names = providers.keyNames(registry.managedDialect(harness) ?? 'any').join(' or ');
      throw refuse(
        'billing_mode',
        `There is no key of a provider for the harness "${harness}"${model === null ? '' : ` and the model "${model}"`}. Set ${names} where the daemon is started, or send billing_mode "external" to use the harness's own login.`,
      );
    },

    limitsOf(organization, harness, mode, limits = {}) {
      const named = limits.max_cost_micro_usd !== undefined;
      if (named || mode === 'external' || registry.kind(harness) === 'shell') return limits;
      const max_cost_micro_usd = credits.limitOf(organization);
      return max_cost_micro_usd === null ? limits : { ...limits, max_cost_micro_usd };
    },

    assertKept(limits, harness, model, mode) {
      if (limits?.max_cost_micro_usd === undefined || registry.knowsCost(harness)) return;
      if (mode === 'managed' && routeOf(harness, model)) return;
      throw refuse(
        'limits/max_cost_micro_usd',
        `The harness "${harness}" does not report what it costs, so a cost limit cannot be kept.`,
      );
    },

    assertBudget(mode, harness, { organization_id, id }) {
      if (mode === 'external' || registry.kind(harness) === 'shell') return;
      const { organization_month_usd, project_month_usd } = config.budgets;
      const month = `${iso(clock.now()).slice(0, 7)}-01T00:00:00.000Z`;
      const check = (what: 'organization' | 'project', whose: string, dollars: number | undefined): void => {
        if (dollars === undefined) return;
        const spent = usage.spent(`${what}_id`, whose, month);
        if (spent < BigInt(Math.round(dollars * 1e6))) return;
        throw new Fault(
          'insufficient_credits',
          `The budget of this ${what} for this month, ${dollars} US dollars, is used up. It is the setting budgets.${what}_month_usd.`,
          {
            details: {
              available_micro_usd: '0',
              required_micro_usd: null,
              spent_micro_usd: String(spent),
              budget: what,
            },
          },
        );
      };
      check('organization', organization_id, organization_month_usd);
      check('project', id, project_month_usd);
    },

    isMetered: ({ harness, billing_mode }) => billing_mode === 'managed' && registry.managedDialect(harness) !== null,

    gatewayOf({ harness, model, billing_mode }) {
      if (billing_mode === 'external') return null;
      const route = routeOf(harness, model);
      return route && { ...route, key: clock.random(24).toString('base64url') };
    },
  };
}
