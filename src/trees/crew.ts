import { Worker } from 'node:worker_threads';
import { join } from 'node:path';
import { packageRoot } from '../base/root.ts';
import { TreeError, type TreeReason } from './failure.ts';
import type { Answer, Question, Tasks } from './worker.ts';

/** The worker's program: a file of the package when it is built, else its source. */
const program = import.meta.filename.endsWith('.ts')
  ? join(import.meta.dirname, 'worker.ts')
  : join(packageRoot, 'dist/trees-worker.js');

/** A worker thread that carries out one task after another. */
export class Hand {
  readonly #worker: Worker;
  readonly #waiting = new Map<number, { resolve: (value: unknown) => void; reject: (error: unknown) => void }>();
  #last = 0;
  /** It has ended by itself. */
  isLost = false;

  constructor() {
    this.#worker = new Worker(program, { execArgv: [], env: {} });
    this.#worker.unref();
    this.#worker.on('message', (answer: Answer) => {
      const call = this.#waiting.get(answer.id);
      this.#waiting.delete(answer.id);
      if (this.#waiting.size === 0) this.#worker.unref();
      if ('error' in answer) call?.reject(toError(answer.error));
      else call?.resolve(answer.value);
    });
    const lost = (error: unknown) => {
      this.isLost = true;
      for (const { reject } of this.#waiting.values()) reject(error);
      this.#waiting.clear();
    };
    this.#worker.on('error', lost);
    this.#worker.on('exit', () => lost(new Error('A worker thread has ended.')));
  }

  /** Has a task done. Throws TreeError, or what the system said. */
  do<Name extends keyof Tasks>(
    task: Name,
    question: Parameters<Tasks[Name]> extends [] ? null : Parameters<Tasks[Name]>[0],
    transfer: readonly import('node:worker_threads').Transferable[] = [],
  ): Promise<Awaited<ReturnType<Tasks[Name]>>> {
    this.#last += 1;
    const id = this.#last;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    this.#waiting.set(id, { resolve, reject });
    this.#worker.ref();
    const message: Question = { id, task, question };
    this.#worker.postMessage(message, transfer);
    return promise as Promise<Awaited<ReturnType<Tasks[Name]>>>;
  }

  /** Ends the thread. */
  async end(): Promise<void> {
    await this.#worker.terminate();
  }
}

function toError({ reason, message, path, limit, code }: Extract<Answer, { error: unknown }>['error']): Error {
  if (reason !== null) return new TreeError(reason as TreeReason, message, { path, limit });
  return Object.assign(new Error(message), code === undefined ? {} : { code });
}

/** Milliseconds after which threads that nobody needs are ended. */
const patience = 30_000;

/** The worker threads of this process: made when they are needed, shared by all stores, ended when nobody needs them. */
export class Crew {
  readonly #most: number;
  readonly #idle: Hand[] = [];
  readonly #queue: (() => void)[] = [];
  #busy = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(most: number) {
    this.#most = most;
  }

  /** Waits for a thread that is free, and holds it during `work`. */
  async with<Result>(work: (hand: Hand) => Promise<Result>): Promise<Result> {
    while (this.#busy >= this.#most) await new Promise<void>((resolve) => this.#queue.push(resolve));
    const hand = this.tryTake()!;
    try {
      return await work(hand);
    } finally {
      this.giveBack(hand);
    }
  }

  /** A thread if one is free. */
  tryTake(): Hand | undefined {
    if (this.#busy >= this.#most) return undefined;
    clearTimeout(this.#timer);
    this.#busy += 1;
    return this.#idle.pop() ?? new Hand();
  }

  /** Gives a thread back. */
  giveBack(hand: Hand): void {
    this.#busy -= 1;
    if (!hand.isLost) this.#idle.push(hand);
    this.#queue.shift()?.();
    clearTimeout(this.#timer);
    if (this.#busy === 0) this.#timer = setTimeout(() => void this.end(), patience).unref();
  }

  /** Ends the threads that are not at work. */
  async end(): Promise<void> {
    await Promise.all(this.#idle.splice(0).map((hand) => hand.end()));
  }
}
