import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type DaemonInfo, locate } from '../../src/api/home.ts';
import { packageRoot } from '../../src/base/root.ts';

export const binary = join(packageRoot, 'bin/agentctl.js');

/** A data directory on which the real binary runs. */
export interface TestHome {
  folder: string;
  env: Record<string, string>;
  token(): string;
  /** Starts `agentctl serve` and resolves when it is ready. */
  serve(): Promise<TestDaemon>;
  /** Runs the CLI to its end. */
  cli(args: string[], options?: { cwd?: string; input?: string }): Promise<Finished>;
  remove(): void;
}

export interface TestDaemon extends DaemonInfo {
  process: ChildProcess;
  /** SIGKILL, and wait for the end. */
  kill(): Promise<void>;
  /** SIGTERM, and wait for the end. */
  stop(): Promise<void>;
  /** A request with the session's token; the parsed body. */
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into bodies of many shapes
  call(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<any>;
}

export interface Finished {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** A fresh home; `config` is the text of its config.toml. */
export function createHome(config = ''): TestHome {
  const folder = mkdtempSync(join(tmpdir(), 'agentctl-home-'));
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  // A machine that others use, too, may hold a daemon up for seconds: that is no news about it.
  writeFileSync(join(folder, 'config.toml'), `${config}\n[limits]\ndelay_ms = 600_000\n`);
  const env = {
    PATH: process.env.PATH ?? '',
    HOME: process.env.HOME ?? '/',
    AGENTCTL_HOME: folder,
    AGENTCTL_PORT: '0',
    NO_COLOR: '1',
  };
  const home = locate(env);
  const token = () => readFileSync(home.token, 'utf8').trim();
  const ended = (child: ChildProcess) =>
    new Promise<void>((resolve) =>
      child.exitCode !== null || child.signalCode !== null ? resolve() : child.once('exit', () => resolve()),
    );

  return {
    folder,
    env,
    token,

    async serve() {
      const child = spawn(process.execPath, [binary, 'serve'], { env, stdio: ['ignore', 'pipe', 'pipe'] });
      let said = '';
      child.stderr.on('data', (text: Buffer) => (said += text.toString()));
      const line = await new Promise<string>((resolve, reject) => {
        createInterface({ input: child.stdout }).once('line', resolve);
        child.once('exit', (code, signal) => reject(new Error(`agentctl serve ended with ${code ?? signal}: ${said}`)));
      });
      const info = JSON.parse(line) as DaemonInfo;
      return {
        ...info,
        process: child,
        async kill() {
          child.kill('SIGKILL');
          await ended(child);
        },
        async stop() {
          child.kill('SIGTERM');
          await ended(child);
        },
        async call(method, path, body, headers = {}) {
          const answer = await fetch(`${info.url}${path}`, {
            method,
            headers: {
              authorization: `Bearer ${token()}`,
              ...(body === undefined ? {} : { 'content-type': 'application/json' }),
              ...headers,
            },
            ...(body === undefined ? {} : { body: JSON.stringify(body) }),
          });
          const text = await answer.text();
          return text === '' ? null : JSON.parse(text);
        },
      };
    },

    async cli(args, { cwd = folder, input } = {}) {
      const child = spawn(process.execPath, [binary, ...args], { env, cwd, stdio: ['pipe', 'pipe', 'pipe'] });
      child.stdin.end(input ?? '');
      const finished: Finished = { code: null, stdout: '', stderr: '' };
      child.stdout.on('data', (text: Buffer) => (finished.stdout += text.toString()));
      child.stderr.on('data', (text: Buffer) => (finished.stderr += text.toString()));
      finished.code = await new Promise((resolve) => child.once('close', resolve));
      return finished;
    },

    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}
