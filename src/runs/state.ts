import type { RunStatus } from '../api/runs.ts';
import type { Machine } from '../base/machine.ts';

/** Contract section 7. */
export const runStates: Machine<RunStatus> = {
  queued: ['running', 'cancelled', 'failed'],
  running: ['awaiting_input', 'cancelling', 'completed', 'failed'],
  awaiting_input: ['running', 'cancelling', 'failed'],
  cancelling: ['cancelled', 'completed'],
  completed: [],
  failed: [],
  cancelled: [],
};

/**
 * The states to go through to an end, the end included. A stop that was asked for wins over a failure that it caused, and
 * a run that ends by a signal from outside is cancelled like any other.
 */
export function pathToEnd(from: RunStatus, end: 'completed' | 'failed' | 'cancelled'): RunStatus[] {
  if (from === 'cancelling' && end === 'failed') return ['cancelled'];
  if (runStates[from].includes(end)) return [end];
  if (end === 'cancelled') return ['cancelling', 'cancelled'];
  return ['running', end];
}
