import { closeSync, openSync, existsSync, mkdirSync, statfsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { MessagePort } from 'node:worker_threads';
import { Beneath } from './beneath.ts';
import { compose } from './compose.ts';
import { Exclusions } from './exclusions.ts';
import { TreeError } from './failure.ts';
import { Intake } from './intake.ts';
import { folderCount, type Listing, parse, readShared, save } from './listing.ts';
import { type Bytes, toOs } from './name.ts';
import { Packer, syncFolder } from './packer.ts';
import { type Packs, treesFolder, wordsOf } from './packs.ts';
import { type Found, Walk, type Waiting } from './walk.ts';

/** What a scan is to do, for each of its threads. */
export interface ScanOrder {
  /** The store's folder. */
  store: string;
  root: Bytes;
  cache: string;
  exclude: string[];
  maxFiles: number;
  maxBytes: number;
  /** Store what is new, or find out hashes only. */
  keeps: boolean;
  control: SharedArrayBuffer;
}

/** What the first thread found out and the second one needs. */
export interface Survey {
  /** Folders that are still to be walked, by whoever takes them. */
  waiting: Waiting[];
  listing: SharedArrayBuffer | null;
  clean: SharedArrayBuffer;
  /** The store has all that the listing names. */
  isComplete: boolean;
}

/** How much one thread found. */
export interface Walked {
  files: number;
  bytes: number;
  skipped: number;
  unread: number;
  unreadBytes: number;
}

/** The outcome of a snapshot. */
export interface Snapshot {
  /** SHA-256 of the root's manifest, hex. */
  tree_hash: string;
  /** Files and links. */
  file_count: number;
  /** Bytes of the files. */
  size_bytes: number;
  /** Bytes that this snapshot added to the store. */
  stored_bytes: number;
  /** Files and links that were looked at. */
  walked: number;
  /** Those whose content was known from the time before. */
  reused: number;
  /** Files that were read and hashed. */
  hashed: number;
  /** Pipes, sockets and devices, which are left out. */
  skipped: number;
}

/** One thread's part in walking a tree, reading what is new, and putting the listing together. */
export class Scan {
  readonly #order: ScanOrder;
  readonly #packs: Packs;
  readonly #packer: Packer;
  readonly #beneath: Beneath;
  readonly #exclusions: Exclusions;
  readonly #control: Int32Array;
  #listing: Listing | undefined;
  #survey: Survey;
  #walk: Walk;
  #intake: Intake;

  constructor(order: ScanOrder, packs: Packs, survey?: Survey) {
    this.#order = order;
    this.#packs = packs;
    this.#control = new Int32Array(order.control);
    this.#exclusions = new Exclusions(order.exclude);
    this.#beneath = openRoot(order.root);
    this.#packer = new Packer(packs.folder);
    const { key } = this.#exclusions;
    if (survey) {
      this.#survey = survey;
      if (survey.listing) this.#listing = parse(survey.listing, key, true);
    } else {
      const bytes = readShared(order.cache);
      if (bytes) this.#listing = parse(bytes, key);
      const folders = this.#listing ? folderCount(this.#listing) : 0;
      this.#survey = {
        waiting: [],
        listing: this.#listing && bytes ? bytes : null,
        clean: new SharedArrayBuffer(folders),
        isComplete:
          !order.keeps ||
          (this.#listing !== undefined && packs.damaged.length === 0 && existsSync(this.#marker(this.#listing))),
      };
    }
    this.#walk = new Walk({
      root: order.root,
      beneath: this.#beneath,
      exclusions: this.#exclusions,
      listing: this.#listing,
      clean: new Uint8Array(this.#survey.clean),
      isPresent: this.#survey.isComplete ? null : (words, at) => packs.find(words, at) !== undefined,
      control: this.#control,
      trustedDevice: trustedDevice(order.root),
      maxFiles: order.maxFiles,
    });
    const store = order.keeps ? { packs, packer: this.#packer } : null;
    this.#intake = new Intake({ beneath: this.#beneath, store, control: this.#control });
  }

  /** The first thread's beginning: small trees are walked whole by it. */
  survey(): Survey {
    this.#survey.waiting = this.#walk.expand(64);
    return this.#survey;
  }

  /** Walks its share. */
  walk(): Walked {
    this.#walk.take(this.#survey.waiting);
    const { files, bytes, skipped, found } = this.#walk;
    let [unread, unreadBytes] = [0, 0];
    for (const { unread: flags, facts } of found)
      for (const [entry, flag] of flags.entries())
        if (flag === 1) {
          unread += 1;
          unreadBytes += facts[entry * 6 + 1]!;
        }
    return { files, bytes, skipped, unread, unreadBytes };
  }

  /** The first thread: reads what is unread in the folders that it found, or in these. */
  read(folders = this.#walk.found): void {
    for (const found of folders) this.#intake.read(found);
    this.#intake.finish();
  }

  /** The second thread: gives what it found to the first one, read and in a closed pack when it is worth a pack. */
  give(port: MessagePort, isRead: boolean): void {
    if (isRead) this.read();
    port.postMessage(this.#walk.found);
    port.close();
    this.#packer.seal();
  }

  /** The first thread: puts its own and the others' folders together, and closes its pack. */
  compose(others: Found[], areRead: boolean, skipped: number): Listing {
    if (!areRead) this.read(others);
    const { clean } = this.#survey;
    const found = [...this.#walk.found, ...others];
    if (this.#listing && found.length === 0 && new Uint8Array(clean).every((one) => one === 1)) return this.#listing;
    const listing = compose({
      listing: this.#listing,
      clean: new Uint8Array(clean),
      found,
      skipped,
      key: this.#exclusions.key,
      isPresent: this.#survey.isComplete
        ? null
        : (hashes, at) => this.#packs.find(wordsOf(hashes.subarray(at, at + 32))) !== undefined,
      store: (digest, bytes) => {
        if (this.#order.keeps && !this.#packer.has(digest) && !this.#packs.find(wordsOf(digest)))
          this.#packer.add(digest, bytes);
      },
    });
    this.#packer.seal();
    return listing;
  }

  /** The first thread, after all packs are closed: makes the tree one of the store's, and keeps the listing for the next time. */
  publish(listing: Listing): void {
    const marker = this.#marker(listing);
    if (!existsSync(marker)) {
      mkdirSync(dirname(marker), { recursive: true, mode: 0o700 });
      closeSync(openSync(marker, 'a', 0o600));
      syncFolder(dirname(marker));
    }
    if (listing !== this.#listing) save(this.#order.cache, listing);
  }

  #marker({ summary }: Listing): string {
    return join(treesFolder(this.#order.store), summary.tree_hash);
  }

  /** Files that this thread hashed, and bytes that it stored. */
  get done(): { hashed: number; stored: number } {
    return { hashed: this.#intake.hashed, stored: this.#packer.written };
  }

  /** Removes what is half written and lets go of all files. */
  [Symbol.dispose](): void {
    this.#packer.abandon();
    this.#beneath[Symbol.dispose]();
  }
}

/** File systems that change a folder's times with each entry that is made, removed or renamed: ext, btrfs, xfs, tmpfs, overlay, f2fs, zfs. */
const trusted = new Set([0xef53, 0x9123683e, 0x58465342, 0x01021994, 0x794c7630, 0xf2f52010, 0x2fc12fc1]);

function trustedDevice(root: Bytes): number {
  if (process.platform !== 'linux' || !trusted.has(statfsSync(toOs(root)).type)) return -1;
  return statSync(toOs(root)).dev;
}

function openRoot(root: Bytes): Beneath {
  try {
    return new Beneath(root);
  } catch (error) {
    throw new TreeError('unusable', 'The root of the tree cannot be opened.', { cause: error });
  }
}
