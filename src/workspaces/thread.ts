import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { packageRoot } from '../base/root.ts';
import type { Survey } from './survey.ts';
import type { Notice, Order } from './watch.ts';

/** The thread's program: a file of the package when it is built, else its source. */
const program = import.meta.filename.endsWith('.ts')
  ? join(import.meta.dirname, 'watch.ts')
  : join(packageRoot, 'dist/workspaces-watch.js');

/** The thread was ended, or ended by itself. */
export class ThreadEnded extends Error {}

interface Heard {
  touched(id: string, paths: string[] | null): void;
  failed(id: string, code: string): void;
  /** It has ended by itself; the next order starts another one. */
  lost(error: unknown): void;
}

/** The thread that walks and watches trees, started with the first order. */
export class Thread {
  readonly #heard: Heard;
  #worker: Worker | undefined;
  readonly #surveys = new Map<string, PromiseWithResolvers<Survey>>();
  readonly #readies = new Map<string, PromiseWithResolvers<string | null>>();

  constructor(heard: Heard) {
    this.#heard = heard;
  }

  /** Walks a tree, up to `most` entries. One at a time for each id. Throws ThreadEnded. */
  survey(order: Omit<Extract<Order, { kind: 'survey' }>, 'kind'>): Promise<Survey> {
    return this.#ask(this.#surveys, { kind: 'survey', ...order });
  }

  /** Watches a tree; answers null when it does, or the system's code for why it cannot. Throws ThreadEnded. */
  watch(order: Omit<Extract<Order, { kind: 'watch' }>, 'kind'>): Promise<string | null> {
    return this.#ask(this.#readies, { kind: 'watch', ...order });
  }

  unwatch(id: string): void {
    this.#worker?.postMessage({ kind: 'unwatch', id } satisfies Order);
  }

  /** Ends the thread; what was asked for is answered with ThreadEnded. */
  async end(): Promise<void> {
    const worker = this.#worker;
    this.#drop(new ThreadEnded('The thread was ended.'));
    await worker?.terminate();
  }

  #ask<Answer>(waiting: Map<string, PromiseWithResolvers<Answer>>, order: Order): Promise<Answer> {
    const answer = Promise.withResolvers<Answer>();
    waiting.set(order.id, answer);
    this.#worker ??= this.#start();
    this.#worker.postMessage(order);
    return answer.promise;
  }

  #start(): Worker {
    // A walk makes much that is soon forgotten: a small nursery keeps the process from growing with it.
    const worker = new Worker(program, { execArgv: [], env: {}, resourceLimits: { maxYoungGenerationSizeMb: 8 } });
    worker.unref();
    worker.on('message', (notice: Notice) => this.#worker === worker && this.#hear(notice));
    const lost = (error: unknown) => {
      if (this.#worker !== worker) return;
      this.#drop(new ThreadEnded('The thread has ended by itself.', { cause: error }));
      this.#heard.lost(error);
    };
    worker.on('error', lost);
    worker.on('exit', lost);
    return worker;
  }

  #drop(why: ThreadEnded): void {
    this.#worker = undefined;
    for (const waiting of [this.#surveys, this.#readies]) {
      for (const { reject } of waiting.values()) reject(why);
      waiting.clear();
    }
  }

  #hear(notice: Notice): void {
    switch (notice.kind) {
      case 'surveyed':
        this.#surveys.get(notice.id)?.resolve(notice.survey);
        this.#surveys.delete(notice.id);
        return;
      case 'ready':
        this.#readies.get(notice.id)?.resolve(null);
        this.#readies.delete(notice.id);
        return;
      case 'touched':
        return this.#heard.touched(notice.id, notice.paths);
      case 'failed': {
        const starting = this.#readies.get(notice.id);
        this.#readies.delete(notice.id);
        if (starting) starting.resolve(notice.code);
        else this.#heard.failed(notice.id, notice.code);
      }
    }
  }
}
