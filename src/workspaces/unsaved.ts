import { existsSync } from 'node:fs';
import { readdir, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import type { Workspace } from '../api/workspaces.ts';
import type { Clock } from '../base/clock.ts';
import type { Environment } from './git.ts';

interface Looking {
  env: Environment;
  clock: Clock;
  /** Where bubblewrap is; null where there is none. */
  bubblewrap: string | null;
}

/** What goes with a workspace's tree, as the operation that removes it says. */
export type Unsaved =
  | { keeps_directory: true }
  | {
      keeps_directory: false;
      /** Files and folders at the root; null when there is no tree. */
      entries: number | null;
      /** Null where that cannot be found out. */
      uncommitted_files: number | null;
      /** On no remote branch that the repository knows; null where that cannot be found out. */
      unpushed_commits: number | null;
    };

/** What would be lost with a workspace's tree: nothing where the tree is the user's own. */
export async function unsaved(
  { source, path }: Pick<Workspace, 'source' | 'path'>,
  looking: Looking,
): Promise<Unsaved> {
  if (source.type === 'directory' && source.mode === 'in_place') return { keeps_directory: true };
  const nothing = { keeps_directory: false, entries: null, uncommitted_files: null, unpushed_commits: null } as const;
  if (!existsSync(path)) return nothing;
  const entries = (await readdir(path)).length;
  if (!existsSync(join(path, '.git'))) return { ...nothing, entries };
  const repository = source.type === 'directory' && source.mode === 'worktree' ? source.path : null;
  const found = await ask(path, repository, looking).catch(() => null);
  return { ...nothing, entries, ...found };
}

/**
 * Asks git in a repository that an agent may have written to, and whose settings and filters run programs: so it runs in a box
 * without a network, in which there is nothing but that repository, and nothing can be written.
 */
async function ask(path: string, repository: string | null, { env, clock, bubblewrap }: Looking) {
  if (bubblewrap === null) return null;
  const { gitEnvironment, gitIn, runGit } = await import('./git.ts');
  const shown = [path];
  if (repository !== null) {
    const common = await gitIn(repository, env).raw('rev-parse', '--path-format=absolute', '--git-common-dir');
    shown.push(await realpath(common.trim()));
  }
  const system = ['/usr', '/bin', '/lib', '/lib64', '/lib32'].flatMap((folder) => ['--ro-bind-try', folder, folder]);
  const options = '--unshare-all --die-with-parent --new-session --cap-drop ALL'.split(' ');
  const own = '--proc /proc --dev /dev --tmpfs /tmp'.split(' ');
  const repositories = shown.flatMap((folder) => ['--ro-bind', folder, folder]);
  const box = [bubblewrap, ...options, ...system, ...own, ...repositories, '--remount-ro', '/', '--chdir', path, '--'];
  const git = (...args: string[]) =>
    runGit(args, {
      env: { ...gitEnvironment(env, 'file'), GIT_OPTIONAL_LOCKS: '0' },
      clock,
      box,
      signal: new AbortController().signal,
    });
  const changed = (await git('status', '--porcelain', '-z', '--no-renames')).split('\0').filter(Boolean).length;
  const hasCommits = (await git('rev-list', '--max-count=1', '--all')).trim() !== '';
  const unpushed = hasCommits ? Number(await git('rev-list', '--count', 'HEAD', '--not', '--remotes')) : 0;
  return { uncommitted_files: changed, unpushed_commits: unpushed };
}
