import { closeSync, fstatSync, openSync, readFileSync, readSync } from 'node:fs';
import { crc32, zstdDecompressSync } from 'node:zlib';
import { TreeError } from './failure.ts';

/**
 * A pack is `AGPACK1\n` and then blocks, each compressed with zstd or, where that gains nothing, as it is. Unpacked and put
 * after one another the blocks are one long run of bytes, and an object is a place in it. The index says where:
 *
 * `AGINDEX1`, CRC-32 of all that follows (u32), number of blocks (u32), number of objects (u32), zero (u32), size of the pack
 * (f64), then the columns: where each block starts unpacked, and the end (f64); where it starts in the pack, and the end (f64);
 * each object's place (f64) and length (f64), ordered by place; its SHA-256 (32 bytes); each block's CRC-32 (u32).
 *
 * A pack without an index is not there. An index may be replaced by one that names fewer objects; then its name changes.
 */
export interface Index {
  /** Where blocks start unpacked; one more for the end. */
  starts: Float64Array;
  /** Where blocks start in the file; one more for the end. */
  offsets: Float64Array;
  checks: Uint32Array;
  places: Float64Array;
  lengths: Float64Array;
  hashes: Buffer;
}

export const packMagic = Buffer.from('AGPACK1\n');
const indexMagic = Buffer.from('AGINDEX1');
const header = 32;

/** Bytes of the SHA-256 of an object. */
export const hashSize = 32;

/** The bytes of an index file. */
export function encodeIndex({ starts, offsets, checks, places, lengths, hashes }: Index): Buffer {
  const head = Buffer.alloc(header);
  indexMagic.copy(head);
  head.writeUInt32LE(checks.length, 12);
  head.writeUInt32LE(places.length, 16);
  head.writeDoubleLE(offsets.at(-1)!, 24);
  const columns = [starts, offsets, places, lengths].map((one) =>
    Buffer.from(one.buffer, one.byteOffset, one.byteLength),
  );
  const bytes = Buffer.concat([
    head,
    ...columns,
    hashes,
    Buffer.from(checks.buffer, checks.byteOffset, checks.byteLength),
  ]);
  bytes.writeUInt32LE(crc32(bytes.subarray(12)), 8);
  return bytes;
}

/** The index in these bytes. Throws TreeError `damaged`. */
export function decodeIndex(bytes: Buffer): Index {
  const damaged = () => new TreeError('damaged', 'The index of a pack is damaged.');
  if (bytes.length < header || !bytes.subarray(0, 8).equals(indexMagic)) throw damaged();
  if (crc32(bytes.subarray(12)) !== bytes.readUInt32LE(8)) throw damaged();
  const blocks = bytes.readUInt32LE(12);
  const objects = bytes.readUInt32LE(16);
  if (bytes.length !== header + 16 * (blocks + 1) + (16 + hashSize) * objects + 4 * blocks) throw damaged();
  // Columns are looked at in place: that needs a start that eight divides.
  const all = bytes.byteOffset % 8 === 0 ? bytes : Buffer.from(new Uint8Array(bytes).buffer);
  let at = all.byteOffset + header;
  const column = (length: number) => {
    const one = new Float64Array(all.buffer, at, length);
    at += one.byteLength;
    return one;
  };
  const [starts, offsets, places, lengths] = [column(blocks + 1), column(blocks + 1), column(objects), column(objects)];
  const hashes = Buffer.from(all.buffer, at, objects * hashSize);
  return { starts, offsets, places, lengths, hashes, checks: new Uint32Array(all.buffer, at + hashes.length, blocks) };
}

/** The last of these ascending numbers that is not above `value`. */
export function lastAtMost(numbers: Float64Array, value: number): number {
  let low = 0;
  let high = numbers.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >>> 1;
    if (numbers[middle]! <= value) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** A pack on the disk with its index. */
export class Pack {
  readonly path: string;
  readonly index: Index;
  /** The hashes as words, for quick comparison. */
  readonly words: Uint32Array;
  #descriptor = -1;
  #block = -1;
  #bytes: Buffer = Buffer.alloc(0);

  constructor(path: string, index: Index) {
    this.path = path;
    this.index = index;
    this.words = new Uint32Array(index.hashes.buffer, index.hashes.byteOffset, index.hashes.length / 4);
  }

  /** Opens the pack that an index file belongs to. Throws TreeError `damaged`, also when the pack has another length. */
  static open(path: string, indexPath: string): Pack {
    const pack = new Pack(path, decodeIndex(readFileSync(indexPath)));
    pack.check();
    return pack;
  }

  get objects(): number {
    return this.index.places.length;
  }

  /** Throws TreeError `damaged` when the file is not there, or its beginning or length is not right. */
  check(): void {
    try {
      this.#open();
      const start = Buffer.alloc(packMagic.length);
      readSync(this.#descriptor, start, 0, start.length, 0);
      if (start.equals(packMagic) && fstatSync(this.#descriptor).size === this.index.offsets.at(-1)) return;
    } catch (error) {
      throw new TreeError('damaged', 'A pack cannot be read.', { cause: error });
    } finally {
      this.close();
    }
    throw new TreeError('damaged', 'A pack is damaged.');
  }

  #open(): void {
    if (this.#descriptor < 0) this.#descriptor = openSync(this.path, 'r');
  }

  /** A block's bytes, unpacked; good until the next call. Throws TreeError `damaged`. */
  block(block: number): Buffer {
    if (block === this.#block) return this.#bytes;
    this.#open();
    const { starts, offsets, checks } = this.index;
    const offset = offsets[block]!;
    const length = offsets[block + 1]! - offset;
    const raw = starts[block + 1]! - starts[block]!;
    const packed = Buffer.allocUnsafe(length);
    const read = readSync(this.#descriptor, packed, 0, length, offset);
    if (read !== length || crc32(packed) !== checks[block])
      throw new TreeError('damaged', 'A block of a pack is damaged.');
    try {
      this.#bytes = length === raw ? packed : zstdDecompressSync(packed, { chunkSize: raw + 64, maxOutputLength: raw });
    } catch (error) {
      throw new TreeError('damaged', 'A block of a pack cannot be unpacked.', { cause: error });
    }
    if (this.#bytes.length !== raw) throw new TreeError('damaged', 'A block of a pack has another length.');
    this.#block = block;
    return this.#bytes;
  }

  /** The bytes of an object in pieces, not yet compared with its hash; each is good until the next. */
  *pieces(object: number): Generator<Buffer> {
    const { starts, places, lengths } = this.index;
    let place = places[object]!;
    const end = place + lengths[object]!;
    for (let block = lastAtMost(starts, place); place < end; block++) {
      const start = starts[block]!;
      const bytes = this.block(block);
      const piece = bytes.subarray(place - start, Math.min(bytes.length, end - start));
      place += piece.length;
      if (piece.length > 0) yield piece;
    }
  }

  /** Lets go of the file; it is opened again when it is needed. */
  close(): void {
    if (this.#descriptor >= 0) closeSync(this.#descriptor);
    this.#descriptor = -1;
    this.#block = -1;
    this.#bytes = Buffer.alloc(0);
  }
}
