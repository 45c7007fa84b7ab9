import { noUsage } from '../api/figures.ts';
import type { Usage } from '../api/usage.ts';
import type { Clock } from '../base/clock.ts';
import type { RunSpec } from './protocol.ts';

type Limits = RunSpec['limits'];
export interface LimitPercent {
  cost: number | null;
  time: number | null;
}

/** Whom a meter tells. */
export interface MeterOptions {
  clock: Clock;
  limits: Limits;
  /** New figures; at most about once a second. */
  report: (usage: Usage, percent: LimitPercent) => void;
  /** 80 % of a limit, once each. */
  warn: (limit: 'cost' | 'time', percent: number) => void;
  exceeded: (limit: 'cost' | 'time' | 'turns', usage: Usage) => void;
}

/** What a run used, and its limits: time on a clock that stands still while a person is asked, cost and turns as reported. */
export class Meter {
  readonly #options: MeterOptions;
  #figures: Omit<Usage, 'duration_ms'> = noUsage;
  #elapsed = 0;
  #since: number | null = null;
  #cancelTime: () => void = () => {};
  #cancelReport: (() => void) | null = null;
  #warned = { cost: false, time: false };
  #stopped = false;

  constructor(options: MeterOptions) {
    this.#options = options;
  }

  /** Milliseconds that count. */
  get elapsed(): number {
    return this.#elapsed + (this.#since === null ? 0 : this.#options.clock.monotonic() - this.#since);
  }

  get usage(): Usage {
    return { ...this.#figures, duration_ms: Math.round(this.elapsed) };
  }

  get percent(): LimitPercent {
    const { max_cost_micro_usd: cost, timeout_seconds: time } = this.#options.limits;
    const spent = this.#figures.cost_micro_usd;
    return {
      cost: cost === null ? null : Number((BigInt(spent ?? '0') * 100n) / (BigInt(cost) || 1n)),
      time: time === null ? null : Math.floor(this.elapsed / (time * 10)),
    };
  }

  /** Lets the time run. */
  start(): void {
    if (this.#since !== null || this.#stopped) return;
    this.#since = this.#options.clock.monotonic();
    this.#arm();
  }

  /** Holds the time. */
  pause(): void {
    this.#elapsed = this.elapsed;
    this.#since = null;
    this.#cancelTime();
  }

  #arm(): void {
    const seconds = this.#options.limits.timeout_seconds;
    if (seconds === null) return;
    const due = (this.#warned.time ? seconds * 1000 : seconds * 800) - this.elapsed;
    this.#cancelTime = this.#options.clock.timer(Math.max(0, due), () => {
      if (this.#since === null || this.#stopped) return;
      if (this.elapsed >= seconds * 1000) return this.#options.exceeded('time', this.usage);
      if (!this.#warned.time && this.elapsed >= seconds * 800) {
        this.#warned.time = true;
        this.#options.warn('time', Math.max(80, this.percent.time ?? 80));
      }
      this.#arm();
    });
  }

  /** Takes new figures. */
  set(figures: Partial<Omit<Usage, 'duration_ms'>>): void {
    this.#figures = { ...this.#figures, ...figures };
    if (this.#stopped) return;
    const { max_cost_micro_usd: cost, max_turns: turns } = this.#options.limits;
    const percent = this.percent.cost;
    if (percent !== null && percent >= 80 && !this.#warned.cost) {
      this.#warned.cost = true;
      this.#options.warn('cost', percent);
    }
    if (cost !== null && BigInt(this.#figures.cost_micro_usd ?? '0') > BigInt(cost)) {
      this.#options.exceeded('cost', this.usage);
    }
    if (turns !== null && this.#figures.turns > turns) this.#options.exceeded('turns', this.usage);
    this.#cancelReport ??= this.#options.clock.timer(1000, () => {
      this.#cancelReport = null;
      this.#options.report(this.usage, this.percent);
    });
  }

  /** Nothing is reported, warned or exceeded any more; the figures stay. */
  stop(): void {
    this.pause();
    this.#stopped = true;
    this.#cancelReport?.();
  }
}
