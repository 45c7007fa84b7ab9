import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import type { Writable } from 'node:stream';
import type { Clock } from '../base/clock.ts';
import { socketAddress } from './address.ts';
import { identityOf, isAlive, signal } from './processes.ts';
import type { Command, ProcessIdentity, RunSpec } from './protocol.ts';

/** A runner that has been started and waits for its run. */
export interface Waiting {
  identity: ProcessIdentity;
  /** Hands it the run. It is on its own from here. */
  begin(spec: RunSpec): void;
  /** Sends it away. */
  discard(): void;
}

/** The daemon's line to a runner at work. */
export interface Link {
  /** Says something to the runner, as soon as it can be reached. */
  send(command: Command): void;
  close(): void;
}

/** Starts runners on this machine and talks to them. The seam for other machines: nothing above it knows about processes. */
export interface Executor {
  /** A waiting runner: one that was kept warm, or a new one. */
  take(): Waiting;
  /** Connects to a runner, again and again while its process lives. `grown`: the spool has more. `gone`: the process has ended. */
  attach(runner: ProcessIdentity & { nonce: string }, folder: string, on: { grown(): void; gone(): void }): Link;
  isAlive(runner: ProcessIdentity): boolean;
  /** Ends a runner without asking; what it started is left to the sweep. */
  kill(runner: ProcessIdentity): void;
  close(): void;
}

interface Options {
  clock: Clock;
  /** argv of a runner. */
  command: [string, ...string[]];
  /** How many to keep waiting. */
  warm: number;
  /** The file that takes what a runner says on standard error, which should be nothing. */
  log: string;
  /** The environment of a runner; a harness' own comes with its run. */
  env: Record<string, string>;
}

/** How long after a start the next runner is warmed up, so that it does not slow that start. */
const refillAfter = 300;
/** Milliseconds between attempts to reach a runner: short at first, for one that was just handed its run listens soon. */
const reconnectFirst = 1;
const reconnectMost = 25;

/** The executor for this machine: runners are processes of their own session that outlive the daemon. */
export function createLocalExecutor({ clock, command, warm, log, env }: Options): Executor {
  const pool: Waiting[] = [];
  let closed = false;
  let refill = () => {};

  const start = (): Waiting => {
    const stderr = openSync(log, 'a', 0o600);
    const [program, ...args] = command;
    const child = spawn(program, args, {
      detached: true,
      stdio: ['pipe', 'ignore', stderr],
      env,
    }) as ChildProcessByStdio<Writable, null, null>;
    closeSync(stderr);
    child.unref();
    // A runner that dies before it is told its run is noticed by its run never beginning.
    child.on('error', () => {});
    child.stdin.on('error', () => {});
    const identity = child.pid === undefined ? null : identityOf(child.pid);
    const entry = {
      identity: identity ?? { pid: 0, started: '', boot_id: '' },
      begin: (spec: RunSpec) => void child.stdin.end(`${JSON.stringify(spec)}\n`),
      discard: () => void child.stdin.end(),
    };
    child.on('exit', () => {
      const index = pool.indexOf(entry);
      if (index >= 0) pool.splice(index, 1);
    });
    return entry;
  };

  const fill = () => {
    while (!closed && pool.length < warm) pool.push(start());
  };
  const fillLater = () => {
    refill();
    refill = clock.timer(refillAfter, fill);
  };
  fillLater();

  return {
    take() {
      fillLater();
      return pool.shift() ?? start();
    },

    isAlive,
    kill: (runner) => void signal(runner, 'SIGKILL'),

    attach(runner, folder, { grown, gone }) {
      const unsent: Command[] = [];
      let socket: Socket | undefined;
      let ready = false;
      let over = false;
      let pause = reconnectFirst;
      let cancelTimer = () => {};

      const write = (command: Command) => socket?.write(`${JSON.stringify({ ...command, nonce: runner.nonce })}\n`);
      const again = () => {
        ready = false;
        socket = undefined;
        if (over) return;
        if (!isAlive(runner)) {
          over = true;
          setImmediate(gone);
        } else {
          cancelTimer = clock.timer(pause, open);
          pause = Math.min(reconnectMost, pause * 1.5);
        }
      };
      const open = () => {
        let address: ReturnType<typeof socketAddress>;
        try {
          address = socketAddress(folder);
        } catch {
          again();
          return;
        }
        socket = connect(address.path);
        socket.on('connect', () => {
          address.release();
          ready = true;
          pause = reconnectFirst;
          for (const command of unsent.splice(0)) write(command);
          grown();
        });
        socket.on('data', grown);
        socket.on('error', () => {});
        socket.on('close', () => {
          address.release();
          again();
        });
      };
      open();

      return {
        send(command) {
          if (ready) write(command);
          else unsent.push(command);
        },
        close() {
          over = true;
          cancelTimer();
          socket?.destroy();
        },
      };
    },

    close() {
      closed = true;
      refill();
      for (const { discard } of pool.splice(0)) discard();
    },
  };
}
