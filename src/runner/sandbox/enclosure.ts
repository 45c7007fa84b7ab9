import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { runFiles, type RunSpec, type SandboxSpec } from '../protocol.ts';
import { bubblewrapArguments, type Mount } from './argv.ts';
import { Egress } from './egress.ts';
import { furnish } from './furnish.ts';
import { type Guard, guardOf, madeAt, place, type Placed, placedIn, unplace } from './guard.ts';
import { widened } from './hosts.ts';
import { loginMounts } from './login.ts';
import { proxyEnvironment, type Way, ways, withRelays } from './relay.ts';
import { worktreeMounts } from './worktree.ts';

/** A program to be started as it is: not by a shell, with exactly this environment. */
export interface Start {
  program: string;
  args: string[];
  cwd: string;
  env: Record<string, string>;
}

/** Says what of the sandbox a person should know of. */
type Say = (sentence: string) => void;

/** The sandbox of one run, while it lives. */
export class Enclosure {
  readonly #spec: RunSpec;
  readonly #sandbox: SandboxSpec;
  readonly #say: Say;
  readonly #guard: Guard;
  readonly #placed: Placed[];
  readonly #record: string;
  #mounts: Mount[] = [];
  #egress: Egress | null = null;

  private constructor(spec: RunSpec, sandbox: SandboxSpec, say: Say) {
    this.#spec = spec;
    this.#sandbox = sandbox;
    this.#say = say;
    this.#record = join(spec.folder, runFiles.placed);
    this.#guard = guardOf(spec.workspace.path);
    this.#placed = place(this.#guard.placeholders, this.#record);
  }

  /**
   * Makes the workspace ready and opens the way out. The run's folder must be the working directory, and a gateway's socket
   * stand in it if there is to be one. Until `close` empty folders may stand in the workspace, where nothing was and nothing may
   * come to be.
   */
  static async open(spec: RunSpec, sandbox: SandboxSpec, say: Say): Promise<Enclosure> {
    const enclosure = new Enclosure(spec, sandbox, say);
    try {
      await enclosure.#furnish();
    } catch (error) {
      await enclosure.close();
      throw error;
    }
    return enclosure;
  }

  /** What the harness needs of the user's home: nothing when its calls of models go through the gateway. */
  get #login(): SandboxSpec['login'] {
    return this.#spec.gateway ? null : this.#sandbox.login;
  }

  async #furnish(): Promise<void> {
    const { hidden, network } = this.#sandbox;
    const login = this.#login;
    const policy = widened(network, login?.hosts ?? []);
    if (policy !== 'deny' && (policy === 'allow' || policy.allowed_hosts.length > 0)) {
      const refused = (host: string, why: string) =>
        this.#say(
          `The sandbox did not let this run reach ${host}. ${why} To allow it: network {"allowed_hosts": ["${host}"]} for a run (--allow-host ${host}), or sandbox.network in config.toml.`,
        );
      this.#egress = await Egress.open({ policy, path: runFiles.egress, refused });
    }
    const { workspace, folder } = this.#spec;
    const { own } = 'own' in this.#sandbox.relay ? this.#sandbox.relay : { own: [] };
    this.#mounts = [
      ...furnish(this.#spec, hidden, own),
      ...(login ? loginMounts(this.#spec, login) : []),
      ...worktreeMounts(workspace.path),
      ...this.#guard.mounts.filter(({ path }) => existsSync(path)),
      ...this.#open().map(({ name, socket }): Mount => ({ kind: 'write', path: socket, from: join(folder, name) })),
    ];
  }

  /** The ways that are open: sockets in the run's folder, and where they are found inside. */
  #open(): (Way & { name: string })[] {
    const all = [
      { ...ways.gateway, name: runFiles.gateway },
      { ...ways.egress, name: runFiles.egress },
    ];
    return all.filter(({ name }) => existsSync(join(this.#spec.folder, name)));
  }

  /** How to start `command` inside. `files` may be read besides. Without a login of the user's the home is private. */
  start(command: readonly string[], env: Record<string, string>, files: readonly string[] = []): Start {
    const { workspace, session_folder, env: outside } = this.#spec;
    const isUsers = this.#login !== null || env.HOME !== outside.HOME;
    const box = {
      mounts: [...this.#mounts, ...files.map((path): Mount => ({ kind: 'read', path }))],
      cwd: workspace.path,
      command: withRelays(this.#sandbox.relay, this.#open(), command),
    };
    const inside = { ...env, TMPDIR: '/tmp', IS_SANDBOX: '1', ...(this.#egress ? proxyEnvironment() : {}) };
    return {
      program: this.#sandbox.program,
      args: bubblewrapArguments(box),
      cwd: '/',
      env: isUsers ? inside : { ...inside, HOME: session_folder },
    };
  }

  /** Takes away what was put into the workspace, and says which guarded paths could not be closed and have been made or replaced. */
  async close(): Promise<void> {
    await this.#egress?.close();
    unplace(this.#placed);
    rmSync(this.#record, { force: true });
    const made = madeAt(this.#spec.workspace.path, this.#guard.open);
    if (made.length > 0)
      this.#say(
        `This run made ${made.join(', ')}: programs that you use here may run what is in there. Look at it first.`,
      );
  }
}

/** Takes away what a runner that is gone had put into the workspace. `folder` is the run's. May be repeated. */
export function clearAway(folder: string): void {
  const record = join(folder, runFiles.placed);
  unplace(placedIn(record));
  rmSync(record, { force: true });
}
