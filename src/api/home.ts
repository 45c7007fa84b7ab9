import { homedir } from 'node:os';
import { join } from 'node:path';

/** Where everything lies (contract section 10): one folder when AGENTCTL_HOME is set, otherwise the XDG folders. */
export interface Home {
  /** What `agentctl up --json` calls `home`: AGENTCTL_HOME, or the data folder. */
  home: string;
  /** config.toml */
  config: string;
  /** Database, runs, workspaces, sessions. */
  data: string;
  /** Logs and the session token. */
  state: string;
  /** Socket and daemon.json; gone after a reboot. */
  runtime: string;
  token: string;
  log: string;
  /** DaemonInfo of the daemon that runs now. */
  info: string;
}

type Environment = Record<string, string | undefined>;

/** Where everything lies for a process with this environment. */
export function locate(env: Environment): Home {
  const own = env.AGENTCTL_HOME;
  const user = env.HOME || homedir();
  const xdg = (name: string, fallback: string) => join(env[name] || join(user, fallback), 'agentctl');
  const config = own ? own : xdg('XDG_CONFIG_HOME', '.config');
  const data = own ? join(own, 'data') : xdg('XDG_DATA_HOME', '.local/share');
  const state = own ? join(own, 'state') : xdg('XDG_STATE_HOME', '.local/state');
  const runtime = own
    ? join(own, 'run')
    : env.XDG_RUNTIME_DIR
      ? join(env.XDG_RUNTIME_DIR, 'agentctl')
      : join(state, 'run');
  return {
    home: own ?? data,
    config: join(config, 'config.toml'),
    data,
    state,
    runtime,
    token: join(state, 'session-token'),
    log: join(state, 'daemon.log'),
    info: join(runtime, 'daemon.json'),
  };
}

/** The longest path that a unix socket may have here, in bytes (macOS: 103). */
const maxSocketPath = 103;

/** Where the daemon listens, or null when the folder's path is too long for a socket. */
export function socketIn(runtime: string): string | null {
  const path = join(runtime, 'agentctl.sock');
  return Buffer.byteLength(path) <= maxSocketPath ? path : null;
}

/** What daemon.json holds and what `agentctl serve` prints on one line once it can be asked. */
export interface DaemonInfo {
  url: string;
  socket: string | null;
  pid: number;
  version: string;
  home: string;
}
