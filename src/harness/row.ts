import type { PermissionMode } from '../api/runs.ts';
import type { Harness } from '../api/server.ts';

/** What a harness keeps below the user's home; all paths relative to that. */
export interface HarnessLogin {
  /** Folders with its login and its conversations: it reads and writes them. */
  write: string[];
  /** Files that it gets a copy of. */
  copy: string[];
  /** Below those folders: what it, or another program, runs commands from. It may only read that. */
  guard: string[];
  /** Hosts that it must reach, whatever else the run may: those of its provider. */
  hosts: string[];
}

/** A harness as data: how it is found, started and what it can do. */
export interface HarnessRow {
  id: string;
  name: string;
  kind: 'shell' | 'acp';
  /** argv; the first is the name to find on PATH, or an absolute path. Empty for `shell`. */
  command: string[];
  /** Added to the clean environment; `{{model}}`, `{{home}}` and `{{workspace}}` are filled in by the runner. */
  env: Record<string, string>;
  /** Variables of the daemon's own environment that it needs. */
  pass_env: string[];
  /** Files below the session's private folder, with the same templates. */
  files: Record<string, string>;
  auth_method: string | null;
  /** What it needs in a sandbox when it works with the user's own login; null for one that has none. */
  login: HarnessLogin | null;
  /**
   * What is added, over all this, when its calls of models go through the run's gateway: `{{gateway}}` (address),
   * `{{gateway_api}}` (the same with the version's segment), `{{gateway_key}}`, `{{kind}}` (of the provider) and `{{ai_sdk}}`
   * are filled in, too. Null for one that cannot be told where to call.
   */
  managed: { env: Record<string, string>; files: Record<string, string>; auth_method: string | null } | null;
  /** Values of the agent's own option `mode` for our permission modes; where there is none, the runner answers by itself. */
  modes: Partial<Record<PermissionMode, string>>;
  /** The same inside of our sandbox, where a sandbox of its own would only be in the way. */
  enclosed_modes: Partial<Record<PermissionMode, string>>;
  reports_cost: boolean;
  /** The model interface that it speaks; null for none. */
  dialect: 'anthropic' | 'responses' | 'chat' | 'gemini' | 'any' | null;
  /** What makes the program print its version; null when it has none. */
  version_arguments: string[] | null;
  capabilities: Harness['capabilities'];
  install_hint: string | null;
}

/** The file that a command line is about: the program, or the script that this Node.js is to run. */
export const fileOf = ([program = '', script]: readonly string[]): string =>
  program === process.execPath && script !== undefined ? script : program;

/** How a harness is started: a row whose program was found, so that the first of `command` is an absolute path. */
export type HarnessLaunch = Pick<
  HarnessRow,
  | 'id'
  | 'kind'
  | 'command'
  | 'env'
  | 'files'
  | 'auth_method'
  | 'managed'
  | 'modes'
  | 'enclosed_modes'
  | 'login'
  | 'reports_cost'
  | 'capabilities'
> & { version: string | null };
