import { createHash, hash } from 'node:crypto';
import {
  closeSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { constants, crc32, zstdCompressSync } from 'node:zlib';
import { TreeError } from './failure.ts';
import { encodeIndex, hashSize, Pack, packMagic } from './pack.ts';
import { isSound } from './packs.ts';
import { systemClock } from '../base/clock.ts';

/** Bytes of a block before it is compressed: small files share one, which is quicker and packs better. */
const blockSize = 262_144;
/** A pack is closed when it is longer than this. */
const packSize = 268_435_456;

const level = { [constants.ZSTD_c_compressionLevel]: 1, [constants.ZSTD_c_contentSizeFlag]: 1 };

/** Forces a folder's entries to the disk. */
export function syncFolder(folder: string): void {
  const descriptor = openSync(folder, 'r');
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** Writes new objects into packs of its own. Nothing of a pack is visible before it was read back from the disk and compared. */
export class Packer {
  readonly #folder: string;
  /** Hashes (latin1) of what this packer has stored. */
  readonly #stored = new Set<string>();
  readonly #block = Buffer.allocUnsafeSlow(blockSize);
  #filled = 0;
  #path = '';
  #descriptor = -1;
  #raw = 0;
  #offset = 0;
  #starts: number[] = [];
  #offsets: number[] = [];
  #checks: number[] = [];
  #places: number[] = [];
  #lengths: number[] = [];
  #hashes: Buffer[] = [];
  /** Bytes of all packs and indexes that were closed. */
  written = 0;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Whether this packer has stored an object, by its hash. */
  has(digest: Buffer): boolean {
    return this.#stored.has(digest.toString('latin1', 0, hashSize));
  }

  /** Stores an object that the store does not have. */
  add(digest: Buffer, bytes: Buffer): void {
    this.#ready();
    if (this.#filled + bytes.length > blockSize && (bytes.length <= blockSize || this.#filled > blockSize / 2))
      this.#flush();
    this.#enter(digest, this.#raw + this.#filled, bytes.length);
    this.#append(bytes);
  }

  /**
   * Stores an object that comes in pieces and whose hash is known only at the end. `isKnown` may then say that the store has it
   * already; what was written is taken back, as it is when `pieces` throws. `shared`: it may share a block with others; then
   * nothing can be taken back, and a failure spoils the pack.
   */
  stream(pieces: Iterable<Buffer>, isKnown: (digest: Buffer) => boolean, shared = false): Buffer {
    this.#ready();
    if (!shared) this.#flush();
    const before = { raw: this.#raw, filled: this.#filled, offset: this.#offset, blocks: this.#checks.length };
    let kept = false;
    try {
      const sum = createHash('sha256');
      let length = 0;
      for (const piece of pieces) {
        sum.update(piece);
        this.#append(piece);
        length += piece.length;
      }
      const digest = sum.digest();
      if (!isKnown(digest) && !this.has(digest)) {
        this.#enter(digest, before.raw + before.filled, length);
        kept = true;
      }
      return digest;
    } finally {
      if (!kept) {
        this.#filled = 0;
        this.#raw = before.raw;
        this.#offset = before.offset;
        for (const column of [this.#starts, this.#offsets, this.#checks]) column.length = before.blocks;
      }
    }
  }

  #ready(): void {
    if (this.#descriptor >= 0 && this.#offset > packSize) this.seal();
    if (this.#descriptor >= 0) return;
    this.#path = join(this.#folder, `${systemClock.random(12).toString('hex')}.pack`);
    this.#descriptor = openSync(this.#path, 'wx', 0o600);
    this.#write(packMagic, 0);
    this.#offset = packMagic.length;
  }

  #enter(digest: Buffer, place: number, length: number): void {
    this.#stored.add(digest.toString('latin1', 0, hashSize));
    this.#places.push(place);
    this.#lengths.push(length);
    this.#hashes.push(digest);
  }

  #append(bytes: Buffer): void {
    for (let at = 0; at < bytes.length;) {
      const taken = bytes.copy(this.#block, this.#filled, at);
      at += taken;
      this.#filled += taken;
      if (this.#filled === blockSize) this.#flush();
    }
  }

  #flush(): void {
    if (this.#filled === 0) return;
    const raw = this.#block.subarray(0, this.#filled);
    const packed = zstdCompressSync(raw, { params: level, chunkSize: blockSize + 4096, pledgedSrcSize: raw.length });
    const bytes = packed.length < raw.length ? packed : raw;
    this.#write(bytes, this.#offset);
    this.#starts.push(this.#raw);
    this.#offsets.push(this.#offset);
    this.#checks.push(crc32(bytes));
    this.#raw += raw.length;
    this.#offset += bytes.length;
    this.#filled = 0;
  }

  #write(bytes: Buffer, offset: number): void {
    for (let at = 0; at < bytes.length;) at += writeSync(this.#descriptor, bytes, at, bytes.length - at, offset + at);
  }

  /** Forces the pack to the disk, reads all of it back, and makes it visible. Throws TreeError `damaged`. */
  seal(): void {
    if (this.#descriptor < 0) return;
    if (this.#places.length === 0) return this.abandon();
    this.#flush();
    if (fstatSync(this.#descriptor).size !== this.#offset) ftruncateSync(this.#descriptor, this.#offset);
    fsyncSync(this.#descriptor);
    closeSync(this.#descriptor);
    this.#descriptor = -1;
    const index = {
      starts: Float64Array.from([...this.#starts, this.#raw]),
      offsets: Float64Array.from([...this.#offsets, this.#offset]),
      checks: Uint32Array.from(this.#checks),
      places: Float64Array.from(this.#places),
      lengths: Float64Array.from(this.#lengths),
      hashes: Buffer.concat(this.#hashes),
    };
    const pack = new Pack(this.#path, index);
    try {
      pack.check();
      for (let object = 0; object < pack.objects; object++)
        if (!isSound({ pack, object })) throw new TreeError('damaged', 'What was stored does not come back as it was.');
    } finally {
      pack.close();
    }
    this.written += this.#offset + writeIndex(this.#path, encodeIndex(index));
    this.#reset();
  }

  #reset(): void {
    this.#raw = this.#offset = this.#filled = 0;
    this.#starts = [];
    this.#offsets = [];
    this.#checks = [];
    this.#places = [];
    this.#lengths = [];
    this.#hashes = [];
    this.#path = '';
  }

  /** Removes the pack that is being written. */
  abandon(): void {
    if (this.#descriptor >= 0) closeSync(this.#descriptor);
    this.#descriptor = -1;
    if (this.#path !== '') rmSync(this.#path, { force: true });
    this.#reset();
  }
}

/** Writes the index of a pack so that it is there whole or not at all; answers its size in bytes. */
export function writeIndex(packPath: string, bytes: Buffer): number {
  const stem = packPath.slice(0, -'.pack'.length);
  const path = `${stem}.${hash('sha256', bytes).slice(0, 16)}.index`;
  writeFileSync(`${path}.new`, bytes, { mode: 0o600, flush: true });
  renameSync(`${path}.new`, path);
  syncFolder(join(path, '..'));
  return bytes.length;
}
