import type { ModelCall, Usage } from '../api/usage.ts';
import { iso } from '../base/clock.ts';
import { Gateway } from './gateway/gateway.ts';
import type { Stage } from './half.ts';
import type { GatewaySpec } from './protocol.ts';
import type { ModelFailure } from './verdict.ts';

/** Where a sandboxed harness finds the gateway: the sandbox leads this address to the gateway's socket. */
export const addressInside = 'http://127.0.0.1:4100';

type Figures = Omit<Usage, 'duration_ms' | 'tool_calls'>;

/** Nothing called, and so nothing spent. */
const none: Figures = {
  input_tokens: 0,
  cached_input_tokens: 0,
  cache_write_tokens: 0,
  output_tokens: 0,
  reasoning_tokens: 0,
  turns: 0,
  cost_micro_usd: '0',
  cost_source: 'reported',
};

/** The figures with one more call's. One cost that is unknown makes the sum unknown, one that is estimated the sum estimated. */
function plus(sum: Figures, call: ModelCall): Figures {
  const known = sum.cost_micro_usd !== null && call.cost_micro_usd !== null;
  const source = sum.cost_source === call.cost_source ? call.cost_source : 'estimated';
  return {
    input_tokens: sum.input_tokens + call.input_tokens,
    cached_input_tokens: sum.cached_input_tokens + call.cached_input_tokens,
    cache_write_tokens: sum.cache_write_tokens + call.cache_write_tokens,
    output_tokens: sum.output_tokens + call.output_tokens,
    reasoning_tokens: sum.reasoning_tokens + call.reasoning_tokens,
    turns: sum.turns + (call.main && call.status !== 'failed' ? 1 : 0),
    cost_micro_usd: known ? String(BigInt(sum.cost_micro_usd ?? '0') + BigInt(call.cost_micro_usd ?? '0')) : null,
    cost_source: known ? source : 'unknown',
  };
}

/** What a run's stage needs besides, to be told what its calls came to. */
interface MeteredStage extends Stage {
  /** Figures so far, as the gateway has them. */
  metered(figures: Figures): void;
  /** Bytes of an answer came by: a sign of life. */
  seen(): void;
}

/** The gateway of a run at work: each call becomes a record, the sums the run's figures. */
export class Billing {
  readonly #gateway: Gateway;
  readonly #isInside: boolean;

  private constructor(gateway: Gateway, isInside: boolean) {
    this.#gateway = gateway;
    this.#isInside = isInside;
  }

  /** Opens the gateway. Rejects when it cannot listen. */
  static async open(stage: MeteredStage, spec: GatewaySpec): Promise<Billing> {
    const { clock, journal } = stage;
    const { folder, limits, sandbox } = stage.spec;
    let sum = none;
    const gateway = await Gateway.open({
      spec,
      folder,
      clock,
      limits,
      tcp: sandbox === null,
      called(call) {
        sum = plus(sum, call);
        journal.record({ record: 'call', call });
        stage.metered(sum);
      },
      seen: () => stage.seen(),
      shut: (why) => stage.stop(why),
      retry: ({ at, ...more }) => journal.event('retry.scheduled', { ...more, at: iso(at) }, 'daemon'),
    });
    stage.metered(none);
    return new Billing(gateway, sandbox !== null);
  }

  /** The address by which the harness reaches the gateway. */
  get address(): string | null {
    return this.#isInside ? addressInside : this.#gateway.url;
  }

  /** How the last of the agent's own calls failed; null when it was good. */
  get failure(): ModelFailure | null {
    return this.#gateway.failure;
  }

  /** Ends what is on its way; all calls have been recorded then. */
  close(): Promise<void> {
    return this.#gateway.close();
  }
}
