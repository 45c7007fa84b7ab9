import { createHash, hash } from 'node:crypto';
import { closeSync, constants, fchmodSync, fsyncSync, ftruncateSync, openSync, symlinkSync, writeSync } from 'node:fs';
import { Beneath } from './beneath.ts';
import { TreeError } from './failure.ts';
import { type Bytes, split, toOs } from './name.ts';
import { hashSize } from './pack.ts';
import type { Packs, Place } from './packs.ts';
import type { Placed } from './steps.ts';

/** Files in one folder of the staging folder. */
const perFolder = 4096;

/** Where in the staging folder the file of a step is. */
export const stagedAt = (step: number): [folder: Bytes, name: Bytes] => [
  String(Math.floor(step / perFolder)),
  String(step),
];

/** The folders that so many staged files need. */
export const stagingFolders = (steps: number): Bytes[] =>
  Array.from({ length: Math.ceil(steps / perFolder) }, (_, n) => String(n));

/** The steps' numbers in the order in which their contents lie in the store, in parts of about the same work. Throws `damaged`. */
export function inParts(packs: Packs, placed: readonly Placed[], count: number): Uint32Array[] {
  const all = placed.map(({ hash: hex }, step) => {
    if (hex === null) return { step, path: '', at: 0, cost: 20_000 };
    const { pack, object } = packs.place(Buffer.from(hex, 'hex'));
    return { step, path: pack.path, at: pack.index.places[object]!, cost: 20_000 + pack.index.lengths[object]! };
  });
  all.sort((one, other) =>
    one.path === other.path ? one.at - other.at || one.step - other.step : one.path < other.path ? -1 : 1,
  );
  const share = all.reduce((sum, { cost }) => sum + cost, 0) / count;
  const parts = Array.from({ length: count }, (): number[] => []);
  let done = 0;
  for (const { step, cost } of all) {
    parts[Math.min(count - 1, Math.floor(done / share))]!.push(step);
    done += cost;
  }
  return parts.map((part) => Uint32Array.from(part));
}

export interface WriteOptions {
  packs: Packs;
  placed: readonly Placed[];
  part: Uint32Array;
  /** The folder to write below. */
  folder: Bytes;
  /** Under numbers, for a later rename, or under the right paths. */
  staged: boolean;
  /** Force each file to the disk. */
  flush: boolean;
}

/** Writes files and links, each compared with its hash before it is. */
export function writePart({ packs, placed, part, folder, staged, flush }: WriteOptions): void {
  using beneath = new Beneath(folder);
  for (const step of part) {
    const { path, mode, hash: hex, target } = placed[step]!;
    const [above, name] = staged ? stagedAt(step) : split(path);
    const to = toOs(beneath.folder(above) + name);
    if (hex === null) symlinkSync(Buffer.from(target, 'latin1'), to);
    else writeFile(packs.place(Buffer.from(hex, 'hex')), to, mode, flush);
  }
  packs.close();
}

const zeros = Buffer.alloc(65_536);
const isZero = (bytes: Buffer): boolean => {
  for (let at = 0; at < bytes.length; at += zeros.length) {
    const end = Math.min(bytes.length, at + zeros.length);
    if (bytes.compare(zeros, 0, end - at, at, end) !== 0) return false;
  }
  return true;
};

function writeFile(place: Place, to: string | Buffer, mode: number, flush: boolean): void {
  const { pack, object } = place;
  const length = pack.index.lengths[object]!;
  const digest = pack.index.hashes.subarray(object * hashSize, (object + 1) * hashSize);
  const descriptor = openSync(
    to,
    constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW,
    0o600,
  );
  try {
    let [at, written] = [0, 0];
    let sum: ReturnType<typeof createHash> | undefined;
    for (const piece of pack.pieces(object)) {
      if (piece.length === length) {
        if (!hash('sha256', piece, 'buffer').equals(digest)) throw damaged(digest);
      } else sum = (sum ?? createHash('sha256')).update(piece);
      // A long run of zeros becomes a hole.
      if (piece.length >= zeros.length && isZero(piece)) at += piece.length;
      else {
        for (const end = at + piece.length, start = at; at < end;)
          at += writeSync(descriptor, piece, at - start, end - at, at);
        written = at;
      }
    }
    if (sum && !sum.digest().equals(digest)) throw damaged(digest);
    // Only a hole at the end leaves it short; a cut that cuts nothing costs as much as a small write.
    if (written !== length) ftruncateSync(descriptor, length);
    fchmodSync(descriptor, mode);
    if (flush) fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

const damaged = (digest: Buffer): TreeError =>
  new TreeError('damaged', `The object ${digest.toString('hex')} is damaged.`);
