import { type Dirent, lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { FileChange } from '../api/runs.ts';
import type { Clock } from '../base/clock.ts';

/** One changed path, relative to the workspace, with `/`. */
export interface Change {
  path: string;
  change: FileChange['change'];
}

/**
 * Folders that are never looked into: what version control keeps for itself, and what tools can make again. A checkpoint holds
 * or leaves them out by rules of its own; for the list of changes they would only be noise.
 */
const skipped = new Set([
  '.git',
  '.hg',
  '.svn',
  '.jj',
  'node_modules',
  '.pnpm-store',
  '__pycache__',
  '.venv',
  '.tox',
  '.mypy_cache',
  '.pytest_cache',
]);

/** More files than this are not watched. */
export const mostFiles = 200_000;

/** Path to what tells one state of a file from another. */
export type Tree = Map<string, string>;

/** Thrown when a workspace has more files than are watched. */
export class TooManyFiles extends Error {}

/** Milliseconds of walking before others get their turn. */
const stint = 8;

/**
 * All files (and links, sockets, …) below `root` with type, size, time, inode and mode. A folder that cannot be read is left
 * out. Throws TooManyFiles.
 */
export async function walk(root: string, clock: Clock, most = mostFiles): Promise<Tree> {
  const tree: Tree = new Map();
  const folders = [''];
  let since = clock.monotonic();
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    if (clock.monotonic() - since > stint) {
      await new Promise((resolve) => setImmediate(resolve));
      since = clock.monotonic();
    }
    let entries: Dirent[];
    try {
      entries = readdirSync(join(root, folder), { withFileTypes: true });
    } catch {
      continue;
    }
    for (const entry of entries) {
      const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
      if (entry.isDirectory()) {
        if (!skipped.has(entry.name)) folders.push(path);
        continue;
      }
      try {
        const { mode, size, mtimeMs, ino } = lstatSync(join(root, path));
        tree.set(path, `${mode} ${size} ${mtimeMs} ${ino}`);
      } catch {
        continue;
      }
      if (tree.size > most) throw new TooManyFiles(`The workspace has more than ${most} files.`);
    }
  }
  return tree;
}

/** What differs between two looks at a tree, ordered by path. */
export function compare(before: Tree, after: Tree): Change[] {
  const changes: Change[] = [];
  for (const [path, state] of after) {
    const old = before.get(path);
    if (old === undefined) changes.push({ path, change: 'added' });
    else if (old !== state) changes.push({ path, change: 'modified' });
  }
  for (const path of before.keys()) if (!after.has(path)) changes.push({ path, change: 'deleted' });
  return changes.toSorted((one, other) => (one.path < other.path ? -1 : 1));
}

/** Bytes of changes in one record, as JSON. */
const recordBytes = 1_048_576;

/** Changes in groups that fit into a record each. */
export function* inRecords(changes: Change[]): Generator<Change[]> {
  let group: Change[] = [];
  let size = 0;
  for (const change of changes) {
    const bytes = Buffer.byteLength(JSON.stringify(change)) + 1;
    if (size + bytes > recordBytes) {
      yield group;
      group = [];
      size = 0;
    }
    group.push(change);
    size += bytes;
  }
  if (group.length > 0) yield group;
}

export interface WatchOptions {
  root: string;
  clock: Clock;
  /** The tree differs from the last look. */
  changed: (changes: Change[]) => void;
  /** The tree is not watched any more. */
  gaveUp: (reason: string) => void;
  most?: number;
}

/**
 * Compares the workspace with what it was: once in a while, soon after something happened, and never for more than about 2 %
 * of the time. Looking is sure and needs no descriptors, unlike watching.
 */
export class Watch {
  readonly #options: WatchOptions;
  #first: Tree | null = null;
  #last: Tree = new Map();
  #cost = 0;
  #ended = 0;
  #walking: Promise<void> | null = null;
  #cancel: () => void = () => {};
  #stopped = false;

  private constructor(options: WatchOptions) {
    this.#options = options;
  }

  /** Takes the first snapshot. */
  static async start(options: WatchOptions): Promise<Watch> {
    const watch = new Watch(options);
    const before = options.clock.monotonic();
    try {
      watch.#first = await walk(options.root, options.clock, options.most);
      watch.#last = watch.#first;
    } catch (error) {
      watch.#giveUp(error as Error);
    }
    watch.#ended = options.clock.monotonic();
    watch.#cost = watch.#ended - before;
    watch.#arm(3000);
    return watch;
  }

  #giveUp(error: Error): void {
    this.#stopped = true;
    this.#first = null;
    this.#last = new Map();
    this.#options.gaveUp(error.message);
  }

  #arm(delay: number): void {
    this.#cancel();
    if (this.#stopped) return;
    const earliest = this.#ended + this.#cost * 50 - this.#options.clock.monotonic();
    this.#cancel = this.#options.clock.timer(Math.max(delay, earliest), () => void this.look());
  }

  /** Something happened that may have changed files. */
  touched(): void {
    if (!this.#walking) this.#arm(100);
  }

  /** Looks now. */
  async look(): Promise<void> {
    if (this.#walking) return this.#walking;
    if (!this.#first) return;
    this.#cancel();
    this.#walking = this.#look();
    await this.#walking;
    this.#walking = null;
    this.#arm(5000);
  }

  async #look(): Promise<void> {
    const before = this.#options.clock.monotonic();
    try {
      const tree = await walk(this.#options.root, this.#options.clock, this.#options.most);
      const changes = compare(this.#last, tree);
      this.#last = tree;
      for (const group of inRecords(changes)) this.#options.changed(group);
    } catch (error) {
      this.#giveUp(error as Error);
    }
    this.#ended = this.#options.clock.monotonic();
    this.#cost = this.#ended - before;
  }

  /** Looks for the last time; the answer is what differs from the first look, and how much of that one record cannot hold. */
  async end(): Promise<{ changes: Change[]; left: number }> {
    await this.#walking;
    await this.look();
    this.#stopped = true;
    this.#cancel();
    const all = this.#first ? compare(this.#first, this.#last) : [];
    const [changes = []] = inRecords(all);
    return { changes, left: all.length - changes.length };
  }
}
