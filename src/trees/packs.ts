import { createHash, hash } from 'node:crypto';
import { mkdirSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { TreeError } from './failure.ts';
import { decodeFolder, type Node } from './folder-object.ts';
import { hashSize, Pack } from './pack.ts';

/** Where an object is. */
export interface Place {
  pack: Pack;
  object: number;
}

/** Index files are `<pack>.<check>.index` beside `<pack>.pack`. */
const indexName = /^([0-9a-f]+)\.[0-9a-f]+\.index$/;

/** The folder of a store with the trees that are complete: one empty file each, called by the tree's hash. */
export const treesFolder = (store: string): string => join(store, 'trees');
/** The folder of a store with its packs. */
export const packsFolder = (store: string): string => join(store, 'packs');

/** All packs of a store, as one thread knows them: finds objects by hash and reads them. */
export class Packs {
  readonly folder: string;
  /** Index files that are damaged, or whose packs are. */
  damaged: string[] = [];
  #packs = new Map<string, Pack>();
  #list: Pack[] = [];
  #bases: number[] = [];
  #count = 0;
  #slots = new Int32Array(1024);
  #mask = 1023;

  constructor(store: string) {
    this.folder = packsFolder(store);
  }

  /** Looks at what packs there are now; makes the folder when it is missing. */
  refresh(): void {
    mkdirSync(this.folder, { recursive: true, mode: 0o700 });
    const names = readdirSync(this.folder).filter((name) => indexName.test(name));
    const now = new Set(names);
    const gone = [...this.#packs.keys()].filter((name) => !now.has(name));
    for (const name of gone) {
      this.#packs.get(name)!.close();
      this.#packs.delete(name);
    }
    this.damaged = [];
    const added: Pack[] = [];
    for (const name of names) {
      if (this.#packs.has(name)) continue;
      try {
        const pack = Pack.open(join(this.folder, `${indexName.exec(name)![1]!}.pack`), join(this.folder, name));
        this.#packs.set(name, pack);
        added.push(pack);
      } catch (error) {
        if (!(error instanceof TreeError)) throw error;
        this.damaged.push(name);
      }
    }
    if (gone.length > 0) {
      this.#list = [];
      this.#bases = [];
      this.#count = 0;
      this.#slots.fill(0);
    }
    for (const pack of gone.length > 0 ? this.#packs.values() : added) this.#enter(pack);
  }

  /** Packs by the names of their index files. */
  get all(): ReadonlyMap<string, Pack> {
    return this.#packs;
  }

  #enter(pack: Pack): void {
    this.#list.push(pack);
    this.#bases.push(this.#count);
    this.#count += pack.objects;
    if (this.#count * 2 > this.#slots.length) {
      while (this.#count * 2 > this.#mask) this.#mask = this.#mask * 2 + 1;
      this.#slots = new Int32Array(this.#mask + 1);
      for (const [index, one] of this.#list.entries()) this.#fill(one, this.#bases[index]!);
    } else this.#fill(pack, this.#bases.at(-1)!);
  }

  #fill(pack: Pack, base: number): void {
    for (let object = 0; object < pack.objects; object++) {
      let slot = pack.words[object * 8]! & this.#mask;
      while (this.#slots[slot] !== 0) slot = (slot + 1) & this.#mask;
      this.#slots[slot] = base + object + 1;
    }
  }

  #packOf(object: number): number {
    let low = 0;
    let high = this.#bases.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if (this.#bases[middle]! <= object) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** Where the object with this hash is; `at` is where the hash starts, in words. */
  find(words: Uint32Array, at = 0): Place | undefined {
    for (let slot = words[at]! & this.#mask; this.#slots[slot] !== 0; slot = (slot + 1) & this.#mask) {
      const number = this.#slots[slot]! - 1;
      const index = this.#packOf(number);
      const pack = this.#list[index]!;
      const object = number - this.#bases[index]!;
      let same = 0;
      while (same < 8 && pack.words[object * 8 + same] === words[at + same]) same += 1;
      if (same === 8) return { pack, object };
    }
    return undefined;
  }

  /** As `find`, by the hash's bytes. Throws TreeError `damaged`. */
  place(digest: Buffer): Place {
    const place = this.find(wordsOf(digest));
    if (!place) throw new TreeError('damaged', `The object ${digest.toString('hex')} is missing from the store.`);
    return place;
  }

  /** The bytes of an object, compared with its hash. Throws TreeError `damaged`. */
  read(digest: Buffer): Buffer {
    const { pack, object } = this.place(digest);
    const bytes = Buffer.allocUnsafeSlow(pack.index.lengths[object]!);
    let at = 0;
    for (const piece of pack.pieces(object)) at += piece.copy(bytes, at);
    if (!hash('sha256', bytes, 'buffer').equals(digest))
      throw new TreeError('damaged', `The object ${digest.toString('hex')} is damaged.`);
    return bytes;
  }

  /** The entries of a stored folder. Throws TreeError `damaged`. */
  readFolder(digest: Buffer): Node[] {
    return decodeFolder(this.read(digest));
  }

  /** Bytes on the disk, also those of what nothing leads to, objects and packs. */
  usage(): { bytes: number; objects: number; packs: number } {
    const bytes = readdirSync(this.folder).reduce(
      (sum, name) => sum + (statSync(join(this.folder, name), { throwIfNoEntry: false })?.size ?? 0),
      0,
    );
    return { bytes, objects: this.#count, packs: this.#packs.size };
  }

  /** Lets go of all files. */
  close(): void {
    for (const pack of this.#list) pack.close();
  }
}

/** A hash as eight words. */
export function wordsOf(digest: Buffer): Uint32Array {
  const words = new Uint32Array(8);
  Buffer.from(words.buffer).set(digest.subarray(0, hashSize));
  return words;
}

/** Whether an object in a pack still has the hash that its index says. */
export function isSound({ pack, object }: Place): boolean {
  const sum = createHash('sha256');
  for (const piece of pack.pieces(object)) sum.update(piece);
  return sum.digest().equals(pack.index.hashes.subarray(object * hashSize, (object + 1) * hashSize));
}
