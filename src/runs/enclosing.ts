import { Fault } from '../api/error.ts';
import type { Run } from '../api/runs.ts';
import type { Config } from '../base/config.ts';
import type { Registry } from '../harness/registry.ts';
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
  /** Throws `sandbox_unavailable` for a run that may not be without a sandbox where there is none. */
  assertPossible(wanted: Run['sandbox'], harness: string): void;
  /** How to enclose a run that is to begin; null for one that goes without, undefined for one that may not begin any more. */
  of(row: Pick<RunRow, 'sandbox' | 'harness'>): SandboxSpec | null | undefined;
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
    assertPossible(wanted, harness) {
      if (mayGoWithout(wanted, harness)) return;
      const state = sandbox.state(registry.kind(harness));
      if (state.available) return;
      const without =
        wanted === 'required'
          ? ''
          : ' Or let it do all that your account can: send sandbox "none" for this run, or set sandbox.unavailable = "allow".';
      throw new Fault('sandbox_unavailable', `This run needs a sandbox, and there is none here. ${state.reason}`, {
        details: { sandbox: wanted, reason: state.reason, remedy: `${state.remedy}${without}` },
      });
    },

    of({ sandbox: wanted, harness }) {
      const spec = wanted === 'none' ? null : sandbox.spec(registry.kind(harness) ?? 'acp');
      return spec ?? (mayGoWithout(wanted, harness) ? null : undefined);
    },
  };
}
