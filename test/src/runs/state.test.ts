import { expect, test } from 'vitest';
import { Fault } from '../../../src/api/error.ts';
import { isTerminal, type RunStatus, runStatuses, terminalStatuses } from '../../../src/api/runs.ts';
import { assertMove } from '../../../src/base/machine.ts';
import { projectStates } from '../../../src/projects/state.ts';
import { pathToEnd, runStates } from '../../../src/runs/state.ts';
import { workspaceStates } from '../../../src/workspaces/state.ts';

/** Contract section 7, word for word. */
const contract: Record<RunStatus, RunStatus[]> = {
  queued: ['running', 'cancelled', 'failed'],
  running: ['awaiting_input', 'cancelling', 'completed', 'failed'],
  awaiting_input: ['running', 'cancelling', 'failed'],
  cancelling: ['cancelled', 'completed'],
  completed: [],
  failed: [],
  cancelled: [],
};

const pairs = runStatuses.flatMap((from) =>
  runStatuses.map((to) => ({ from, to, allowed: contract[from].includes(to) })),
);

test.each(pairs)('a run: $from → $to is allowed: $allowed', ({ from, to, allowed }) => {
  let fault: unknown;
  try {
    assertMove(runStates, 'run', from, to);
  } catch (error) {
    fault = error;
  }
  expect(fault === undefined).toBe(allowed);
  if (allowed) return;
  expect(fault).toBeInstanceOf(Fault);
  expect(fault).toMatchObject({ code: 'invalid_state', details: { state: from } });
  expect((fault as Fault).message).toMatch(/^This run is \w+ and cannot become \w+\.$/);
});

test('the statuses without a way on are the terminal ones', () => {
  expect(runStatuses.filter((status) => runStates[status].length === 0)).toEqual([...terminalStatuses]);
  expect(runStatuses.filter(isTerminal)).toEqual([...terminalStatuses]);
});

const ends = runStatuses
  .filter((from) => !isTerminal(from))
  .flatMap((from) => terminalStatuses.map((end) => ({ from, end })));

test.each(ends)('from $from there is a legal way to an end that was $end', ({ from, end }) => {
  const path = pathToEnd(from, end);
  let at: RunStatus = from;
  for (const step of path) {
    expect(contract[at]).toContain(step);
    at = step;
  }
  expect(isTerminal(at)).toBe(true);
  expect(path.slice(0, -1).some(isTerminal)).toBe(false);
  expect(at).toBe(from === 'cancelling' && end === 'failed' ? 'cancelled' : end);
});

test.each(terminalStatuses.flatMap((from) => terminalStatuses.map((end) => ({ from, end }))))(
  'from $from there is no way to $end: a terminal status is never left',
  ({ from, end }) => {
    const [first] = pathToEnd(from, end);
    expect(contract[from]).not.toContain(first);
  },
);

test('projects and workspaces: what is gone stays gone, and each state can be reached', () => {
  expect(projectStates).toEqual({ active: ['archiving'], archiving: ['archived', 'active'], archived: ['active'] });
  expect(workspaceStates.deleted).toEqual([]);
  const reached = new Set(Object.values(workspaceStates).flat());
  for (const state of Object.keys(workspaceStates)) expect(reached).toContain(state);
});
