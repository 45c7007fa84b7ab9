import { type Dirent, lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { Exclusions } from '../trees/exclusions.ts';
import { toBytes } from '../trees/name.ts';
import { digest, Marks, type MarkTables } from './marks.ts';

/** Which entries of a tree are not looked at: what git keeps for itself anywhere, and what checkpoints leave out. */
export class Overlooked {
  readonly #exclusions: Exclusions;

  constructor(exclude: readonly string[]) {
    this.#exclusions = new Exclusions(exclude);
  }

  /** Whether an entry of a folder (relative to the root, '' for the root itself) is passed over, with all in it. */
  has(folder: string, name: string, isFolder: boolean): boolean {
    return name === '.git' || this.#exclusions.leavesOut(toBytes(folder), toBytes(name), isFolder);
  }

  /** Whether one of the folders on the way to a path is passed over. */
  covers(path: string): boolean {
    const parts = path.split('/');
    return parts.some((name, at) => this.has(parts.slice(0, at).join('/'), name, at < parts.length - 1));
  }
}

/** The mark of what is at a place now: 0 when nothing is there, or nothing can be found out. */
export function markAt(root: string, path: string): number {
  try {
    const stat = lstatSync(join(root, path));
    // A folder's times are those of its entries, which have marks of their own.
    return stat.isDirectory()
      ? digest(`folder ${stat.mode}`)
      : digest(`${stat.mode} ${stat.size} ${stat.mtimeMs} ${stat.ino}`);
  } catch {
    return 0;
  }
}

/** What a walk through a tree found. */
export type Survey =
  | { kind: 'whole'; tables: MarkTables; entries: number; folders: number }
  /** There is more than was asked for. */
  | { kind: 'too_many' }
  /** The root itself cannot be read. */
  | { kind: 'unreadable'; code: string };

/** Walks a tree and marks what is in it, up to `most` entries. A folder below the root that cannot be read counts as empty. */
export function survey(root: string, overlooked: Overlooked, most: number): Survey {
  const marks = new Marks();
  const waiting = [''];
  let folders = 0;
  for (let folder = waiting.pop(); folder !== undefined; folder = waiting.pop()) {
    let entries: Dirent[];
    try {
      entries = readdirSync(join(root, folder), { withFileTypes: true });
    } catch (error) {
      if (folder === '') return { kind: 'unreadable', code: (error as NodeJS.ErrnoException).code ?? 'EIO' };
      continue;
    }
    folders += 1;
    for (const entry of entries) {
      const isFolder = entry.isDirectory();
      if (overlooked.has(folder, entry.name, isFolder)) continue;
      const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
      marks.set(digest(path), markAt(root, path));
      if (marks.count > most) return { kind: 'too_many' };
      if (isFolder) waiting.push(path);
    }
  }
  return { kind: 'whole', tables: marks.tables, entries: marks.count, folders };
}
