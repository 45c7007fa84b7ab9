import { type Home, locate } from '../src/api/home.ts';
import type { Client } from '../src/api/client.ts';
import type { Connection, Need } from './connect.ts';
import type { Environment } from './running.ts';
import { Output, type OutputFlags, type Streams } from './output.ts';

/** The options that every command has. */
export interface Flags extends OutputFlags {
  url?: string;
  tokenFile?: string;
  org?: string;
  start?: boolean;
  input?: boolean;
  yes?: boolean;
  debug?: boolean;
}

/** What a command is given: who asks, from where, and where answers go. */
export interface Context {
  env: Environment;
  home: Home;
  version: string;
  flags: Flags;
  out: Output;
  stdin: NodeJS.ReadStream;
  /** Whether there is a person to ask: a terminal in and out, and no --no-input. */
  canAsk: boolean;
  /** The daemon, found or started once. */
  connection: (need?: Need) => Promise<Connection>;
  client: (need?: Need) => Promise<Client>;
}

/** Options of a command as commander hands them over, checked by their own parsers. */
export interface Process {
  env: Environment;
  version: string;
  streams: Streams;
  stdin: NodeJS.ReadStream;
}

/** The context of one command. */
export function contextOf(flags: Flags, { env, version, streams, stdin }: Process): Context {
  const out = new Output(flags, streams, env);
  let found: Promise<Connection> | undefined;
  const connection = (need?: Need) => {
    const reach = {
      env,
      url: flags.url,
      tokenFile: flags.tokenFile,
      org: flags.org,
      start: flags.start ?? true,
      version,
    };
    found ??= import('./connect.ts').then(({ connect }) =>
      connect({ ...reach, note: (text) => out.note(out.paint('dim', text)) }, need),
    );
    return found;
  };
  return {
    env,
    home: locate(env),
    version,
    flags,
    out,
    stdin,
    canAsk: Boolean(stdin.isTTY && streams.stderr.isTTY) && flags.input !== false,
    connection,
    client: async (need) => (await connection(need)).client,
  };
}
