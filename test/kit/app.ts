import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { FastifyInstance, InjectOptions } from 'fastify';
import { createServer } from '../../daemon/server.ts';
import { type Home, locate } from '../../src/api/home.ts';
import { type App, createApp } from '../../src/app.ts';
import { type Clock, systemClock } from '../../src/base/clock.ts';
import { checkConfig } from '../../src/base/config.ts';
import { silent } from '../../src/base/log.ts';
import { packageRoot } from '../../src/base/root.ts';

export interface TestApp {
  app: App;
  server: FastifyInstance;
  home: Home;
  token: string;
  /** A request with the session's token: status, headers and the parsed body. */
  call(method: string, url: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>;
  close(): Promise<void>;
}

export interface Answer {
  status: number;
  headers: Record<string, string | undefined>;
  text: string;
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into bodies of many shapes
  body: any;
}

/** The real app on a folder of its own, with the runner from source; nothing listens, requests are injected. */
export async function openApp({
  config = {},
  clock = systemClock,
  folder = mkdtempSync(join(tmpdir(), 'agentctl-test-')),
}: { config?: object; clock?: Clock; folder?: string } = {}): Promise<TestApp> {
  const env = { ...process.env, AGENTCTL_HOME: folder };
  const home = locate(env);
  const app = createApp({
    home,
    clock,
    env,
    config: checkConfig({ runs: { warm_runners: 0, grace_seconds: 1 }, ...config }),
    log: silent,
    runner: [process.execPath, '--disable-warning=ExperimentalWarning', join(packageRoot, 'src/runner/main.ts')],
  });
  const server = await createServer(app);
  const token = readFileSync(home.token, 'utf8').trim();
  app.open();

  return {
    app,
    server,
    home,
    token,
    async call(method, url, body, headers = {}) {
      const answer = await server.inject({
        method: method as 'GET',
        url,
        headers: {
          host: '127.0.0.1',
          authorization: `Bearer ${token}`,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(body === undefined ? {} : { payload: typeof body === 'string' ? body : JSON.stringify(body) }),
      } as InjectOptions);
      const isJson = String(answer.headers['content-type'] ?? '').startsWith('application/json');
      return {
        status: answer.statusCode,
        headers: answer.headers as Record<string, string>,
        text: answer.body,
        body: isJson ? JSON.parse(answer.body) : undefined,
      };
    },
    async close() {
      await server.close();
      await app.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Polls until `look` answers something; throws with `what` after `within` milliseconds. */
export async function until<T>(what: string, look: () => T | undefined | false | Promise<T | undefined | false>, within = 20_000): Promise<T> {
  const end = performance.now() + within;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    if (performance.now() > end) throw new Error(`Waited ${within} ms in vain for ${what}.`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
