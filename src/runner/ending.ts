import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Clock } from '../base/clock.ts';
import {
  bootId,
  childrenOf,
  hasEnded,
  identityOf,
  isAlive,
  openPipes,
  processOf,
  processTable,
  signal,
  withEnvironment,
} from './processes.ts';
import type { Process } from './processes.ts';
import { type HarnessTraces, type ProcessIdentity, runFiles } from './protocol.ts';

/** The environment variable that every process of a run inherits. */
export const stamp = 'AGENTCTL_RUN_ID';

/** By what the processes of a run are known. */
export interface Traces {
  run_id: string;
  /** The process that was started first: leader of its own session and group. */
  harness: ProcessIdentity | null;
  /** The harness' ends of the pipes to the runner, as /proc names them. */
  pipes: readonly string[];
  /** Processes that were once seen to belong to the run. */
  seen: readonly ProcessIdentity[];
  /** The harness is a sandbox: whatever is in it ends with it. */
  enclosed?: boolean;
}

/** What the run's folder says about the processes of a run whose runner is gone. */
export function tracesIn(folder: string, run_id: string): Traces {
  try {
    const traces = JSON.parse(readFileSync(join(folder, runFiles.harness), 'utf8')) as HarnessTraces;
    return { run_id, harness: traces.harness, pipes: traces.pipes, seen: [], enclosed: traces.enclosed };
  } catch {
    return { run_id, harness: null, pipes: [], seen: [], enclosed: false };
  }
}

/** This process, all above it, and the first one: never part of a run, whatever else speaks for it. */
function ancestors(table: Map<number, Process>): Set<number> {
  const line = new Set([0, 1]);
  for (let pid = process.pid; !line.has(pid); pid = table.get(pid)?.parent ?? 1) line.add(pid);
  return line;
}

/** On Linux ticks since boot; elsewhere dates cannot be ordered by the same words, and all pass. */
const notBefore = (one: string, other: string): boolean => !/^\d+$/.test(other) || Number(one) >= Number(other);

/**
 * All living processes of a run: group and session of the harness, who bears the stamp, who holds the run's pipes, who was seen
 * before, and all below these. Who started before the harness is never among them: a tmux server of the user may have been
 * handed one of our pipes.
 */
export function findRun(traces: Traces): ProcessIdentity[] {
  const { harness } = traces;
  const boot_id = bootId();
  if (harness && harness.boot_id !== boot_id) return [];
  const table = processTable();
  const spared = ancestors(table);
  const all = [...table.values()].filter(
    (one) =>
      !spared.has(one.pid) &&
      one.parent !== 2 &&
      !hasEnded(one) &&
      (!harness || notBefore(one.started, harness.started)),
  );
  const members = new Set<number>();

  const seen = new Map(traces.seen.map((one) => [one.pid, one.started]));
  for (const one of all) if (seen.get(one.pid) === one.started) members.add(one.pid);
  // A group's number is not given to another process as long as the group has members; its leader's successor is a stranger.
  const leader = harness && table.get(harness.pid);
  if (harness && (!leader || leader.started === harness.started)) {
    for (const one of all) if (one.group === harness.pid || one.session === harness.pid) members.add(one.pid);
  }
  const others = () => all.filter((one) => !members.has(one.pid)).map((one) => one.pid);
  for (const pid of withEnvironment(others(), stamp, traces.run_id)) members.add(pid);
  if (traces.pipes.length > 0) {
    for (const pid of others()) if (openPipes(pid).some((link) => traces.pipes.includes(link))) members.add(pid);
  }
  for (let before = -1; before !== members.size;) {
    before = members.size;
    // Nobody can join a session from outside: who shares one with a member came from the run.
    const sessions = new Set<number>();
    for (const one of all) {
      const first = table.get(one.session);
      if (members.has(one.pid) && (!first || hasEnded(first) || members.has(first.pid))) sessions.add(one.session);
    }
    for (const one of all) if (members.has(one.parent) || sessions.has(one.session)) members.add(one.pid);
  }
  return all.filter((one) => members.has(one.pid)).map(({ pid, started }) => ({ pid, started, boot_id }));
}

/** Whether this is bubblewrap itself, or the first process inside: asked to end, they would kill all others at once. */
const isFrame = ({ enclosed, harness }: Traces, { pid }: ProcessIdentity): boolean =>
  enclosed === true && harness !== null && (pid === harness.pid || processOf(pid)?.parent === harness.pid);

