import { until } from './app.ts';
import type { TestDaemon, TestHome } from './daemon.ts';

/** What is done while the daemon dies at each of these points (`AGENTCTL_CRASH_AT`), and what must hold all the same. */
export interface Flow {
  points: readonly string[];
  flow: () => Promise<void>;
}

/** The three moments of a request that writes, and of an operation that is worked at. */
export const momentsOf = (id: string): string[] =>
  ['begin', 'before_commit', 'committed'].map((moment) => `${id}:${moment}`);
export const workOf = (type: string): string[] => ['begin', 'running', 'worked'].map((moment) => `${type}:${moment}`);

/**
 * A daemon that dies at named points, one after the other, and is started again each time: the restart after one death is already
 * armed with the next point, so that a death costs one start.
 */
export class Mortal {
  readonly home: TestHome;
  daemon!: TestDaemon;
  crashes = 0;
  /** Points that were never passed. */
  readonly missed: string[] = [];
  /** How long the starts after a death took, in milliseconds. */
  readonly restarts: number[] = [];
  /** Called between a death and the next start, and after that. */
  died: () => void = () => {};
  back: () => Promise<void> = async () => {};
  #queue: string[] = [];
  #armed: string | undefined;

  constructor(home: TestHome) {
    this.home = home;
  }

  /** Goes through the flows in their order; each again until the daemon has died at all of its points, or one goes by unharmed. */
  async through(flows: readonly Flow[]): Promise<void> {
    this.#queue = flows.flatMap(({ points }) => points);
    await this.start();
    for (const { points, flow } of flows)
      do {
        const before = this.crashes;
        await flow();
        if (this.crashes === before && this.#isDueIn(points)) {
          this.missed.push(this.#armed!);
          await this.daemon.stop();
          await this.start();
        }
      } while (this.#isDueIn(points));
    await this.daemon.stop();
  }

  #isDueIn(points: readonly string[]): boolean {
    return this.#armed !== undefined && points.includes(this.#armed);
  }

  /** Starts the daemon, armed with what comes next; where it dies while it starts, once more. */
  async start(): Promise<void> {
    for (;;) {
      this.#armed = this.#queue.shift();
      if (this.#armed === undefined) delete this.home.env.AGENTCTL_CRASH_AT;
      else this.home.env.AGENTCTL_CRASH_AT = this.#armed;
      const before = performance.now();
      try {
        this.daemon = await this.home.serve();
        if (this.crashes > 0) this.restarts.push(performance.now() - before);
        return;
      } catch (error) {
        if (this.#armed === undefined || !(error as Error).message.includes('SIGKILL')) throw error;
        this.crashes += 1;
      }
    }
  }

  /** Does a request until it is answered, as a client would: the same key, again after a restart. */
  async insist(method: string, path: string, body?: unknown, headers: Record<string, string> = {}) {
    const key: Record<string, string> = method === 'GET' ? {} : { 'idempotency-key': `key-${Math.random()}` };
    return this.outlive(() => this.daemon.call(method, path, body, { ...key, ...headers }));
  }

  /** Tries it until it does not throw any more, as long as it throws because the daemon has died. */
  async outlive<T>(attempt: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await attempt();
      } catch {
        await until('the crash', () => this.daemon.process.signalCode !== null, 60_000);
        this.crashes += 1;
        this.died();
        await this.start();
        await this.back();
      }
    }
  }

  /** Asks for what is at `path` until it is good. */
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into bodies of many shapes
  async follow(what: string, path: string, good: (seen: any) => boolean): Promise<any> {
    return until(
      what,
      async () => {
        const seen = await this.insist('GET', path);
        return good(seen) && seen;
      },
      120_000,
    );
  }

  /** The end of an operation. */
  done({ id }: { id: string }) {
    return this.follow('the operation', `/v1/operations/${id}?wait=20`, ({ status }) => !open.has(status));
  }

  /** Ends the daemon and removes its home. */
  async remove(): Promise<void> {
    await this.daemon?.kill();
    this.home.remove();
  }
}

const open = new Set(['queued', 'running']);
