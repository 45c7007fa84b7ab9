import { expect, test } from 'vitest';
import type { HarnessLaunch } from '../../../src/harness/row.ts';
import type { Sandbox } from '../../../src/runner/sandbox/sandbox.ts';
import { createEnclosing } from '../../../src/runs/enclosing.ts';

/** A machine whose sandbox was there when runs were accepted and is gone when they are to begin. */
const gone = {
  state: () => ({ available: false, reason: 'gone', remedy: 'x' }),
  spec: () => null,
} as unknown as Sandbox;
const launch = { login: null } as HarnessLaunch;
const settings = { unavailable: 'allow', network: 'allow' } as const;

test.each([
  ['a script of the user', 'shell', 'auto', true, null],
  ['an agent of the user, who agreed', 'claude', 'auto', true, null],
  ['a run of the user that must have one', 'shell', 'required', true, undefined],
  ['a script of somebody else', 'shell', 'auto', false, undefined],
  ['an agent of somebody else', 'claude', 'auto', false, undefined],
  // As one that was accepted by an earlier version.
  ['a run of somebody else that asked for none', 'shell', 'none', false, undefined],
] as const)('where a sandbox got lost, %s', (_name, harness, sandbox, is_local, outcome) => {
  const kind = (id: string) => (id === 'shell' ? 'shell' : 'acp');
  const enclosing = createEnclosing({ config: { sandbox: settings }, registry: { kind }, sandbox: gone });
  expect(enclosing.of({ sandbox, network: 'allow', harness, is_local }, launch)).toBe(outcome);
});
