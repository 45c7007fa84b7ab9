import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createClient, type Target } from '../src/api/client.ts';
import type { DaemonInfo, Home } from '../src/api/home.ts';
import { exit, Stop } from './exit.ts';

export type Environment = Record<string, string | undefined>;

/** The token of the local session; null before the daemon's first start. */
export function sessionToken(home: Home): string | null {
  try {
    return readFileSync(home.token, 'utf8').trim();
  } catch {
    return null;
  }
}

/** daemon.json as the last daemon left it; it need not run any more. */
export function readInfo(home: Home): DaemonInfo | null {
  try {
    return JSON.parse(readFileSync(home.info, 'utf8')) as DaemonInfo;
  } catch {
    return null;
  }
}

/** What GET /healthz says. */
export interface Health {
  status: string;
  version: string;
  pid: number;
}

/** Asks a daemon how it is, without a credential; null when it does not answer. */
export async function health(target: Target): Promise<Health | null> {
  try {
    const { status, text } = await createClient({ ...target, token: null }).raw('GET', '/healthz', { idleMs: 3000 });
    return status === 200 ? (JSON.parse(text) as Health) : null;
  } catch {
    return null;
  }
}

/** The daemon of this home, when it runs and is the one that daemon.json names. */
export async function running(home: Home): Promise<DaemonInfo | null> {
  const info = readInfo(home);
  if (!info) return null;
  const answer = await health(info);
  return answer && answer.pid === info.pid ? { ...info, version: answer.version } : null;
}

/** The folder of this package, from the source, dist/ or dist/chunks/. */
export function packageFolder(): string {
  let folder = dirname(realpathSync(fileURLToPath(import.meta.url)));
  while (!existsSync(join(folder, 'bin', 'agentctl.js'))) {
    if (folder === dirname(folder))
      throw new Stop(exit.failed, 'The folder of agentctl’s package was not found.', 'install it again');
    folder = dirname(folder);
  }
  return folder;
}

/** The version of this package when it is not bundled. */
export const packageVersion = (): string =>
  (JSON.parse(readFileSync(join(packageFolder(), 'package.json'), 'utf8')) as { version: string }).version;
