import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { Agent, type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { type DaemonInfo, type Home, locate } from '../src/api/home.ts';
import type { Bench, Child, Place } from './place.ts';

/** A whole answer. */
export interface Answer {
  status: number;
  body: string;
}

/** Where the parts of a home below `root` are. */
export const homeIn = (root: string): Home => locate({ AGENTCTL_HOME: root });

/** A live daemon: the built program, started as `agentctl serve`. */
export class Daemon {
  readonly child: Child;
  readonly home: Home;
  readonly url: URL;
  readonly headers: Record<string, string>;
  readonly agent = new Agent({ keepAlive: true, maxSockets: 64 });

  private constructor(child: Child, home: Home, info: DaemonInfo) {
    this.child = child;
    this.home = home;
    this.url = new URL(info.url);
    this.headers = { authorization: `Bearer ${readFileSync(home.token, 'utf8').trim()}` };
  }

  /** Starts one on the home below `root`; resolves when it has said that it listens. `probed` ones can be asked for figures. */
  static async start(
    bench: Bench,
    place: Place,
    root: string,
    { probed = false, config = '', env = {} }: { probed?: boolean; config?: string; env?: Record<string, string> } = {},
  ): Promise<Daemon> {
    const home = homeIn(root);
    mkdirSync(root, { recursive: true, mode: 0o700 });
    writeFileSync(home.config, config);
    const child = place.node({
      args: [
        ...bench.nodeArguments,
        ...(probed ? ['--import', import.meta.resolve('./probe.js')] : []),
        join(bench.package, 'bin/agentctl.js'),
        'serve',
      ],
      env: { AGENTCTL_HOME: root, AGENTCTL_PORT: '0', ...env },
      stdio: ['ignore', 'pipe', 'pipe', ...(probed ? (['ipc'] as const) : [])],
    });
    const lines = createInterface({ input: child.process.stdout as Readable });
    const early = once(child.process, 'exit').then((): never => {
      throw new Error(`The daemon did not start: ${readSafely(home.log)}`);
    });
    early.catch(() => {});
    const [first] = (await Promise.race([once(lines, 'line'), early])) as [string];
    return new Daemon(child, home, JSON.parse(first) as DaemonInfo);
  }

  /** Asks; the answer's body has been read. */
  async ask(method: string, path: string, body?: object, headers: Record<string, string> = {}): Promise<Answer> {
    const message = await send(
      this.url,
      { method, path, headers: { ...this.headers, ...headers }, agent: this.agent },
      body,
    );
    return { status: message.statusCode ?? 0, body: await textOf(message) };
  }

  /** Asks and reads the JSON answer. Throws when it is a refusal. */
  async json<T>(method: string, path: string, body?: object): Promise<T> {
    const { status, body: text } = await this.ask(method, path, body);
    if (status >= 300) throw new Error(`${method} ${path} was answered with ${status}: ${text}`);
    return JSON.parse(text) as T;
  }

  /** Resolves when a run has come to its end, with its status. */
  async ended(run: string, seconds = 30): Promise<string> {
    for (const end = Date.now() + seconds * 1000; Date.now() < end; await sleep(15)) {
      const { status } = await this.json<{ status: string }>('GET', `/v1/runs/${run}`);
      if (['completed', 'failed', 'cancelled'].includes(status)) return status;
    }
    throw new Error(`The run ${run} did not end within ${seconds} s.`);
  }

  /** Stops it with SIGTERM. */
  async stop(): Promise<void> {
    this.agent.destroy();
    await this.child.end();
  }
}

const readSafely = (path: string): string => {
  try {
    return readFileSync(path, 'utf8').slice(-2000);
  } catch {
    return 'it left no log.';
  }
};

/** Sends a request; the answer's body has still to be read. */
export async function send(
  url: URL,
  options: { method?: string; path: string; headers?: Record<string, string>; agent?: Agent },
  body?: object,
): Promise<IncomingMessage> {
  const text = body === undefined ? undefined : JSON.stringify(body);
  const headers = {
    ...options.headers,
    ...(text === undefined
      ? {}
      : { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(text)) }),
  };
  const asked = request({ host: url.hostname, port: url.port, ...options, headers });
  asked.setTimeout(60_000, () => asked.destroy(new Error(`${options.path} was not answered within a minute.`)));
  asked.end(text);
  const [message] = (await once(asked, 'response')) as [IncomingMessage];
  return message;
}

/** The whole body as text. */
export async function textOf(message: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of message) parts.push(part as Buffer);
  return Buffer.concat(parts).toString();
}

/** Resident memory of a process in bytes, as the kernel counts it: now (`VmRSS`) or at its highest (`VmHWM`). Linux alone. */
export function resident(pid: number, which: 'VmRSS' | 'VmHWM' = 'VmRSS'): number {
  const found = new RegExp(`^${which}:\\s+(\\d+) kB`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'latin1'));
  return Number(found?.[1] ?? Number.NaN) * 1024;
}

/** Lets the highest resident memory of a process begin anew. */
export function forgetHighest(pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, '5');
}
