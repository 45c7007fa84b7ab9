/** Lets in many at once, or one alone; in the order in which they came. */
export class Gate {
  #alone: Promise<unknown> = Promise.resolve();
  readonly #inside = new Set<Promise<unknown>>();

  /** Does something beside others that are shared. */
  shared<Result>(work: () => Promise<Result>): Promise<Result> {
    const done = this.#alone.then(work);
    const quiet = done.then(
      () => {},
      () => {},
    );
    this.#inside.add(quiet);
    void quiet.then(() => this.#inside.delete(quiet));
    return done;
  }

  /** Does something while nothing else goes on. */
  alone<Result>(work: () => Promise<Result>): Promise<Result> {
    const done = Promise.all([this.#alone, ...this.#inside]).then(work);
    this.#alone = done.catch(() => {});
    return done;
  }
}
