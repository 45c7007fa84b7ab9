import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { SandboxSpec } from '../../src/runner/protocol.ts';
import { createSandbox, findBubblewrap, findRelay, type SandboxState } from '../../src/runner/sandbox/sandbox.ts';

const folder = mkdtempSync(join(tmpdir(), 'agentctl-trial-'));

/** Whether this machine has a sandbox. */
export const machine: SandboxState = createSandbox({
  find: () => findBubblewrap(process.env.PATH ?? ''),
  folder,
  relay: findRelay(),
  hidden: [],
}).state();
rmSync(folder, { recursive: true });
if (!machine.available) console.warn(`Tests of the sandbox are left out: ${machine.reason}`);

/** For `test.skipIf`: there is no sandbox here; the reason is in the output. */
export const noSandbox = !machine.available;

/** A sandbox for a run, with what is given instead. */
export function sandboxSpec(changes: Partial<SandboxSpec> = {}): SandboxSpec {
  if (!machine.available) throw new Error(machine.reason);
  return {
    isolation: machine.isolation,
    program: machine.program,
    relay: findRelay(),
    network: 'deny',
    login: null,
    hidden: [],
    ...changes,
  };
}
