import { constants, existsSync, mkdirSync, mkdtempSync, readFileSync } from 'node:fs';
import { access, cp, lstat, readdir, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { Fault } from '../api/error.ts';
import type { Workspace, WorkspaceGit } from '../api/workspaces.ts';
import type { Clock } from '../base/clock.ts';
import type { Progress } from './clone.ts';
import type { Environment } from './git.ts';

/** What of a workspace says where its tree is and what it is made of. */
type Place = Pick<Workspace, 'id' | 'name' | 'source' | 'path'>;

interface Making {
  env: Environment;
  clock: Clock;
  /** Ends what takes long; then provision throws. */
  signal: AbortSignal;
  progress(now: Progress): void;
  /** Writes a checkpoint's tree into a folder, which it makes. */
  fork(checkpoint: string, folder: string): Promise<void>;
}

const gitIn = async (folder: string, env: Environment) => (await import('./git.ts')).gitIn(folder, env);

/** Makes a workspace's tree. May be repeated after a crash. Answers its git settings, if it has some. Throws Fault. */
export async function provision(workspace: Place, making: Making): Promise<WorkspaceGit | null> {
  const { source, path } = workspace;
  const { env, clock, signal, progress, fork } = making;
  switch (source.type) {
    case 'empty':
      mkdirSync(path, { recursive: true, mode: 0o700 });
      return null;
    case 'git':
      await make(path, signal, async (folder) => {
        const { clone } = await import('./clone.ts');
        await clone({ source, folder, env, clock, signal, progress });
      });
      return { ...noGit, remote_url: source.url, ...branchAt(path) };
    case 'directory':
      if (source.mode === 'worktree') return addWorktree(workspace, source.path, env);
      if (source.mode === 'copy') {
        await make(path, signal, (folder) => copyTree(source.path, folder, { signal, progress }));
        return null;
      }
      await access(path, constants.R_OK | constants.W_OK | constants.X_OK).catch((cause: Error) => {
        throw new Fault('invalid_state', `The directory ${path} cannot be used: ${cause.message}`, { cause });
      });
      return null;
    case 'checkpoint':
      await make(path, signal, (folder) => fork(source.checkpoint_id, folder));
      return null;
  }
}

/** Names of half a workspace's tree begin so; what follows is new with each attempt, so that no two write into one. */
const half = (path: string): string => `${path}.new-`;

/** Removes what attempts to make a tree have left. */
async function sweep(path: string): Promise<void> {
  const [folder, start] = [dirname(path), basename(half(path))];
  for (const name of await readdir(folder).catch(() => []))
    if (name.startsWith(start)) await rm(join(folder, name), { recursive: true, force: true, maxRetries: 3 });
}

/** Makes a tree beside its place and puts it there when it is whole; one that is there already stays as it is. */
async function make(path: string, signal: AbortSignal, fill: (folder: string) => Promise<void>): Promise<void> {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  await sweep(path);
  if (existsSync(path)) return;
  const folder = mkdtempSync(half(path));
  try {
    await fill(join(folder, 'tree'));
    signal.throwIfAborted();
    await rename(join(folder, 'tree'), path);
  } finally {
    await sweep(path);
  }
}

const noGit: WorkspaceGit = {
  remote_url: null,
  branch: null,
  base_branch: null,
  provider: null,
  connection_id: null,
  author: null,
};

/** The branch of a fresh clone; none when it stands on a commit. */
function branchAt(path: string): Pick<WorkspaceGit, 'branch' | 'base_branch'> {
  const [, branch = null] = /^ref: refs\/heads\/(.+)\n$/.exec(readFileSync(join(path, '.git/HEAD'), 'utf8')) ?? [];
  return { branch, base_branch: branch };
}

/** Progress of a copy is said after so many files. */
const step = 500;

/** Copies files, folders and links, and nothing else; where the file system can, without copying the bytes. */
async function copyTree(
  from: string,
  to: string,
  { signal, progress }: Pick<Making, 'signal' | 'progress'>,
): Promise<void> {
  let done = 0;
  try {
    await cp(from, to, {
      recursive: true,
      verbatimSymlinks: true,
      preserveTimestamps: true,
      mode: constants.COPYFILE_FICLONE,
      filter: async (path) => {
        signal.throwIfAborted();
        const kind = await lstat(path);
        if (!kind.isDirectory() && (done += 1) % step === 0) progress({ done, total: null, unit: 'files' });
        return kind.isFile() || kind.isDirectory() || kind.isSymbolicLink();
      },
    });
  } catch (cause) {
    throw new Fault('invalid_state', `The directory ${from} cannot be copied: ${(cause as Error).message}`, { cause });
  }
}

/** A branch name that git accepts, made of a workspace's name. */
export const branchOf = (workspace: Pick<Workspace, 'id' | 'name'>): string => {
  const slug = workspace.name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 40);
  // The end of a UUIDv7 is its random part.
  return `agentctl/${slug || 'workspace'}-${workspace.id.slice(-8)}`;
};

async function addWorktree(workspace: Place, repository: string, env: Environment): Promise<WorkspaceGit> {
  const branch = branchOf(workspace);
  const git = await gitIn(repository, env);
  try {
    if ((await git.raw('rev-list', '--max-count=1', '--all')).trim() === '')
      throw new Error('it has no commit yet; make a first one.');
    const base = (await git.raw('rev-parse', '--abbrev-ref', 'HEAD')).trim();
    if (!existsSync(join(workspace.path, '.git'))) {
      mkdirSync(dirname(workspace.path), { recursive: true, mode: 0o700 });
      await rm(workspace.path, { recursive: true, force: true });
      await git.raw('worktree', 'prune');
      const known = (await git.raw('branch', '--list', branch)).trim() !== '';
      await git.raw('worktree', 'add', ...(known ? [workspace.path, branch] : ['-b', branch, workspace.path, 'HEAD']));
    }
    return { ...noGit, branch, base_branch: base === 'HEAD' ? null : base };
  } catch (cause) {
    const said = (cause as Error).message.trim().split('\n').at(-1);
    throw new Fault('invalid_state', `git could not make a worktree of ${repository}: ${said}`, { cause });
  }
}

/** Removes the tree that the daemon made; the user's own directory stays. May be repeated. `trash` is a folder beside it. */
export async function unprovision(workspace: Place, trash: string, env: Environment): Promise<void> {
  const { source, path } = workspace;
  if (source.type === 'directory' && source.mode === 'in_place') return;
  mkdirSync(trash, { recursive: true, mode: 0o700 });
  const doomed = join(trash, basename(path));
  await rm(doomed, { recursive: true, force: true });
  await rename(path, doomed).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
  });
  await rm(doomed, { recursive: true, force: true });
  if (source.type === 'directory' && source.mode === 'worktree' && (await stat(source.path).catch(() => null)))
    await (await gitIn(source.path, env)).raw('worktree', 'prune').catch(() => '');
}
