import { existsSync, lstatSync, mkdirSync, readFileSync, realpathSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import type { Mount } from './argv.ts';

const line = (path: string): string => readFileSync(path, 'utf8').trim();

/** The repository of a git worktree, which lies elsewhere; null when `workspace` is no worktree, or its repository does not know it. */
function repositoryOf(workspace: string): { own: string; common: string } | null {
  const link = join(workspace, '.git');
  try {
    if (!lstatSync(link).isFile()) return null;
    const [, target = ''] = /^gitdir: (.+)$/.exec(line(link)) ?? [];
    const own = realpathSync(resolve(workspace, target));
    const common = realpathSync(resolve(own, line(join(own, 'commondir'))));
    // A file of this kind may come with any folder that somebody opens: the repository must say the same.
    const isKnown = realpathSync(resolve(own, line(join(own, 'gitdir')))) === realpathSync(link);
    return isKnown && dirname(own) === join(common, 'worktrees') ? { own, common } : null;
  } catch {
    return null;
  }
}

/**
 * What a worktree needs of its repository so that git can commit in it: everything to read; to write the worktree's own part,
 * the objects, and the folder of its own branch (all branches when its branch is in no folder). Hooks, configuration, and the
 * branches and index of the user stay as they are. May make the folders that git would make for that branch.
 */
export function worktreeMounts(workspace: string): Mount[] {
  const repository = repositoryOf(workspace);
  if (!repository) return [];
  const { own, common } = repository;
  const mounts: Mount[] = [
    { kind: 'read', path: common },
    { kind: 'write', path: join(common, 'objects') },
    { kind: 'write', path: own },
    ...['commondir', 'gitdir', 'config.worktree']
      .map((name) => join(own, name))
      .filter((path) => existsSync(path))
      .map((path): Mount => ({ kind: 'read', path })),
  ];
  const [, branch] = /^ref: (refs\/heads\/[^\n]+)$/.exec(line(join(own, 'HEAD'))) ?? [];
  if (branch === undefined || branch.includes('..')) return mounts;
  for (const path of [join(common, dirname(branch)), join(common, 'logs', dirname(branch))]) {
    try {
      mkdirSync(path, { recursive: true });
      if (realpathSync(path) === path) mounts.push({ kind: 'write', path });
    } catch {
      // Then git says what is the matter.
    }
  }
  return mounts;
}
