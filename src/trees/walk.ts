import { lstatSync, readdirSync, type Stats } from 'node:fs';
import { systemClock } from '../base/clock.ts';
import type { Beneath } from './beneath.ts';
import type { Exclusions } from './exclusions.ts';
import { codeOf, TreeError } from './failure.ts';
import { type Kind, kinds } from './folder-object.ts';
import { facts, folderCount, folderFacts, type Listing, number, text } from './listing.ts';
import { below, type Bytes, isAscii, toOs, toText } from './name.ts';
import { isSettled } from './tick.ts';

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
  /** The folder's own facts, from before it was walked. */
  own: Float64Array;
}

/** A folder that is to be walked, and what it was like when its parent was. */
export interface Waiting {
  path: Bytes;
  mtime: number;
  ctime: number;
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
  /** The device whose folders' times can be trusted to tell whether names changed; -1 for none. */
  trustedDevice: number;
  maxFiles: number;
}

const fileType = 0o170000;
/** So many folders may have other times and the same entries before their new times are worth writing down. */
const mostStale = 64;
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
  #stale = 0;

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
  expand(enough: number): Waiting[] {
    let stat: Stats;
    try {
      stat = lstatSync(toOs(`${this.#options.root}/.`));
    } catch (error) {
      throw failure(error, '', 'look at');
    }
    const waiting = [this.#waiting('', stat, systemClock.now())];
    for (let at = 0; at < waiting.length; at++) {
      if (waiting.length - at >= enough) return waiting.slice(at);
      this.#visit(waiting[at]!, waiting);
    }
    return [];
  }

  /** Takes folders that nobody has taken yet and walks all that is below each. */
  take(folders: readonly Waiting[]): void {
    const { control } = this.#options;
    for (;;) {
      const folder = folders[Atomics.add(control, shared.next, 1)];
      if (!folder) return;
      const waiting = [folder];
      for (let next = waiting.pop(); next; next = waiting.pop()) this.#visit(next, waiting);
    }
  }

  #waiting(path: Bytes, { mtimeMs, ctimeMs, ino, dev }: Stats, now: number): Waiting {
    return { path, mtime: mtimeMs, ctime: isSettled(ctimeMs, now) ? ctimeMs : Number.NaN, inode: ino, device: dev };
  }

  #visit(folder: Waiting, waiting: Waiting[]): void {
    const { path } = folder;
    const { root, beneath, listing, clean, control } = this.#options;
    if (Atomics.load(control, shared.stop) !== 0) throw new TreeError('stopped', 'This was stopped.');
    const whole = path === '' ? `${root}/` : `${root}/${path}/`;
    const before = whole.length > longest ? beneath.folder(path) : whole;
    const listed = listing ? (this.#listed.get(path) ?? -1) : -1;
    const isUntouched = listed >= 0 && this.#isUntouched(listing!, listed, folder);
    const all = isUntouched ? namesOf(listing!, listed) : this.#names(path, before);
    if (!all) return;
    const known = isUntouched ? all.length : -1;
    const count = this.#look(path, before, all, waiting);
    const names = count === all.length ? all : all.slice(0, count);
    this.#count(count);
    const isAsListed =
      listed >= 0 && (known === count || hasNames(listing!, listed, names)) && this.#areKnown(listing!, listed, count);
    if (isAsListed && !isUntouched) this.#stale += 1;
    // When many folders have to be listed anew for their times alone, these are written down.
    if (isAsListed && (isUntouched || this.#stale < mostStale)) clean[listed] = 1;
    else this.#find(folder, names, listed);
  }

  /** Whether no entry of a folder was made, removed or renamed since it was listed, so that its names need not be read. */
  #isUntouched(listing: Listing, listed: number, { mtime, ctime, inode, device }: Waiting): boolean {
    const { trustedDevice } = this.#options;
    const at = listed * folderFacts;
    const own = listing.folderFacts;
    return (
      device === trustedDevice &&
      own[at + 1] === ctime &&
      own[at] === mtime &&
      own[at + 2] === inode &&
      own[at + 3] === device
    );
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
  #look(path: Bytes, before: Bytes, names: Bytes[], waiting: Waiting[]): number {
    const { exclusions } = this.#options;
    if (names.length > this.#kinds.length) {
      this.#row = new Float64Array(names.length * 2 * facts);
      this.#kinds = new Uint8Array(names.length * 2);
    }
    const row = this.#row;
    const isPlain = isAscii(before) && isAscii(names.join(''));
    const now = systemClock.now();
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
      else if (isFolder) waiting.push(this.#waiting(below(path, name), stat, now));
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

  /** Whether all entries of a folder have the facts that are listed. */
  #areKnown(listing: Listing, folder: number, count: number): boolean {
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

  #find({ path, mtime, ctime, inode, device }: Waiting, names: Bytes[], folder: number): void {
    const { listing } = this.#options;
    const count = names.length;
    const found: Found = {
      path,
      names,
      facts: this.#row.slice(0, count * facts),
      kinds: this.#kinds.slice(0, count),
      hashes: Buffer.alloc(count * 32),
      targets: new Map(),
      unread: new Uint8Array(count),
      own: Float64Array.of(mtime, ctime, inode, device),
    };
    const before = new Map<Bytes, number>();
    if (listing && folder >= 0) {
      const start = number(listing, folder, 'entries');
      for (const [index, name] of namesOf(listing, folder).entries()) before.set(name, start + index);
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

const namesOf = (listing: Listing, folder: number): Bytes[] =>
  number(listing, folder, 'count') === 0 ? [] : text(listing, folder, 'names').split('/');

const hasNames = (listing: Listing, folder: number, names: readonly Bytes[]): boolean =>
  number(listing, folder, 'count') === names.length && text(listing, folder, 'names') === names.join('/');

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
