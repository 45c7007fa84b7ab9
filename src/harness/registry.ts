import type { Harness } from '../api/server.ts';
import { harnessEnvironment } from '../base/config.ts';
import { isReachable, providers } from '../base/providers.ts';
import { version as ownVersion } from '../base/root.ts';
import { installedProgram } from './installed.ts';
import { isLoggedIn } from './login.ts';
import { builtinRows } from './builtin.ts';
import { findProgram } from './program.ts';
import { fileOf, type HarnessLaunch, type HarnessLogin, type HarnessRow } from './row.ts';
import { Versions } from './version.ts';

/** A row of the configuration: a new harness, or changes to one that comes along. */
export interface HarnessSettings {
  name?: string;
  command?: string[];
  env?: Record<string, string>;
  files?: Record<string, string>;
  /** Variables of the daemon's own environment to pass on. */
  pass_env?: string[];
  auth_method?: string;
  /** What it keeps below the user's home, and the hosts it must reach. */
  login?: Partial<HarnessLogin>;
  reports_cost?: boolean;
  dialect?: Exclude<HarnessRow['dialect'], null>;
  /** What sends its calls through a run's gateway. */
  managed?: { env?: Record<string, string>; files?: Record<string, string>; auth_method?: string };
}

const noLogin: HarnessLogin = { write: [], copy: [], guard: [], hosts: [] };

/** What a registry is made of. */
export interface RegistryOptions {
  /** The rows of the configuration by id. */
  rows: Record<string, HarnessSettings>;
  /** The daemon's environment: PATH is searched, and programs are asked for their version with PATH and HOME of it. */
  env: Record<string, string | undefined>;
  /** Whether a provider that is spoken to so can be called; when left out, the environment decides for our own agent. */
  isCallable?: (dialect: Exclude<HarnessRow['dialect'], null>) => boolean;
  /** Where `agentctl harnesses install` puts programs: they come before those of PATH. */
  folder?: string;
}

/** The harnesses: which there are, which are installed, and how to start one. */
export interface Registry {
  /** All ids: built-in ones first. */
  ids(): string[];
  has(id: string): boolean;
  /** Undefined for an unknown id. */
  kind(id: string): 'shell' | 'acp' | undefined;
  /** True when the cost of a run with it is known. */
  knowsCost(id: string): boolean;
  /** The model interface that it speaks, when its calls can be sent through a run's gateway; null when they cannot. */
  managedDialect(id: string): Exclude<HarnessRow['dialect'], null> | null;
  /** How to install it, in words or as a command; null where nobody has said. */
  hint(id: string): string | null;
  /**
   * How to start it; undefined when it is unknown or its program is not found outside of `workspace`. The version is told when
   * it is known without asking the program: an ACP agent tells its own when it starts.
   */
  launch(id: string, workspace?: string): HarnessLaunch | undefined;
  /**
   * The clean environment of a run with it: a fixed list of variables, and those that its row passes on. With a gateway (`managed`)
   * no variable is among them that holds a key of a provider.
   */
  environment(id: string, isManaged?: boolean): Record<string, string>;
  /** The harness as the API shows it; undefined for an unknown id. May start its program once, to ask for the version. */
  describe(id: string): Promise<Harness | undefined>;
  /** All harnesses as the API shows them. */
  list(): Promise<Harness[]>;
  /** Which model interface each speaks, and whether it is installed. */
  speakers(): { id: string; dialect: HarnessRow['dialect']; installed: boolean }[];
}

const capabilities: Harness['capabilities'] = {
  resume: true,
  input: true,
  mcp: false,
  usage: true,
  cost: false,
  models: true,
  sandbox: true,
};

/** How its calls go through the gateway. Who says in the environment where it calls, or with which key, has decided otherwise. */
function managedOf(base: HarnessRow | undefined, settings: HarnessSettings): HarnessRow['managed'] {
  const own = settings.managed;
  if (!own) {
    const ways = Object.entries(base?.managed?.env ?? {}).filter(([, value]) => value.includes('{{gateway'));
    return ways.some(([name]) => settings.env?.[name] !== undefined) ? null : (base?.managed ?? null);
  }
  return {
    env: { ...base?.managed?.env, ...own.env },
    files: { ...base?.managed?.files, ...own.files },
    auth_method: own.auth_method ?? base?.managed?.auth_method ?? null,
  };
}

