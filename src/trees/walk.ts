import { lstatSync, readdirSync, type Stats } from 'node:fs';
import type { Beneath } from './beneath.ts';
import type { Exclusions } from './exclusions.ts';
import { codeOf, TreeError } from './failure.ts';
import { type Kind, kinds } from './folder-object.ts';
import { facts, folderCount, type Listing, number, text } from './listing.ts';
import { below, type Bytes, isAscii, toOs, toText } from './name.ts';

/** What two threads that walk one tree share: numbers in memory. */
export const shared = { stop: 0, next: 1, files: 2, folders: 3, done: 4 } as const;
/** How many of them there are. */
export const sharedSize = 8;

/** A folder that is not as the listing has it: its entries, and which of them have to be read. */
export interface Found {
  path: Bytes;
  names: Bytes[];
  facts: Float64Array;
  kinds: Uint8Array;
  hashes: Buffer;
  /** Targets of links, by entry. */
  targets: Map<number, Bytes>;
  /** 1 for files and links whose content is not known. */
  unread: Uint8Array;
  /** The folder's own inode and device when it was walked. */
  inode: number;
  device: number;
}

export interface WalkOptions {
  /** The root's path as bytes. */
  root: Bytes;
  beneath: Beneath;
  exclusions: Exclusions;
  listing: Listing | undefined;
  /** One byte for each folder of the listing, shared: 1 when all of its own entries are as listed. */
  clean: Uint8Array;
  /** Whether the store has the object with this hash; null when it is sure to have all that the listing names. */
  isPresent: ((words: Uint32Array, at: number) => boolean) | null;
  control: Int32Array;
  maxFiles: number;
}

const fileType = 0o170000;
const optional = { throwIfNoEntry: false } as const;
/** A longer path is not given to the system whole. */
const longest = 3500;

/** Walks a tree and compares it with the listing of the last time. Synchronous, for worker threads: that is by far the quickest. */
export class Walk {
  readonly #options: WalkOptions;
  readonly #listed = new Map<Bytes, number>();
  readonly #words: Uint32Array;
  #row = new Float64Array(1024 * facts);
  #kinds = new Uint8Array(1024);
  readonly found: Found[] = [];
  files = 0;
  bytes = 0;
  skipped = 0;

  constructor(options: WalkOptions) {
    this.#options = options;
    const { listing } = options;
    this.#words = listing
      ? new Uint32Array(listing.hashes.buffer, listing.hashes.byteOffset, listing.hashes.length / 4)
      : new Uint32Array();
    if (listing)
      for (let folder = 0; folder < folderCount(listing); folder++)
        this.#listed.set(text(listing, folder, 'path'), folder);
  }

  /** Walks from the root, broad first, until so many folders are waiting; answers these. */
  expand(enough: number): Bytes[] {
    const waiting = [''];
    for (let at = 0; at < waiting.length; at++) {
      if (waiting.length - at >= enough) return waiting.slice(at);
      this.#visit(waiting[at]!, waiting);
    }
    return [];
  }

  /** Takes folders that nobody has taken yet and walks all that is below each. */
  take(folders: readonly Bytes[]): void {
    const { control } = this.#options;
    for (
      let next = Atomics.add(control, shared.next, 1);
      next < folders.length;
      next = Atomics.add(control, shared.next, 1)
    ) {
      const waiting = [folders[next]!];
      for (let folder = waiting.pop(); folder !== undefined; folder = waiting.pop()) this.#visit(folder, waiting);
    }
  }

  #visit(path: Bytes, waiting: Bytes[]): void {
    const { root, beneath, listing, clean, control } = this.#options;
    if (Atomics.load(control, shared.stop) !== 0) throw new TreeError('stopped', 'This was stopped.');
    const whole = path === '' ? `${root}/` : `${root}/${path}/`;
    const before = whole.length > longest ? beneath.folder(path) : whole;
    const all = this.#names(path, before);
    if (!all) return;
    const count = this.#look(path, before, all);
    const names = count === all.length ? all : all.slice(0, count);
    this.#count(count);
    for (let entry = 0; entry < count; entry++)
      if (this.#kinds[entry] === kinds.folder) waiting.push(below(path, names[entry]!));
    const listed = this.#listed.get(path) ?? -1;
    if (listing && listed >= 0 && this.#isAsListed(listing, listed, names)) clean[listed] = 1;
    else this.#find(path, names, listed);
  }

  #names(path: Bytes, before: Bytes): Bytes[] | undefined {
    try {
      return readdirSync(toOs(before), 'latin1');
    } catch (error) {
      // A folder that went away is left out; its parent's entry for it makes the snapshot fail later, by name.
      if (codeOf(error) === 'ENOENT' && path !== '') return undefined;
      throw failure(error, path, 'list');
    }
  }

