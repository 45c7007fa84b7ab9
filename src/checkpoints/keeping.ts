import { mkdirSync } from 'node:fs';
import { lstat, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Workspace } from '../api/workspaces.ts';
import type { Config } from '../base/config.ts';
import { openTrees, rest, type Trees } from '../trees/trees.ts';
import { type GitFacts, readGitFacts } from './git-facts.ts';

/** What a snapshot found, as a checkpoint has it. */
export interface Kept {
  tree_hash: string;
  file_count: number;
  size_bytes: number;
  stored_bytes: number;
  git: GitFacts | null;
}

interface KeepOptions {
  /** What is left out; as things are configured now when absent. */
  exclude?: string[];
  signal?: AbortSignal;
}

/** Where trees are kept: one store per project, and what is known of a workspace's files from the time before. */
export function createKeeping({ folder, config }: { folder: string; config: Config['checkpoints'] }) {
  const open = new Map<string, Trees>();
  const pins = new Set<{ tree_hash: string }>();
  const caches = join(folder, 'tree-caches');
  const storeOf = (project: string) => join(folder, 'trees', project);

  const treesOf = (project: string): Trees => {
    const known = open.get(project);
    if (known) return known;
    mkdirSync(caches, { recursive: true, mode: 0o700 });
    mkdirSync(storeOf(project), { recursive: true, mode: 0o700 });
    const trees = openTrees(storeOf(project));
    open.set(project, trees);
    return trees;
  };

  const cacheOf = ({ id }: Workspace): string => join(caches, id);

  return {
    treesOf,
    cacheOf,

    /** What is left out as things are configured now. */
    exclude: config.exclude,

    /**
     * Stores the workspace's tree, reads it back, and hands it to `use`. Until that has ended nothing of it is collected: by then
     * a row has to name the tree, or it is not needed any more. Throws TreeError.
     */
    async keep<Result>(
      workspace: Workspace,
      { exclude = config.exclude, signal }: KeepOptions,
      use: (kept: Kept) => Result | Promise<Result>,
    ): Promise<Result> {
      const git = readGitFacts(workspace.path);
      const pin = { tree_hash: '' };
      pins.add(pin);
      try {
        const { tree_hash, file_count, size_bytes, stored_bytes } = await treesOf(workspace.project_id).snapshot(
          workspace.path,
          {
            cache: cacheOf(workspace),
            exclude,
            limits: { max_files: config.max_files, max_bytes: config.max_megabytes * 1_048_576 },
            onTree: (tree) => void (pin.tree_hash = tree),
            ...(signal ? { signal } : {}),
          },
        );
        return await use({ tree_hash, file_count, size_bytes, stored_bytes, git });
      } finally {
        pins.delete(pin);
      }
    },

    /** Trees that are needed and that no row names yet. */
    pinned: (): string[] => [...pins].map(({ tree_hash }) => tree_hash).filter((tree) => tree !== ''),

    /** The projects that have a store. */
    async projects(): Promise<string[]> {
      return readdir(join(folder, 'trees')).catch(() => []);
    },

    /** Removes what is known of workspaces that have gone; answers how many bytes that is. */
    async forget(hasGone: (workspace: string) => boolean, isDry: boolean): Promise<number> {
      let bytes = 0;
      for (const name of await readdir(caches).catch(() => [])) {
        if (!hasGone(name.replace(/\.new$/, ''))) continue;
        const path = join(caches, name);
        bytes += (await lstat(path).catch(() => null))?.size ?? 0;
        if (!isDry) await rm(path, { force: true });
      }
      return bytes;
    },

    /** Removes a project's store. May be repeated. */
    async purge(project: string): Promise<void> {
      await open.get(project)?.close();
      open.delete(project);
      await rm(storeOf(project), { recursive: true, force: true });
    },

    /** Waits for what goes on. */
    async close(): Promise<void> {
      await Promise.all([...open.values()].map((trees) => trees.close()));
      await rest();
    },
  };
}
export type Keeping = ReturnType<typeof createKeeping>;