/** A row of the configuration over the built-in one of the same id, if there is one: what it leaves out is taken from that. */
export function rowOf(id: string, settings: HarnessSettings): HarnessRow {
  const base = builtinRows.find((row) => row.id === id);
  const reports_cost = settings.reports_cost ?? base?.reports_cost ?? false;
  return {
    id,
    name: settings.name ?? base?.name ?? id,
    kind: base?.kind ?? 'acp',
    command: settings.command ?? base?.command ?? [],
    env: { ...base?.env, ...settings.env },
    pass_env: [...(base?.pass_env ?? []), ...(settings.pass_env ?? [])],
    files: { ...base?.files, ...settings.files },
    auth_method: settings.auth_method ?? base?.auth_method ?? null,
    managed: managedOf(base, settings),
    modes: base?.modes ?? {},
    enclosed_modes: base?.enclosed_modes ?? {},
    login: { ...noLogin, ...base?.login, ...settings.login },
    reports_cost,
    dialect: settings.dialect ?? base?.dialect ?? 'any',
    version_arguments: base?.version_arguments ?? ['--version'],
    capabilities: { ...(base?.capabilities ?? capabilities), cost: reports_cost },
    install_hint: base?.install_hint ?? null,
  };
}

/** The registry of the built-in harnesses and those of the configuration. Looks for programs anew each time it is asked. */
export function createRegistry({ rows: settings, env, folder, isCallable }: RegistryOptions): Registry {
  const rows = new Map(builtinRows.map((row) => [row.id, row]));
  for (const [id, one] of Object.entries(settings)) rows.set(id, rowOf(id, one));
  const path = env.PATH ?? '';
  const versions = new Versions({
    PATH: path,
    ...(env.HOME === undefined ? {} : { HOME: env.HOME }),
    NO_COLOR: '1',
    CI: '1',
  });

  const program = (row: HarnessRow, workspace?: string): string | null => {
    if (row.kind === 'shell') return '/bin/sh';
    const [name] = row.command;
    const own = settings[row.id]?.command || folder === undefined ? null : installedProgram(folder, row.id);
    const ours = own === null ? null : findProgram(own, '', workspace);
    return ours ?? (name === undefined ? null : findProgram(name, path, workspace));
  };

  const describe = async (row: HarnessRow): Promise<Harness> => {
    const { id, name, install_hint } = row;
    const found = program(row);
    const shown = {
      id,
      name,
      installed: found !== null,
      version: null,
      path: found === null || row.kind === 'shell' ? found : fileOf([found, ...row.command.slice(1)]),
      capabilities: row.capabilities,
      install_hint,
    };
    if (found === null) return { ...shown, status: 'not_installed' };
    if (row.id === 'builtin') {
      const ready = isCallable?.('any') ?? providers.some((provider) => isReachable(provider, env));
      return { ...shown, version: ownVersion, status: ready ? 'available' : 'needs_login' };
    }
    if (row.version_arguments === null) return { ...shown, status: 'available' };
    const version = await versions.of(found, row.version_arguments);
    if ('broken' in version) return { ...shown, status: 'broken' };
    // With a key of a provider that it speaks to it needs no login of its own.
    const isCarried = row.managed !== null && row.dialect !== null && (isCallable?.(row.dialect) ?? false);
    const isReady = settings[row.id] !== undefined || isCarried || isLoggedIn(row.id, env.HOME);
    const status = isReady ? 'available' : 'needs_login';
    return { ...shown, version: version.version === '' ? null : version.version, status };
  };

  return {
    ids: () => [...rows.keys()],
    has: (id) => rows.has(id),
    kind: (id) => rows.get(id)?.kind,
    knowsCost: (id) => rows.get(id)?.capabilities.cost ?? false,
    managedDialect: (id) => (rows.get(id)?.managed ? (rows.get(id)?.dialect ?? null) : null),
    hint: (id) => rows.get(id)?.install_hint ?? null,

    launch(id, workspace) {
      const row = rows.get(id);
      const found = row && program(row, workspace);
      if (!row || !found) return undefined;
      const { kind, env: more, files, auth_method, managed, modes, enclosed_modes, login, reports_cost } = row;
      const command = kind === 'shell' ? [] : [found, ...row.command.slice(1)];
      return {
        id,
        kind,
        version: null,
        command,
        env: more,
        files,
        auth_method,
        managed,
        modes,
        enclosed_modes,
        login,
        reports_cost,
        capabilities: row.capabilities,
      };
    },

    environment(id, isManaged = false) {
      const names = rows.get(id)?.pass_env ?? [];
      const secret = new Set(providers.flatMap(({ keys, address }) => [...keys, address]));
      return harnessEnvironment(env, isManaged ? names.filter((name) => !secret.has(name)) : names);
    },

    async describe(id) {
      const row = rows.get(id);
      return row && (await describe(row));
    },
    list: () => Promise.all([...rows.values()].map(describe)),
    speakers: () =>
      [...rows.values()].map((row) => ({ id: row.id, dialect: row.dialect, installed: program(row) !== null })),
  };
}
