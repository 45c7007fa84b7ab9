import { readFileSync } from 'node:fs';
import { type Client, createClient, type Target } from '../src/api/client.ts';
import { type DaemonInfo, type Home, locate } from '../src/api/home.ts';
import { exit, Stop } from './exit.ts';
import { idIn, wanted } from './organization.ts';
import { type Environment, readInfo, running, sessionToken } from './running.ts';

/** What decides which daemon is meant, and whether one may be started. */
export interface Reach {
  env: Environment;
  url?: string | undefined;
  tokenFile?: string | undefined;
  /** The organization to act in: an id, the beginning of one, or a name. */
  org?: string | undefined;
  /** False with --no-start. */
  start: boolean;
  version: string;
  note: (text: string) => void;
}

/** What a command needs of the daemon. */
export interface Need {
  /** `no`: never start one. */
  start?: 'no';
  /** Talk to a daemon of any version. */
  anyVersion?: boolean;
}

/** A daemon that answers. `info` is null when it was named with --url or AGENTCTL_URL. */
export interface Connection {
  client: Client;
  target: Target;
  info: DaemonInfo | null;
}

/** Finds the daemon, starting it when nobody answers and that is allowed. Throws Stop with exit code 8 or 4. */
export async function connect(reach: Reach, need: Need = {}): Promise<Connection> {
  const { env, version } = reach;
  const userAgent = `agentctl-cli/${version}`;
  const home = locate(env);
  const named = reach.url ?? env.AGENTCTL_URL;
  if (named) {
    const target = await within(foreign(reach, named, home), wanted(reach));
    return { client: createClient(target, { userAgent }), target, info: null };
  }
  let info = await running(home);
  if (!info) {
    if (need.start === 'no' || !reach.start) {
      throw new Stop(exit.daemon, 'The agentctl daemon is not running.', 'start it with `agentctl up`');
    }
    const { startDaemon } = await import('./start.ts');
    info = await startDaemon(env, home, reach.note);
  }
  if (info.version !== version && !need.anyVersion) {
    const message = `The daemon that runs is agentctl ${info.version} and this is ${version}.`;
    throw new Stop(exit.daemon, message, 'run `agentctl restart`; runs go on meanwhile');
  }
  const first = info;
  let organization: string | null = null;
  // Asked for each request: a daemon that was restarted may have another port and another token.
  const locateNow = (): Target => {
    const { url, socket } = readInfo(home) ?? first;
    return { url, socket, token: tokenOf(reach, home), organization };
  };
  ({ organization = null } = await within(locateNow(), wanted(reach, home)));
  return { client: createClient(locateNow, { userAgent }), target: locateNow(), info };
}

/** The same place, acting in the organization that is wanted. */
async function within(target: Target, text: string | null): Promise<Target> {
  return text === null ? target : { ...target, organization: await idIn(createClient(target), text) };
}

function foreign(reach: Reach, url: string, home: Home): Target {
  if (!URL.canParse(url) || !/^https?:/.test(url))
    throw new Stop(exit.usage, `${url} is not an http or https address.`);
  const own = readInfo(home)?.url === url.replace(/\/$/, '');
  const token = own ? tokenOf(reach, home) : given(reach);
  if (token) return { url, token };
  throw new Stop(
    exit.notAllowed,
    `There is no credential for ${url}.`,
    'set AGENTCTL_TOKEN, or name a file with --token-file',
  );
}

function given({ tokenFile, env }: Reach): string | null {
  if (!tokenFile) return env.AGENTCTL_TOKEN || null;
  try {
    return readFileSync(tokenFile, 'utf8').trim();
  } catch (error) {
    throw new Stop(exit.usage, `The token file cannot be read: ${(error as Error).message}`);
  }
}

const tokenOf = (reach: Reach, home: Home): string | null => given(reach) ?? sessionToken(home);
