/** What calls may still cost. All amounts are millionths of a dollar. */
export class Purse {
  readonly #limit: bigint | null;
  #spent = 0n;
  readonly #held = new Set<{ amount: bigint }>();
  #waiting: { amount: bigint; decide: (hold: Hold | null) => void }[] = [];

  /** Without a limit everything is let through. */
  constructor(limit: bigint | null) {
    this.#limit = limit;
  }

  get spent(): bigint {
    return this.#spent;
  }

  /** Nothing more may be spent. */
  get isEmpty(): boolean {
    return this.#limit !== null && this.#spent >= this.#limit;
  }

  /** What calls on their way may come to. */
  get reserved(): bigint {
    return this.#held.values().reduce((sum, { amount }) => sum + amount, 0n);
  }

  /**
   * Sets so much aside for a call. One that would not fit beside the others waits until they are through; alone it is let
   * through as long as anything is left, so that the limit is passed by one call at most. Null when nothing is left, or
   * `signal` aborts.
   */
  hold(amount: bigint, signal: AbortSignal): Promise<Hold | null> {
    const { promise, resolve } = Promise.withResolvers<Hold | null>();
    const entry = { amount, decide: resolve };
    this.#waiting.push(entry);
    signal.addEventListener(
      'abort',
      () => {
        this.#waiting = this.#waiting.filter((one) => one !== entry);
        resolve(null);
      },
      { once: true },
    );
    this.#serve();
    return promise;
  }

  #serve(): void {
    for (let next = this.#waiting[0]; next; next = this.#waiting[0]) {
      if (this.isEmpty) {
        for (const one of this.#waiting.splice(0)) one.decide(null);
        return;
      }
      const isRoom =
        this.#limit === null || this.#held.size === 0 || this.#spent + this.reserved + next.amount <= this.#limit;
      if (!isRoom) return;
      this.#waiting.shift();
      const held = { amount: next.amount };
      this.#held.add(held);
      next.decide({
        settle: (cost) => {
          if (!this.#held.delete(held)) return;
          this.#spent += cost;
          this.#serve();
        },
      });
    }
  }
}

/** Money that was set aside for one call. */
export interface Hold {
  /** The call is through and cost so much. Once; more changes nothing. */
  settle(cost: bigint): void;
}
