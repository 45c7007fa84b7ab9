import { spawn } from 'node:child_process';
import { closeSync, fstatSync, mkdirSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { DaemonInfo, Home } from '../src/api/home.ts';
import { type Environment, packageFolder, running } from './running.ts';
import { exit, Stop } from './exit.ts';
import { clean } from './text.ts';

/** How long a daemon may take until it can be asked. */
const patienceMs = 30_000;

/** Starts the daemon as a process of its own and waits until it answers. When somebody else is starting one, that one is taken. */
export async function startDaemon(env: Environment, home: Home, note: (text: string) => void): Promise<DaemonInfo> {
  note('Starting the agentctl daemon …');
  mkdirSync(home.state, { recursive: true, mode: 0o700 });
  const errors = join(home.state, 'daemon-stderr.log');
  const file = openSync(errors, 'a', 0o600);
  const { size } = fstatSync(file);
  // A small young generation: a daemon that is idle most of the time should be small.
  const child = spawn(
    process.execPath,
    ['--max-semi-space-size=2', join(packageFolder(), 'bin', 'agentctl.js'), 'serve'],
    {
      detached: true,
      stdio: ['ignore', 'pipe', file],
      cwd: home.state,
      // Started from inside a run, it must not count as part of that run, which would end it.
      env: { ...env, AGENTCTL_RUN_ID: undefined, AGENTCTL_WORKSPACE: undefined } as NodeJS.ProcessEnv,
    },
  );
  closeSync(file);
  const output = child.stdout as Readable;
  const ended = new Promise<string>((resolve) => {
    child.on('error', (error) => resolve(error.message));
    child.on('exit', (code, signal) => resolve(`it ended with ${signal ?? `exit code ${code}`}`));
  });
  const ready = (async (): Promise<DaemonInfo | null> => {
    for await (const line of createInterface({ input: output })) {
      const info = parse(line);
      if (info) return info;
    }
    return null;
  })();
  const timer = new AbortController();
  const late = sleep(patienceMs, 'late' as const, { signal: timer.signal }).catch(() => 'late' as const);
  const first = await Promise.race<DaemonInfo | string>([
    ready.then(async (info) => info ?? (await ended)),
    ended,
    late,
  ]);
  timer.abort();
  output.destroy();
  child.unref();
  if (typeof first !== 'string') return first;
  const said = readFileSync(errors).subarray(size).toString('utf8');
  if (first === 'late') {
    throw new Stop(
      exit.daemon,
      `The daemon was not ready after ${patienceMs / 1000} s.`,
      `see ${home.log} and ${errors}`,
    );
  }
  // Whoever lost the race for the lock waits for the winner to come up.
  const until = Date.now() + (/already running/i.test(said) ? 15_000 : 200);
  while (Date.now() < until) {
    const info = await running(home);
    if (info) return info;
    await sleep(50);
  }
  const last = clean(said).trim().split('\n').at(-1);
  throw new Stop(exit.daemon, `The daemon did not start: ${last || first}`, `see ${errors} and \`agentctl doctor\``);
}

function parse(line: string): DaemonInfo | null {
  try {
    const info = JSON.parse(line) as Partial<DaemonInfo>;
    return typeof info.url === 'string' && typeof info.pid === 'number' ? (info as DaemonInfo) : null;
  } catch {
    return null;
  }
}
