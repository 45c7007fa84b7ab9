import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { runFiles, type RunSpec, type SandboxSpec } from '../protocol.ts';
import { bubblewrapArguments, type Mount } from './argv.ts';
import { furnish } from './furnish.ts';
import { type Guard, guardOf, madeAt, place, type Placed, placedIn, unplace } from './guard.ts';
import { worktreeMounts } from './worktree.ts';

/** A program to be started as it is: not by a shell, with exactly this environment. */
export interface Start {
  program: string;
  args: string[];
  cwd: string;
  env: Record<string, string>;
}

/** The sandbox of one run, while it lives. */
export class Enclosure {
  readonly #spec: RunSpec;
  readonly #sandbox: SandboxSpec;
  readonly #mounts: Mount[];
  readonly #placed: Placed[];
  readonly #open: Guard['open'];
  readonly #record: string;

  private constructor(spec: RunSpec, sandbox: SandboxSpec) {
    this.#spec = spec;
    this.#sandbox = sandbox;
    this.#record = join(spec.folder, runFiles.placed);
    const guard = guardOf(spec.workspace.path);
    this.#open = guard.open;
    this.#placed = place(guard.placeholders, this.#record);
    this.#mounts = [
      ...furnish(spec, sandbox.hidden),
      ...worktreeMounts(spec.workspace.path),
      ...guard.mounts.filter(({ path }) => existsSync(path)),
    ];
  }

  /** Makes the workspace ready. Until `close` empty folders may stand in it, where nothing was and nothing may come to be. */
  static open(spec: RunSpec, sandbox: SandboxSpec): Enclosure {
    return new Enclosure(spec, sandbox);
  }

  /** How to start `command` inside. `files` may be read besides. The home is private, whatever `env` says. */
  start(command: readonly string[], env: Record<string, string>, files: readonly string[] = []): Start {
    const { workspace, session_folder } = this.#spec;
    const box = {
      mounts: [...this.#mounts, ...files.map((path): Mount => ({ kind: 'read', path }))],
      cwd: workspace.path,
      command,
    };
    return {
      program: this.#sandbox.program,
      args: bubblewrapArguments(box),
      cwd: '/',
      env: { ...env, HOME: session_folder, TMPDIR: '/tmp' },
    };
  }

  /**
   * Takes away what was put into the workspace. Nobody may be inside any more. Answers the guarded paths that could not be closed
   * and have been made or replaced.
   */
  close(): string[] {
    unplace(this.#placed);
    rmSync(this.#record, { force: true });
    return madeAt(this.#spec.workspace.path, this.#open);
  }
}

/** Takes away what a runner that is gone had put into the workspace. `folder` is the run's. May be repeated. */
export function clearAway(folder: string): void {
  const record = join(folder, runFiles.placed);
  unplace(placedIn(record));
  rmSync(record, { force: true });
}
