import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { Agent, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { createServer } from '../../daemon/server.ts';
import { type Home, locate } from '../../src/api/home.ts';
import { type App, createApp } from '../../src/app.ts';
import { type Clock, systemClock } from '../../src/base/clock.ts';
import { checkConfig } from '../../src/base/config.ts';
import { silent } from '../../src/base/log.ts';
import { packageRoot } from '../../src/base/root.ts';
import type { Resolve } from '../../src/webhooks/destinations.ts';
import { fromSource } from './source.ts';

export interface TestApp {
  app: App;
  server: FastifyInstance;
  port: number;
  home: Home;
  token: string;
  /** A request with the session's token: status, headers and the parsed body. */
  call(method: string, url: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>;
  /** Ends the app and leaves its folder. */
  leave(): Promise<void>;
  close(): Promise<void>;
}

export interface Answer {
  status: number;
  headers: Record<string, string | undefined>;
  text: string;
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into bodies of many shapes
  body: any;
}

/**
 * The real app behind a real listener on a folder of its own, with the runner from source; on a machine without a sandbox,
 * unless bubblewrap's place is given, and without keys of providers, unless `env` has some.
 */
export async function openApp({
  config = {},
  clock = systemClock,
  folder = mkdtempSync(join(tmpdir(), 'agentctl-test-')),
  bubblewrap = () => null,
  resolve,
  env: more = {},
}: {
  config?: object;
  clock?: Clock;
  folder?: string;
  bubblewrap?: () => string | null;
  resolve?: Resolve;
  env?: Record<string, string>;
} = {}): Promise<TestApp> {
  const { PATH, HOME } = process.env;
  const env = { PATH, HOME, AGENTCTL_HOME: folder, ...more };
  const home = locate(env);
  const app = createApp({
    home,
    clock,
    env,
    // A machine that others use, too, may hold everything up for seconds: that is no news about the app.
    config: checkConfig({ runs: { warm_runners: 0, grace_seconds: 1 }, limits: { delay_ms: 600_000 }, ...config }),
    log: silent,
    bubblewrap,
    ...(resolve ? { resolve } : {}),
    runner: fromSource(join(packageRoot, 'src/runner/main.ts')),
  });
  const server = await createServer(app);
  await server.listen({ host: '127.0.0.1', port: 0 });
  const { port } = server.server.address() as AddressInfo;
  const token = readFileSync(home.token, 'utf8').trim();
  const agent = new Agent({ keepAlive: true });
  app.open();

  const leave = async () => {
    agent.destroy();
    await server.close();
    await app.close();
  };
  return {
    app,
    server,
    port,
    home,
    token,
    call: (method, path, body, headers = {}) =>
      new Promise((resolve, reject) => {
        const payload = body === undefined || typeof body === 'string' ? body : JSON.stringify(body);
        const all = {
          authorization: `Bearer ${token}`,
          ...(payload === undefined
            ? {}
            : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(payload) }),
          ...headers,
        };
        const sent = request({ host: '127.0.0.1', port, method, path, headers: all, agent }, (answer) => {
          const parts: Buffer[] = [];
          answer.on('data', (bytes: Buffer) => parts.push(bytes));
          answer.on('error', reject);
          answer.on('end', () => {
            const text = Buffer.concat(parts).toString('utf8');
            const isJson = answer.headers['content-type']?.startsWith('application/json') && text !== '';
            resolve({
              status: answer.statusCode!,
              headers: answer.headers as Answer['headers'],
              text,
              body: isJson ? JSON.parse(text) : undefined,
            });
          });
        });
        sent.on('error', reject);
        sent.end(payload);
      }),
    leave,
    async close() {
      await leave();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/**
 * Polls until `look` answers something; throws with `what` after `within` milliseconds. The longer it takes, the seldomer it looks,
 * so that looking costs what it waits for nothing.
 */
export async function until<T>(
  what: string,
  look: () => T | undefined | false | Promise<T | undefined | false>,
  within = 20_000,
): Promise<T> {
  const begin = performance.now();
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    const waited = performance.now() - begin;
    if (waited > within) throw new Error(`Waited ${within} ms in vain for ${what}.`);
    await new Promise((resolve) => setTimeout(resolve, Math.min(5 + waited / 10, 100)));
  }
}
