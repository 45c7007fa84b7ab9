import { closeSync, constants, fstatSync, lstatSync, openSync, type Stats } from 'node:fs';
import { codeOf, TreeError } from './failure.ts';
import { type Bytes, toOs, toText } from './name.ts';

const linux = process.platform === 'linux';
/** A descriptor that only stands for a place; it needs no permission to read. Not in node's constants. */
const O_PATH = linux ? 0o10000000 : 0;
const flags = O_PATH | constants.O_DIRECTORY | constants.O_NOFOLLOW;

/**
 * Reaches what is below a root one folder at a time, never through a link: each folder is opened inside the descriptor of the
 * one above (by way of /proc/self/fd), so that a link that is swapped in meanwhile leads nowhere. The descriptors of the last
 * path are kept, which makes neighbours cheap. Without /proc the folders are looked at by name right before.
 */
export class Beneath {
  readonly #root: Bytes;
  readonly #names: Bytes[] = [];
  readonly #descriptors: number[] = [];
  #path: Bytes | null = null;

  /** `root`: the bytes of an existing folder's path; links above it are followed. */
  constructor(root: Bytes) {
    this.#root = root;
    if (linux) this.#descriptors.push(openSync(toOs(root), O_PATH | constants.O_DIRECTORY));
  }

  /** What to put before a name to reach it in this folder; good until the next call. Throws TreeError `changed`. */
  folder(path: Bytes): Bytes {
    if (!linux) return this.#byName(path);
    if (path !== this.#path) this.#walk(path);
    return `/proc/self/fd/${this.#descriptors.at(-1)!}/`;
  }

  /** What this folder is now. */
  stat(path: Bytes): Stats {
    this.folder(path);
    return linux ? fstatSync(this.#descriptors.at(-1)!) : lstatSync(toOs(`${this.#root}/${path}`));
  }

  #walk(path: Bytes): void {
    this.#path = null;
    const names = path === '' ? [] : path.split('/');
    let common = 0;
    while (common < names.length && names[common] === this.#names[common]) common += 1;
    while (this.#names.length > common) this.#drop();
    for (let at = common; at < names.length; at++) {
      const name = names[at]!;
      try {
        this.#descriptors.push(openSync(toOs(`/proc/self/fd/${this.#descriptors.at(-1)!}/${name}`), flags));
      } catch (error) {
        throw missing(error, names.slice(0, at + 1).join('/'));
      }
      this.#names.push(name);
    }
    this.#path = path;
  }

  #byName(path: Bytes): Bytes {
    let folder = this.#root;
    for (const name of path === '' ? [] : path.split('/')) {
      folder += `/${name}`;
      if (!lstatSync(toOs(folder), { throwIfNoEntry: false })?.isDirectory()) throw missing({ code: 'ENOTDIR' }, path);
    }
    return `${folder}/`;
  }

  #drop(): void {
    this.#names.pop();
    closeSync(this.#descriptors.pop()!);
  }

  /** Forgets the folders that it holds open: after they were moved or made anew. */
  forget(): void {
    this.#path = null;
    while (this.#names.length > 0) this.#drop();
  }

  [Symbol.dispose](): void {
    for (const descriptor of this.#descriptors.splice(0)) closeSync(descriptor);
    this.#names.length = 0;
  }
}

function missing(error: unknown, path: Bytes): unknown {
  const text = toText(path);
  switch (codeOf(error)) {
    case 'ENOENT':
    case 'ENOTDIR':
    case 'ELOOP':
      return new TreeError('changed', `${text} is no longer a folder.`, { path: text, cause: error });
    case 'EACCES':
    case 'EPERM':
      return new TreeError('unreadable', `There is no permission to enter ${text}.`, { path: text, cause: error });
    default:
      return error;
  }
}
