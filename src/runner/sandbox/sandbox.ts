import { execFile, execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { platform } from 'node:process';
import type { Isolation } from '../../api/runs.ts';
import { ownProgram } from '../../base/root.ts';
import { findProgram } from '../../harness/program.ts';
import type { SandboxSpec } from '../protocol.ts';
import { bubblewrapArguments, type Mount } from './argv.ts';
import { systemMounts } from './furnish.ts';
import { guardOf } from './guard.ts';
import type { Relay } from './relay.ts';

/** What sandbox a machine has. */
export type SandboxState =
  | { available: true; isolation: Isolation; program: string }
  | { available: false; reason: string; remedy: string };

/** Whether runs can be enclosed on this machine, found out by trying. */
export interface Sandbox {
  /** The state as it is known, tried now if it is not. */
  state(): SandboxState;
  /** Tries without keeping others waiting. */
  warm(): Promise<void>;
  /** What a runner must know to enclose a run besides its own; null where nothing can be enclosed. */
  spec(): Omit<SandboxSpec, 'network' | 'login'> | null;
}

interface Needs {
  /** The path of bubblewrap, or null when it is not there. */
  find(): string | null;
  /** Where the trial may make a folder of its own. */
  folder: string;
  /** What passes connections on inside. */
  relay: Relay;
  /** Folders that no run may see: the daemon's own. */
  hidden: string[];
}

const bubblewrapped: Isolation = { level: 'bubblewrap', filesystem_enforced: true, network_enforced: true };

/** The distribution's own program before one of PATH: another one is not in the rules that Ubuntu's AppArmor has for it. */
export function findBubblewrap(path: string, configured?: string): string | null {
  if (platform !== 'linux') return null;
  if (configured !== undefined) return findProgram(configured, path);
  return findProgram('/usr/bin/bwrap', '') ?? findProgram('bwrap', path);
}

/** socat where the system has it, for it starts at once and needs little; otherwise a program of ours. */
export const findRelay = (): Relay => {
  const socat = findProgram('/usr/bin/socat', '');
  return socat === null ? { own: ownProgram('inside.js', 'src/runner/sandbox/inside.ts') } : { socat };
};

const install = 'Install bubblewrap: apt install bubblewrap (or dnf, pacman, zypper).';

/**
 * Tries, inside, what must be possible and what must not, and names each that went wrong. Its arguments: a secret's path, a path
 * outside, the outer namespace of the network.
 */
const trial = `
cat "$1" >/dev/null 2>&1 && echo read-outside
(: > "$2") 2>/dev/null
(: > .git/hooks/pre-commit) 2>/dev/null && echo write-guarded
[ "$(readlink /proc/self/ns/net)" = "$3" ] && echo network
: > inside || echo write-inside
echo tried
`;

const prefix = 'sandbox-trial-';

interface Trial {
  folder: string;
  args: string[];
}

/** A folder with something to find, and the arguments of the trial in it. */
function prepare(parent: string): Trial {
  mkdirSync(parent, { recursive: true, mode: 0o700 });
  const folder = mkdtempSync(join(parent, prefix));
  const workspace = join(folder, 'workspace');
  mkdirSync(join(workspace, '.git', 'hooks'), { recursive: true });
  mkdirSync(join(workspace, '.git', 'info', 'attributes'), { recursive: true });
  const secret = join(folder, 'secret');
  writeFileSync(secret, 'secret', { mode: 0o600 });
  const mounts: Mount[] = [
    ...systemMounts(),
    { kind: 'write', path: workspace },
    ...guardOf(workspace, ['.git/hooks']).mounts,
  ];
  const command = ['/bin/sh', '-c', trial, 'sh', secret, join(folder, 'outside'), readlinkSync('/proc/self/ns/net')];
  return { folder, args: bubblewrapArguments({ mounts, cwd: workspace, command }) };
}

/** What a trial's output means. */
function judge(program: string, { folder }: Trial, said: string, complaint: string): SandboxState {
  const wrong = said.split('\n').filter((line) => line !== '' && line !== 'tried');
  // Inside, a file may seem to be written outside: what counts is whether it is there.
  if (existsSync(join(folder, 'outside'))) wrong.push('write-outside');
  if (said.includes('tried\n') && wrong.length === 0 && existsSync(join(folder, 'workspace', 'inside')))
    return { available: true, isolation: bubblewrapped, program };
  if (/permission|not permitted|namespace|uid map/i.test(complaint)) {
    return {
      available: false,
      reason: `bubblewrap is installed, but this machine does not let it make namespaces: ${complaint}`,
      remedy:
        'Allow it: on Ubuntu 24.04 and later load the AppArmor profile bwrap-userns-restrict (apt install apparmor-profiles), or set sysctl kernel.apparmor_restrict_unprivileged_userns=0; elsewhere sysctl kernel.unprivileged_userns_clone=1.',
    };
  }
  const what = wrong.length > 0 ? `it does not hold: ${wrong.join(', ')}` : complaint || 'it could not be tried';
  return { available: false, reason: `bubblewrap does not work here: ${what}.`, remedy: install };
}

const missing: SandboxState =
  platform === 'linux'
    ? { available: false, reason: 'bubblewrap is not installed.', remedy: install }
    : {
        available: false,
        reason: 'Sandboxes are made with bubblewrap, which is for Linux.',
        remedy: 'Run the daemon on Linux, or without a sandbox.',
      };

const environment = { PATH: '/usr/bin:/bin' };
const patience = 10_000;

/** The sandbox of this machine. A failed trial is made again when it is asked for; a good one holds as long as the daemon. */
export function createSandbox({ find, folder, relay, hidden }: Needs): Sandbox {
  let known: SandboxState | undefined;

  const settle = (program: string, tried: Trial, said: string, complaint: string): SandboxState => {
    known = judge(program, tried, said, complaint.trim().split('\n').at(-1) ?? '');
    rmSync(tried.folder, { recursive: true, force: true });
    return known;
  };

  const state = (): SandboxState => {
    if (known?.available) return known;
    const program = find();
    if (program === null) return missing;
    const tried = prepare(folder);
    try {
      const said = execFileSync(program, tried.args, {
        env: environment,
        encoding: 'utf8',
        timeout: patience,
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      return settle(program, tried, said, '');
    } catch (error) {
      const { stdout, stderr, message } = error as Error & { stdout?: string; stderr?: string };
      return settle(program, tried, stdout ?? '', stderr || message);
    }
  };

  return {
    state,

    warm() {
      const program = find();
      if (known || program === null) return Promise.resolve();
      // What a daemon left that died while it tried.
      for (const name of existsSync(folder) ? readdirSync(folder) : [])
        if (name.startsWith(prefix)) rmSync(join(folder, name), { recursive: true, force: true });
      const tried = prepare(folder);
      return new Promise((resolve) => {
        const options = { env: environment, timeout: patience };
        execFile(program, tried.args, options, (error, said, complaint) => {
          settle(program, tried, said, complaint || (error?.message ?? ''));
          resolve();
        });
      });
    },

    spec() {
      const found = state();
      return found.available ? { isolation: found.isolation, program: found.program, relay, hidden } : null;
    },
  };
}
