import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { platform } from 'node:process';
import type { ProcessIdentity } from './protocol.ts';

/** One line of the process table. */
export interface Process {
  pid: number;
  parent: number;
  group: number;
  session: number;
  /** Clock ticks since boot where /proc is, otherwise the words of `ps -o lstart`. */
  started: string;
  /** `Z` and `X` have ended and only wait to be collected. */
  state: string;
}

const linux = platform === 'linux';
let boot: string | undefined;

/** What tells one boot of this machine from another. */
export function bootId(): string {
  boot ??= linux
    ? readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim()
    : execFileSync('/usr/sbin/sysctl', ['-n', 'kern.boottime'], { encoding: 'latin1' }).trim();
  return boot;
}

/** The text of /proc/<pid>/stat as a process; null when it makes no sense. The name in it may hold spaces and parentheses. */
export function parseStat(text: string): Process | null {
  const open = text.indexOf(' (');
  const close = text.lastIndexOf(') ');
  if (open < 1 || close < open) return null;
  const fields = text.slice(close + 2).split(' ');
  const [state, parent, group, session] = fields;
  const started = fields[19];
  if (!state || !started) return null;
  return {
    pid: Number(text.slice(0, open)),
    parent: Number(parent),
    group: Number(group),
    session: Number(session),
    started,
    state,
  };
}

const columns = 'pid=,ppid=,pgid=,sess=,stat=,lstart=';

/** Lines of `ps -o pid=,ppid=,pgid=,sess=,stat=,lstart=`: macOS has no /proc. */
export function parsePs(text: string): Process[] {
  const processes: Process[] = [];
  for (const line of text.split('\n')) {
    const match = /^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\S+)\s+(\S+)\s+(.*\S)\s*$/.exec(line);
    if (!match) continue;
    const [, pid, parent, group, session, state = '', started = ''] = match;
    processes.push({
      pid: Number(pid),
      parent: Number(parent),
      group: Number(group),
      // macOS prints an address, or nothing of use: then the group has to do.
      session: /^\d+$/.test(session ?? '') && Number(session) > 0 ? Number(session) : Number(group),
      started,
      state: state.charAt(0),
    });
  }
  return processes;
}

const ps = (args: string[]): string => {
  try {
    return execFileSync('/bin/ps', args, {
      encoding: 'utf8',
      maxBuffer: 64 * 1_048_576,
      stdio: ['ignore', 'pipe', 'ignore'],
    });
  } catch {
    return '';
  }
};

/** The process with this id, or null. */
export function processOf(pid: number): Process | null {
  if (!linux) return parsePs(ps(['-o', columns, '-p', String(pid)]))[0] ?? null;
  try {
    return parseStat(readFileSync(`/proc/${pid}/stat`, 'latin1'));
  } catch {
    return null;
  }
}

/** All processes of this machine (of this PID namespace), by id. */
export function processTable(): Map<number, Process> {
  const table = new Map<number, Process>();
  if (!linux) {
    for (const process of parsePs(ps(['-A', '-o', columns]))) table.set(process.pid, process);
    return table;
  }
  for (const name of readdirSync('/proc')) {
    const first = name.charCodeAt(0);
    if (first < 48 || first > 57) continue;
    const process = processOf(Number(name));
    if (process) table.set(process.pid, process);
  }
  return table;
}

/** True for a process that has ended and only waits to be collected. */
export const hasEnded = (process: Process): boolean => process.state === 'Z' || process.state === 'X';

/** Who this process is, for ever. Null when there is none with this id. */
export function identityOf(pid: number): ProcessIdentity | null {
  const process = processOf(pid);
  return process && { pid, started: process.started, boot_id: bootId() };
}

/** True while exactly this process runs; a successor with the same id, or a zombie, does not count. */
export function isAlive(identity: ProcessIdentity): boolean {
  if (identity.boot_id !== bootId()) return false;
  const process = processOf(identity.pid);
  return process !== null && process.started === identity.started && !hasEnded(process);
}

/** Sends a signal to exactly this process; false when it is gone, or may not be signalled. */
export function signal(identity: ProcessIdentity, name: NodeJS.Signals): boolean {
  if (!isAlive(identity)) return false;
  try {
    process.kill(identity.pid, name);
    return true;
  } catch {
    return false;
  }
}

/** The children of a process, of all its threads; null where the kernel does not list them. */
export function childrenOf(pid: number): number[] | null {
  if (!linux) return null;
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
      readFileSync(`/proc/${pid}/task/${thread}/children`, 'latin1').trim().split(' ').filter(Boolean).map(Number),
    );
  } catch {
    return processOf(pid) ? null : [];
  }
}

/** Those of `pids` whose environment, as they were started, holds the entry `name=value`. */
export function withEnvironment(pids: readonly number[], name: string, value: string): number[] {
  const entry = `${name}=${value}`;
  if (!linux) {
    const wanted = new Set(pids);
    const holders: number[] = [];
    for (const line of ps(['-A', '-E', '-ww', '-o', 'pid=,command=']).split('\n')) {
      const pid = Number.parseInt(line, 10);
      if (wanted.has(pid) && ` ${line} `.includes(` ${entry} `)) holders.push(pid);
    }
    return holders;
  }
  return pids.filter((pid) => {
    try {
      const environment = readFileSync(`/proc/${pid}/environ`, 'latin1');
      return environment.startsWith(`${entry}\0`) || environment.includes(`\0${entry}\0`);
    } catch {
      return false;
    }
  });
}

/** What a descriptor of a process leads to (`pipe:[n]`, `socket:[n]`), without what all share. Linux alone; elsewhere none. */
export function openPipes(pid: number, descriptors?: readonly number[]): string[] {
  if (!linux) return [];
  const links: string[] = [];
  try {
    for (const descriptor of descriptors ?? readdirSync(`/proc/${pid}/fd`)) {
      try {
        const link = readlinkSync(`/proc/${pid}/fd/${descriptor}`);
        if (link.startsWith('socket:[') || link.startsWith('pipe:[')) links.push(link);
      } catch {
        // Closed in between.
      }
    }
  } catch {
    // Gone in between.
  }
  return links;
}
