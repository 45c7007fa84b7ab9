import type { Outcome } from './exchange.ts';

/** Milliseconds before each retry (specification, section 6). */
export const delays = [10_000, 60_000, 300_000, 1_800_000, 7_200_000, 28_800_000, 86_400_000] as const;
/** By how much a delay may differ, either way. */
const jitter = 0.2;
/** An endpoint at which every attempt has failed for so long is disabled. */
export const patience = 5 * 86_400_000;

/** Where a delivery goes after an attempt. */
export interface Next {
  status: 'succeeded' | 'retrying' | 'exhausted' | 'cancelled';
  /** Milliseconds since 1970; null when nothing follows. */
  next: number | null;
}

/** Whether an attempt counts: any 2xx, all of it within the time. */
export const isGood = (outcome: Outcome): boolean =>
  outcome.kind === 'answered' && outcome.status >= 200 && outcome.status < 300;

/** Whether the receiver said that it is there no more. */
export const isGone = (outcome: Outcome): boolean => outcome.kind === 'answered' && outcome.status === 410;

/**
 * What follows on the `attempt`-th attempt (1 is the first): `random` is from 0 (inclusive) to 1 (exclusive), `now` the time at
 * which the attempt was over.
 */
export function next(attempt: number, outcome: Outcome, now: number, random: number): Next {
  if (isGood(outcome)) return { status: 'succeeded', next: null };
  if (isGone(outcome)) return { status: 'cancelled', next: null };
  const delay = delays[attempt - 1];
  if (delay === undefined) return { status: 'exhausted', next: null };
  return { status: 'retrying', next: now + Math.round(delay * (1 - jitter + 2 * jitter * random)) };
}
