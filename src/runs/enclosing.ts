import { Fault } from '../api/error.ts';
import type { Network } from '../api/network.ts';
import type { Run } from '../api/runs.ts';
import type { Config } from '../base/config.ts';
import type { Registry } from '../harness/registry.ts';
import type { HarnessLaunch } from '../harness/row.ts';
import type { SandboxSpec } from '../runner/protocol.ts';
import type { Sandbox } from '../runner/sandbox/sandbox.ts';
import type { RunRow } from './store.ts';

interface Needs {
  config: Pick<Config, 'sandbox'>;
  registry: Pick<Registry, 'kind'>;
  sandbox: Sandbox;
}

/** What a run asks for, and who asks. */
export interface Wish {
  wanted: Run['sandbox'];
  /** Undefined when it does not say. */
  network: Network | undefined;
  harness: string;
  /** Whether the user of this machine asks, with the local session. */
  isLocal: boolean;
}

/** Which runs are enclosed, and which may not begin. */
export interface Enclosing {
  /**
   * What a run of this kind may reach. Throws `sandbox_unavailable` for one that may not be without a sandbox where there is none,
   * `owner_only` for one that wants to be without and is not the local session's, and `invalid_request` for one that wants a
   * network that only a sandbox can give, and none.
   */
  admit(wish: Wish): Network;
  /** How to enclose a run that is to begin; null for one that goes without, undefined for one that may not begin any more. */
  of(
    row: Pick<RunRow, 'sandbox' | 'network' | 'harness' | 'is_local'>,
    launch: HarnessLaunch,
  ): SandboxSpec | null | undefined;
}

/**
 * The rules of contract section 7, "Sandbox": `auto` is enclosed wherever the machine can. Where it cannot, the local session's
 * scripts run, for they are the user's own, and its agents after consent; what others ask for, and `required`, never. Nobody is let
 * out silently.
 */
export function createEnclosing({ config, registry, sandbox }: Needs): Enclosing {
  const mayGoWithout = ({ wanted, harness, isLocal }: Omit<Wish, 'network'>): boolean =>
    isLocal &&
    (wanted === 'none' ||
      (wanted === 'auto' && (registry.kind(harness) === 'shell' || config.sandbox.unavailable === 'allow')));

  return {
    admit(wish) {
      const { wanted, network, isLocal } = wish;
      const isLimited = network !== undefined && network !== 'allow';
      if (wanted === 'none' && isLimited) {
        const message = 'Only a sandbox can limit the network: leave one of "network" and sandbox "none" away.';
        throw new Fault('invalid_request', message, {
          param: 'network',
          details: { errors: [{ path: '/network', message }] },
        });
      }
      const mayGo = mayGoWithout(wish) && !isLimited;
      if (wanted === 'none' && mayGo) return 'allow';
      const state = sandbox.state();
      if (state.available && wanted === 'none')
        throw new Fault('owner_only', 'A run goes without a sandbox with the local session alone.', {
          param: 'sandbox',
        });
      if (state.available) return network ?? config.sandbox.network;
      if (mayGo) return 'allow';
      const needed = isLimited || !isLocal ? 'required' : wanted;
      const without = !isLocal
        ? ' Or start it with the local session: without a sandbox nothing runs that an API key or an OAuth token asks for.'
        : needed === 'required'
          ? ''
          : ' Or let it do all that your account can: send sandbox "none" for this run, or set sandbox.unavailable = "allow".';
      throw new Fault('sandbox_unavailable', `This run needs a sandbox, and there is none here. ${state.reason}`, {
        details: { sandbox: needed, reason: state.reason, remedy: `${state.remedy}${without}` },
      });
    },

    of({ sandbox: wanted, network, harness, is_local: isLocal }, { login }) {
      const box = wanted === 'none' ? null : sandbox.spec();
      const spec = box && { ...box, network, login };
      const isLimited = network !== 'allow' && wanted !== 'none';
      return spec ?? (mayGoWithout({ wanted, harness, isLocal }) && !isLimited ? null : undefined);
    },
  };
}