/** How the processes of a run ended. */
export interface Ending {
  /** How many were asked to end. */
  terminated: number;
  /** How many had to be killed. */
  killed: number;
  /** Those that even SIGKILL did not end within ten seconds: they wait inside the kernel. */
  left: ProcessIdentity[];
}

const rest = (clock: Clock, ms: number): Promise<void> => new Promise((resolve) => clock.timer(ms, resolve));
const key = (identity: ProcessIdentity): string => `${identity.pid}:${identity.started}`;

/**
 * Ends everything that belongs to a run: SIGTERM to all, up to `graceMs` to comply (less when all are gone), then SIGKILL in
 * rounds until nothing is found. Who shows up meanwhile is treated the same. For runner and daemon alike.
 */
export async function endRun(traces: Traces, graceMs: number, clock: Clock): Promise<Ending> {
  const asked = new Set<string>();
  const killed = new Set<string>();
  const memory: Traces & { seen: ProcessIdentity[] } = { ...traces, seen: [...traces.seen] };
  const look = (): ProcessIdentity[] => {
    const found = findRun(memory);
    memory.seen = found;
    return found;
  };

  const deadline = clock.monotonic() + graceMs;
  let living = look();
  if (living.length === 0) return { terminated: 0, killed: 0, left: [] };
  for (let pause = 4, looked = clock.monotonic(); living.length > 0; pause = Math.min(50, pause * 2)) {
    for (const one of living) {
      if (asked.has(key(one)) || isFrame(traces, one)) continue;
      asked.add(key(one));
      signal(one, 'SIGTERM');
      signal(one, 'SIGCONT');
    }
    const now = clock.monotonic();
    if (now >= deadline) break;
    await rest(clock, Math.min(pause, deadline - now));
    living = living.filter(isAlive);
    if (living.length === 0 || clock.monotonic() - looked > 500) {
      living = look();
      looked = clock.monotonic();
    }
  }

  const end = clock.monotonic() + 10_000;
  for (let pause = 2; ; pause = Math.min(50, pause * 2)) {
    living = look();
    if (living.length === 0 || clock.monotonic() > end) break;
    // Stopped first, so that none has a child between two kills.
    for (const one of living) signal(one, 'SIGSTOP');
    for (const one of living) if (signal(one, 'SIGKILL')) killed.add(key(one));
    await rest(clock, pause);
  }
  return { terminated: asked.size, killed: killed.size, left: living };
}

/**
 * Keeps an eye on who belongs to a run while it lives: a child that turned away from everything (`env -i setsid`, no pipe) can
 * only be known by its parents, and those may be gone at the end. Looks soon and then about once a second, for at most half a
 * percent of the time.
 */
export class Lineage {
  readonly #traces: Traces;
  readonly #clock: Clock;
  #seen: ProcessIdentity[] = [];
  #cancel: () => void = () => {};

  constructor(traces: Traces, clock: Clock) {
    this.#traces = traces;
    this.#clock = clock;
    this.#look(15);
  }

  #look(delay: number): void {
    this.#cancel = this.#clock.timer(delay, () => {
      const before = this.#clock.monotonic();
      this.#seen = this.#below();
      const cost = this.#clock.monotonic() - before;
      this.#look(Math.max(Math.min(delay * 2, 1000), cost * 200));
    });
  }

  /** The harness, who was seen, and all below them: read from child to child, for the whole table would cost too much. */
  #below(): ProcessIdentity[] {
    const roots = [...(this.#traces.harness ? [this.#traces.harness] : []), ...this.#seen].filter(isAlive);
    const found = new Map(roots.map((one) => [one.pid, one]));
    // A map goes on through what is added to it.
    for (const pid of found.keys()) {
      const children = childrenOf(pid);
      if (children === null) return findRun(this.traces);
      for (const child of children) {
        const identity = found.has(child) ? null : identityOf(child);
        if (identity && isAlive(identity)) found.set(child, identity);
      }
    }
    return [...found.values()];
  }

  /** All that is known. */
  get traces(): Traces {
    return { ...this.#traces, seen: this.#seen };
  }

  stop(): void {
    this.#cancel();
  }
}

/** The identity of a process of ours that was just started, and what its standard streams lead to. */
export function tracesOf(run_id: string, pid: number, enclosed = false): Traces {
  return { run_id, harness: identityOf(pid), pipes: openPipes(pid, [0, 1, 2]), seen: [], enclosed };
}
