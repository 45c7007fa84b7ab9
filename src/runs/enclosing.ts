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

/** Which runs are enclosed, and which may not begin. */
export interface Enclosing {
  /**
   * What a run of this kind may reach. Throws `sandbox_unavailable` for one that may not be without a sandbox where there is none,
   * and `invalid_request` for one that wants a network that only a sandbox can give, and none.
   */
  admit(wanted: Run['sandbox'], network: Network | undefined, harness: string): Network;
  /** How to enclose a run that is to begin; null for one that goes without, undefined for one that may not begin any more. */
  of(row: Pick<RunRow, 'sandbox' | 'network' | 'harness'>, launch: HarnessLaunch): SandboxSpec | null | undefined;
}

/**
 * The rules of contract section 7, "Sandbox": `auto` is enclosed wherever the machine can. Where it cannot, a script runs, for
 * it is the user's own, and an agent only after consent; `required` never. Nobody is let out silently.
 */
export function createEnclosing({ config, registry, sandbox }: Needs): Enclosing {
  const mayGoWithout = (wanted: Run['sandbox'], harness: string): boolean =>
    wanted === 'none' ||
    (wanted === 'auto' && (registry.kind(harness) === 'shell' || config.sandbox.unavailable === 'allow'));

  return {
    admit(wanted, network, harness) {
      const isLimited = network !== undefined && network !== 'allow';
      if (wanted === 'none') {
        if (!isLimited) return 'allow';
        const message = 'Only a sandbox can limit the network: leave one of "network" and sandbox "none" away.';
        throw new Fault('invalid_request', message, {
          param: 'network',
          details: { errors: [{ path: '/network', message }] },
        });
      }
      const state = sandbox.state();
      if (state.available) return network ?? config.sandbox.network;
      if (mayGoWithout(wanted, harness) && !isLimited) return 'allow';
      const needed = isLimited ? 'required' : wanted;
      const without =
        needed === 'required'
          ? ''
          : ' Or let it do all that your account can: send sandbox "none" for this run, or set sandbox.unavailable = "allow".';
      throw new Fault('sandbox_unavailable', `This run needs a sandbox, and there is none here. ${state.reason}`, {
        details: { sandbox: needed, reason: state.reason, remedy: `${state.remedy}${without}` },
      });
    },

    of({ sandbox: wanted, network, harness }, { login }) {
      const box = wanted === 'none' ? null : sandbox.spec();
      const spec = box && { ...box, network, login };
      const isLimited = network !== 'allow' && wanted !== 'none';
      return spec ?? (mayGoWithout(wanted, harness) && !isLimited ? null : undefined);
    },
  };
}
