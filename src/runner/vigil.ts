import type { Clock } from '../base/clock.ts';

/** What is held to be wrong with a run that goes on, and whether it ends the run. */
export interface VigilSettings {
  /** Seconds without a sign of life; 0 for never. */
  stall_seconds: number;
  stall_stop: boolean;
  /** So often the same call of a tool, one after the other; 0 for never. */
  repeated_calls: number;
  repeated_calls_stop: boolean;
}

/** What was found. */
export type Finding = { kind: 'stalled'; seconds: number } | { kind: 'repeated'; tool: string; times: number };

interface Needs {
  clock: Clock;
  settings: VigilSettings;
  /** Once for each silence, and each row of the same calls; `isEnd` when the run is to end by it. */
  found(finding: Finding, isEnd: boolean): void;
}

/** Keeps an eye on whether a run still does something, and something else than before. */
export class Vigil {
  readonly #needs: Needs;
  #last = 0;
  #cancel: (() => void) | null = null;
  #isWatching = false;
  #same = '';
  #times = 0;

  constructor(needs: Needs) {
    this.#needs = needs;
  }

  /** Begins, or goes on after somebody was asked. */
  start(): void {
    this.#isWatching = true;
    this.touch();
  }

  /** Silence is right as long as somebody is asked, and after the end. */
  pause(): void {
    this.#isWatching = false;
    this.#cancel?.();
    this.#cancel = null;
  }

  /** A sign of life. */
  touch(): void {
    this.#last = this.#needs.clock.monotonic();
    if (this.#isWatching && this.#cancel === null) this.#arm(this.#needs.settings.stall_seconds * 1000);
  }

  #arm(ms: number): void {
    const { clock, settings } = this.#needs;
    if (settings.stall_seconds === 0) return;
    this.#cancel = clock.timer(ms, () => {
      const left = this.#last + settings.stall_seconds * 1000 - clock.monotonic();
      if (left > 0) return this.#arm(left);
      // Armed again by the next sign of life.
      this.#cancel = null;
      this.#needs.found({ kind: 'stalled', seconds: settings.stall_seconds }, settings.stall_stop);
    });
  }

  /** A tool was called. */
  tool(name: string, input: unknown): void {
    const { settings } = this.#needs;
    const call = `${name} ${JSON.stringify(input)}`;
    this.#times = call === this.#same ? this.#times + 1 : 1;
    this.#same = call;
    if (settings.repeated_calls > 0 && this.#times === settings.repeated_calls)
      this.#needs.found({ kind: 'repeated', tool: name, times: this.#times }, settings.repeated_calls_stop);
  }
}

/** A finding as a sentence. */
export const sentenceOf = (finding: Finding): string =>
  finding.kind === 'stalled'
    ? `The harness has shown no sign of life for ${finding.seconds} s.`
    : `The harness has called ${finding.tool} with the same input ${finding.times} times in a row.`;
