import { spawn } from 'node:child_process';
import { StringDecoder } from 'node:string_decoder';

/** What came of a command. */
export interface Ended {
  /** Null when a signal ended it. */
  code: number | null;
  signal: NodeJS.Signals | null;
  /** Both streams as they came; of more than `most` characters, beginning and end. */
  output: string;
  left_out: number;
  timed_out: boolean;
}

interface Options {
  cwd: string;
  env: Record<string, string>;
  signal: AbortSignal;
  /** Milliseconds after which it is ended. */
  timeout: number;
  /** Characters of output to keep. */
  most: number;
  show?: (text: string) => void;
}

/** Milliseconds between SIGTERM and SIGKILL, and that background children may hold the pipes after the end. */
const grace = 500;
const linger = 250;

/** Runs a command in a process group of its own, which is ended with it when the time is up or the turn is cancelled. */
export function runProcess(command: string, args: string[], options: Options): Promise<Ended> {
  const { cwd, env, signal, timeout, most, show } = options;
  const { promise, resolve, reject } = Promise.withResolvers<Ended>();
  const child = spawn(command, args, { cwd, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
  const half = Math.floor(most / 2);
  let head = '';
  let tail = '';
  let left_out = 0;
  let timed_out = false;
  const timers: NodeJS.Timeout[] = [];

  const group = (name: NodeJS.Signals): void => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, name);
    } catch {
      // Nobody is left.
    }
  };
  const stop = (): void => {
    group('SIGTERM');
    timers.push(setTimeout(() => group('SIGKILL'), grace));
  };
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();
  timers.push(
    setTimeout(() => {
      timed_out = true;
      stop();
    }, timeout),
  );

  for (const pipe of [child.stdout, child.stderr]) {
    const decoder = new StringDecoder('utf8');
    pipe.on('error', () => {});
    pipe.on('data', (bytes: Buffer) => {
      const text = decoder.write(bytes);
      show?.(text);
      const fits = text.slice(0, Math.max(0, half - head.length));
      head += fits;
      tail += text.slice(fits.length);
      if (tail.length > half * 2) {
        left_out += tail.length - half;
        tail = tail.slice(-half);
      }
    });
  }

  const finish = (code: number | null, by: NodeJS.Signals | null): void => {
    signal.removeEventListener('abort', stop);
    for (const timer of timers) clearTimeout(timer);
    // What was cancelled or took too long leaves nobody behind.
    if (signal.aborted || timed_out) group('SIGKILL');
    child.stdout.destroy();
    child.stderr.destroy();
    if (tail.length > half) {
      left_out += tail.length - half;
      tail = tail.slice(-half);
    }
    const gap = left_out > 0 ? `\n[… ${left_out} characters left out …]\n` : '';
    resolve({ code, signal: by, output: head + gap + tail, left_out, timed_out });
  };
  child.once('error', (error) => {
    for (const timer of timers) clearTimeout(timer);
    reject(error);
  });
  let over = false;
  child.once('exit', (code, by) => {
    const end = (): void => {
      if (over) return;
      over = true;
      finish(code, by);
    };
    child.once('close', end);
    timers.push(setTimeout(end, linger));
  });
  return promise;
}
