import type { RunErrorCode, StopReason } from '../api/runs.ts';
import type { Usage } from '../api/usage.ts';
import type { Clock } from '../base/clock.ts';
import type { Finding } from './vigil.ts';
import type { Journal } from './journal.ts';
import type { InputAnswer } from '../api/inputs.ts';
import type { RunSpec } from './protocol.ts';
import type { Start } from './sandbox/enclosure.ts';

/** A run's error, as the final record carries it. */
export interface RunError {
  code: RunErrorCode;
  message: string;
  retryable: boolean;
  details: Record<string, unknown>;
}

/** How a harness came to its end by itself. */
export type Outcome =
  | { status: 'completed'; structured_output?: { value: unknown } }
  | { status: 'failed'; stop_reason: StopReason; error: RunError }
  /** It stopped because it was told to, as far as it says. */
  | { status: 'cancelled' };

/** Why the runner ends a run before the harness does. The first one counts. */
export type Cause =
  | { kind: 'cancel' }
  | { kind: 'time'; seconds: number }
  | { kind: 'cost'; spent: string; limit: string }
  | { kind: 'turns'; limit: number }
  | { kind: 'output'; limit: number }
  /** No price is known for the model, and there is a limit to be kept. */
  | { kind: 'unpriced'; model: string }
  /** It does nothing any more, or the same again and again. */
  | { kind: 'stalled'; finding: Finding }
  /** The provider does not take our key. */
  | { kind: 'key'; message: string }
  /** A question came in a run that must not have any. */
  | { kind: 'question'; title: string }
  | { kind: 'expired'; request_id: string }
  | { kind: 'disk'; message: string }
  | { kind: 'internal'; message: string };

/** What a half may ask of the run that it is part of. */
export interface Stage {
  readonly spec: RunSpec;
  readonly clock: Clock;
  readonly journal: Journal;
  /** Where the harness finds the run's gateway; null when it calls models by itself. */
  readonly gateway: string | null;
  /**
   * How to start a program of this run, with `env` on top of the run's environment: in its sandbox, if it has one. `files` may be
   * read there besides.
   */
  start(command: readonly string[], env: Record<string, string>, files?: readonly string[]): Start;
  /** A process of the run was started: the leader of its own session. */
  spawned(pid: number): void;
  /** The harness works; records `started`. */
  started(version: string | null, model: string | null): void;
  /** Figures so far; those left out stay as they are. */
  used(figures: Partial<Omit<Usage, 'duration_ms'>>): void;
  /** So many bytes of output came in. */
  counted(bytes: number): void;
  /** Time does not count between `waiting(true)` and `waiting(false)`. */
  waiting(on: boolean): void;
  /** A tool is called. */
  toolCalled(name: string, input: unknown): void;
  /** Something was done that may have changed files. */
  touched(): void;
  /** Ends the run. */
  stop(cause: Cause): void;
}

/** A kind of harness at work: `shell` or `acp`. */
export interface Half {
  /** Settles when the harness is through by itself, or is gone. Never rejects. */
  readonly outcome: Promise<Outcome>;
  /** Asks the harness to stop in its own way; the answer is how many milliseconds to wait for `outcome` then. */
  stop(): number;
  answer(request_id: string, answer: InputAnswer): void;
  /** Called when no process is left: takes in what still came, closes what is open, and answers the result text. */
  close(): Promise<string | null>;
}
