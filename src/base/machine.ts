import { Fault } from '../api/error.ts';

/** A transition table: from each state, where it may go. */
export type Machine<State extends string> = Record<State, readonly State[]>;

/** Throws `invalid_state` with a sentence when `noun` may not go from one state to the other. */
export function assertMove<State extends string>(machine: Machine<State>, noun: string, from: State, to: State): void {
  if (!machine[from].includes(to))
    throw new Fault('invalid_state', `This ${noun} is ${from} and cannot become ${to}.`, { details: { state: from } });
}