  /** Writes the facts of a folder's entries into the row and answers how many there still are; `names` is closed up. */
  #look(path: Bytes, before: Bytes, names: Bytes[]): number {
    const { exclusions } = this.#options;
    if (names.length > this.#kinds.length) {
      this.#row = new Float64Array(names.length * 2 * facts);
      this.#kinds = new Uint8Array(names.length * 2);
    }
    const row = this.#row;
    const isPlain = isAscii(before) && isAscii(names.join(''));
    let count = 0;
    for (const name of names) {
      let stat: Stats | undefined;
      try {
        stat = lstatSync(isPlain ? before + name : toOs(before + name), optional);
      } catch (error) {
        throw failure(error, below(path, name), 'look at');
      }
      if (!stat) continue;
      let kind = kindOf(stat.mode);
      const isFolder = (stat.mode & fileType) === 0o040000;
      if ((isFolder || path === '') && exclusions.leavesOut(path, name, isFolder)) kind = kinds.left;
      else if (kind === kinds.left) this.skipped += 1;
      setFacts(row, count * facts, stat, isFolder || kind === kinds.left);
      this.#kinds[count] = kind;
      names[count] = name;
      count += 1;
    }
    return count;
  }

  #count(count: number): void {
    const { control, maxFiles } = this.#options;
    let [files, folders] = [0, 0];
    for (let entry = 0; entry < count; entry++) {
      const kind = this.#kinds[entry];
      if (kind === kinds.folder) folders += 1;
      else if (kind !== kinds.left) files += 1;
      if (kind === kinds.file) this.bytes += this.#row[entry * facts + 1]!;
    }
    this.files += files;
    const seen = Math.max(
      Atomics.add(control, shared.files, files) + files,
      Atomics.add(control, shared.folders, folders) + folders,
    );
    if (seen > maxFiles) throw tooManyFiles(maxFiles, seen);
  }

  #isAsListed(listing: Listing, folder: number, names: readonly Bytes[]): boolean {
    const count = number(listing, folder, 'count');
    if (count !== names.length || text(listing, folder, 'names') !== names.join('/')) return false;
    const start = number(listing, folder, 'entries');
    for (let entry = 0; entry < count; entry++) if (!this.#isKnown(listing, start + entry, entry)) return false;
    return true;
  }

  /** Whether an entry has the facts that are listed, and the store has its content. */
  #isKnown(listing: Listing, listed: number, entry: number): boolean {
    if (listing.kinds[listed] !== this.#kinds[entry]) return false;
    for (let fact = 0; fact < facts; fact++)
      if (listing.facts[listed * facts + fact] !== this.#row[entry * facts + fact]) return false;
    const { isPresent } = this.#options;
    return isPresent === null || this.#kinds[entry] !== kinds.file || isPresent(this.#words, listed * 8);
  }

  #find(path: Bytes, names: Bytes[], folder: number): void {
    const { listing, root } = this.#options;
    const count = names.length;
    const stat = lstatSync(toOs(path === '' ? root : `${root}/${path}`), { throwIfNoEntry: false });
    const found: Found = {
      path,
      names,
      facts: this.#row.slice(0, count * facts),
      kinds: this.#kinds.slice(0, count),
      hashes: Buffer.alloc(count * 32),
      targets: new Map(),
      unread: new Uint8Array(count),
      inode: stat?.ino ?? 0,
      device: stat?.dev ?? 0,
    };
    const before = new Map<Bytes, number>();
    if (listing && folder >= 0) {
      const start = number(listing, folder, 'entries');
      if (number(listing, folder, 'count') > 0)
        for (const [index, name] of text(listing, folder, 'names').split('/').entries())
          before.set(name, start + index);
    }
    for (let entry = 0; entry < count; entry++) {
      const kind = this.#kinds[entry];
      if (kind === kinds.link) found.unread[entry] = 1;
      if (kind !== kinds.file) continue;
      const listed = before.get(names[entry]!);
      if (listed !== undefined && this.#isKnown(listing!, listed, entry))
        listing!.hashes.copy(found.hashes, entry * 32, listed * 32, listed * 32 + 32);
      else found.unread[entry] = 1;
    }
    this.found.push(found);
  }
}

function kindOf(mode: number): Kind {
  switch (mode & fileType) {
    case 0o100000:
      return kinds.file;
    case 0o040000:
      return kinds.folder;
    case 0o120000:
      return kinds.link;
    default:
      return kinds.left;
  }
}

/** Writes what the stat cache compares. Of what is not read only the mode counts. */
export function setFacts(row: Float64Array, at: number, stat: Stats, onlyMode = false): void {
  row[at] = stat.mode;
  row[at + 1] = onlyMode ? 0 : stat.size;
  row[at + 2] = onlyMode ? 0 : stat.mtimeMs;
  row[at + 3] = onlyMode ? 0 : stat.ctimeMs;
  row[at + 4] = onlyMode ? 0 : stat.ino;
  row[at + 5] = onlyMode ? 0 : stat.dev;
}

/** More entries than the limit allows. */
export const tooManyFiles = (limit: number, seen: number): TreeError =>
  new TreeError('too_large', `The tree has more than ${limit} files.`, {
    limit: { name: 'max_files', value: limit, seen },
  });

/** A failure of the system while reading, with the path that it is about. */
export function failure(error: unknown, path: Bytes, verb: string): unknown {
  const at = path === '' ? 'the root' : toText(path);
  switch (codeOf(error)) {
    case 'EACCES':
    case 'EPERM':
      return new TreeError('unreadable', `There is no permission to ${verb} ${at}.`, {
        path: toText(path),
        cause: error,
      });
    case 'ENOENT':
    case 'ENOTDIR':
    case 'ELOOP':
    case 'EINVAL':
    case 'ENXIO':
      return new TreeError('changed', `${at} became something else while it was read.`, {
        path: toText(path),
        cause: error,
      });
    default:
      return error;
  }
}
