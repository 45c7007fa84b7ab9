import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isAlive, signal } from '../src/runner/processes.ts';
import type { RunnerIdentity } from '../src/runner/protocol.ts';

/** What a run of the bench is given: how much to do, and what to measure. */
export interface Bench {
  /** The short form. */
  quick: boolean;
  /** How often each thing is measured. */
  rounds: number;
  /** The folder of the package as it was built for this run: nobody changes it while it is measured. */
  package: string;
  /** Arguments for the node of each measured daemon, such as `--cpu-prof`. */
  nodeArguments: string[];
}

/** How a child is started. */
export interface Start {
  args: string[];
  env?: Record<string, string>;
  cwd?: string;
  stdio?: StdioOptions;
}

/** A child that talks: asked with one message, it answers with one. */
export class Child {
  readonly process: ChildProcess;
  #errors = '';

  constructor(child: ChildProcess) {
    this.process = child;
    child.stderr?.on('data', (bytes: Buffer) => (this.#errors = (this.#errors + bytes.toString()).slice(-4000)));
  }

  get pid(): number {
    return this.process.pid ?? 0;
  }

  /** The next message that it sends. Throws when it ends instead. */
  async next<Answer>(): Promise<Answer> {
    const controller = new AbortController();
    const { signal: over } = controller;
    try {
      return await Promise.race([
        once(this.process, 'message', { signal: over }).then(([answer]) => answer as Answer),
        once(this.process, 'exit', { signal: over }).then(([code]): never => {
          throw new Error(`${this.process.spawnargs.slice(1).join(' ')} ended with ${String(code)}. ${this.#errors}`);
        }),
      ]);
    } finally {
      controller.abort();
    }
  }

  /** Asks it something and waits for the answer. */
  async ask<Answer>(question: object): Promise<Answer> {
    const answer = this.next<Answer>();
    this.process.send(question);
    return answer;
  }

  /** Resolves with the exit code. */
  async ended(): Promise<number | null> {
    if (this.process.exitCode === null && this.process.signalCode === null) await once(this.process, 'exit');
    return this.process.exitCode;
  }

  /** Ends it, by force after five seconds. */
  async end(): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    this.process.kill('SIGTERM');
    const timer = setTimeout(() => this.process.kill('SIGKILL'), 5_000);
    await this.ended();
    clearTimeout(timer);
  }
}

const places = new Set<Place>();
const roots: string[] = [];
// What a figure that was broken off still wrote after its place had gone.
process.on('exit', () => {
  for (const root of roots) rmSync(root, { recursive: true, force: true });
});

/** Disposes of every place there is: a figure that was given up, or broken off, leaves nothing behind. */
export async function disposeAll(): Promise<void> {
  await Promise.allSettled([...places].map((place) => place[Symbol.asyncDispose]()));
}

/** A temporary folder and the processes that were started for it; both are gone after it is disposed. */
export class Place implements AsyncDisposable {
  readonly root = mkdtempSync(join(tmpdir(), 'agentctl-bench-'));
  readonly #children: Child[] = [];

  constructor() {
    places.add(this);
    roots.push(this.root);
  }

  /** A path inside the folder. */
  at(...names: string[]): string {
    return join(this.root, ...names);
  }

  /** The environment of every process here: nothing of the user's own settings. */
  environment(more: Record<string, string> = {}): Record<string, string> {
    return { PATH: process.env.PATH ?? '/usr/bin:/bin', HOME: this.root, LANG: 'C.UTF-8', ...more };
  }

  /** Starts a program on this same node. With the default `stdio` it can be asked. */
  node({ args, env, cwd, stdio }: Start): Child {
    if (!places.has(this)) throw new Error('This place has been left.');
    const child = new Child(
      spawn(process.execPath, args, {
        cwd: cwd ?? this.root,
        env: this.environment(env),
        stdio: stdio ?? ['ignore', 'ignore', 'pipe', 'ipc'],
        serialization: 'advanced',
      }),
    );
    this.#children.push(child);
    return child;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!places.delete(this)) return;
    await Promise.all(this.#children.map((child) => child.end()));
    for (const identity of runnersBelow(this.root)) if (isAlive(identity)) signal(identity, 'SIGTERM');
    for (let left = 30; left > 0 && runnersBelow(this.root).some(isAlive); left--) await sleep(100);
    for (const identity of runnersBelow(this.root)) if (isAlive(identity)) signal(identity, 'SIGKILL');
    await rm(this.root, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** The runners that left their names below a folder. */
function runnersBelow(root: string): RunnerIdentity[] {
  const names = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('/runner.json'),
  );
  return names.flatMap((name) => {
    try {
      const identity = JSON.parse(readFileSync(join(root, name), 'utf8')) as RunnerIdentity;
      return identity.pid === process.pid ? [] : [identity];
    } catch {
      return [];
    }
  });
}
