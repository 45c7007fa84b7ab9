import { statSync } from 'node:fs';

/** What a program says about its version, `''` when it says nothing of use; `broken` when it cannot be started at all. */
export type Version = { version: string } | { broken: true };

/** Runs `<program> --version`. A program that does not know how to answer is not broken; one that cannot be started is. */
async function askVersion(
  path: string,
  args: string[],
  env: Record<string, string>,
  timeout: number,
): Promise<Version> {
  // Nobody who only starts a run needs this package.
  const { execa } = await import('execa');
  const answer = await execa(path, args, {
    env,
    timeout,
    extendEnv: false,
    cwd: '/',
    stdin: 'ignore',
    reject: false,
    killSignal: 'SIGKILL',
    maxBuffer: 65_536,
  });
  const { exitCode, stdout, stderr, failed } = answer;
  // Not started at all, or started by a shebang whose interpreter is missing.
  if ((exitCode === undefined && !answer.timedOut && !answer.signal) || exitCode === 126 || exitCode === 127)
    return { broken: true };
  const found = /\d+\.\d+[\w.+-]*/.exec(stdout) ?? (failed ? null : /\d+\.\d+[\w.+-]*/.exec(stderr));
  return { version: found?.[0] ?? '' };
}

/** Remembers versions by path, time and size of the program: one that was replaced is asked again. */
export class Versions {
  readonly #env: Record<string, string>;
  readonly #within: number;
  readonly #asked = new Map<string, Promise<Version>>();

  /** `within`: milliseconds that a program gets to answer. */
  constructor(env: Record<string, string>, within = 15_000) {
    this.#env = env;
    this.#within = within;
  }

  /** The version of the program at `path`. */
  of(path: string, args: string[]): Promise<Version> {
    let key = '';
    try {
      const { mtimeMs, size } = statSync(path);
      key = `${path} ${mtimeMs} ${size} ${args.join(' ')}`;
    } catch {
      return Promise.resolve({ broken: true });
    }
    let version = this.#asked.get(key);
    if (!version) {
      version = askVersion(path, args, this.#env, this.#within);
      this.#asked.set(key, version);
    }
    return version;
  }
}
