import { type Bytes, below, toBytes } from './name.ts';

/** Folders directly below a workspace's root whose names start so are the engine's own: staged restores. */
export const stagingPrefix = '.agentctl-restore-';

/** Which entries of a tree are left out of snapshots and left alone by restores. */
export class Exclusions {
  readonly #names: Set<Bytes>;
  readonly #paths: Set<Bytes>;
  /** Two lists that leave out the same have the same key. */
  readonly key: string;

  /** A word without a slash names folders wherever they are; one with a slash is a folder's path from the root. */
  constructor(exclude: readonly string[]) {
    const all = exclude.map((one) => toBytes(one).replace(/\/+$/, '').replace(/^\.\//, '')).filter((one) => one !== '');
    this.#paths = new Set(all.filter((one) => one.includes('/')).map((one) => one.replace(/^\/+/, '')));
    this.#names = new Set(all.filter((one) => !one.includes('/')));
    this.key = JSON.stringify([[...this.#names].toSorted(), [...this.#paths].toSorted()]);
  }

  /**
   * The root's own `.git` and staged restores, whatever they are; and folders of the list, but nothing in the `.git` of a nested
   * repository, which would be broken without it.
   */
  leavesOut(folder: Bytes, name: Bytes, isFolder: boolean): boolean {
    if (folder === '' && (name === '.git' || name.startsWith(stagingPrefix))) return true;
    if (!isFolder || !(this.#names.has(name) || this.#paths.has(below(folder, name)))) return false;
    return !/(^|\/)\.git(\/|$)/.test(folder);
  }
}
