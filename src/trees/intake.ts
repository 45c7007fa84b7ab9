import { hash, createHash } from 'node:crypto';
import { closeSync, constants, fstatSync, openSync, readlinkSync, readSync, type Stats } from 'node:fs';
import { systemClock } from '../base/clock.ts';
import type { Beneath } from './beneath.ts';
import { codeOf, TreeError } from './failure.ts';
import { kinds } from './folder-object.ts';
import { facts } from './listing.ts';
import { below, type Bytes, toOs, toText } from './name.ts';
import type { Packer } from './packer.ts';
import { type Packs, wordsOf } from './packs.ts';
import { pause, waitForTick } from './tick.ts';
import { failure, type Found, setFacts, shared } from './walk.ts';

/** Files up to this size are read at once. */
const small = 1_048_576;
/** How often a file that changes while it is read is tried again. */
const retries = 3;
/**
 * A system notes the time of a write before it copies the bytes, and a reader is not kept out: a write that takes long leaves no
 * trace after. So what changed less than `hot` milliseconds before it was read is read once more, `later` milliseconds later.
 */
const hot = 100;
const later = 20;

export interface IntakeOptions {
  beneath: Beneath;
  /** Where to store new content, or null to hash only. */
  store: { packs: Packs; packer: Packer } | null;
  control: Int32Array;
}

const ctime = 3;

/** Reads the content of files: hashes it, and stores what is new. */
export class Intake {
  readonly #options: IntakeOptions;
  readonly #buffer = Buffer.allocUnsafeSlow(small + 1);
  #hot: { found: Found; entry: number }[] = [];
  hashed = 0;

  constructor(options: IntakeOptions) {
    this.#options = options;
  }

  /** Reads what is unread in a folder. Files that are gone meanwhile lose their entry's kind. Throws TreeError. */
  read(found: Found): void {
    const { beneath, control } = this.#options;
    const stat = beneath.stat(found.path);
    if (stat.ino !== found.own[2] || stat.dev !== found.own[3])
      throw new TreeError('changed', `${toText(found.path)} was replaced while it was read.`, {
        path: toText(found.path),
      });
    const before = beneath.folder(found.path);
    for (const [entry, unread] of found.unread.entries()) {
      if (unread === 0) continue;
      if (Atomics.load(control, shared.stop) !== 0) throw new TreeError('stopped', 'This was stopped.');
      const path = before + found.names[entry]!;
      try {
        if (found.kinds[entry] === kinds.link) found.targets.set(entry, readlinkSync(toOs(path), 'latin1'));
        else this.#file(path, found, entry, 0).copy(found.hashes, entry * 32);
      } catch (error) {
        if (codeOf(error) !== 'ENOENT') throw failure(error, below(found.path, found.names[entry]!), 'read');
        found.kinds[entry] = kinds.left;
        found.facts.fill(0, entry * facts, (entry + 1) * facts);
      }
      Atomics.add(control, shared.done, 1);
    }
  }

  /** After all folders: reads once more what had only just changed. Throws TreeError `changed`. */
  finish(): void {
    for (let round = 0; this.#hot.length > 0; round++) {
      const again = this.#hot;
      this.#hot = [];
      pause(later);
      for (const { found, entry } of again) {
        const path = this.#options.beneath.folder(found.path) + found.names[entry]!;
        try {
          if (this.#isStill(path, found, entry)) continue;
          if (round === retries) throw keepsChanging(found, entry);
          this.#file(path, found, entry, 1).copy(found.hashes, entry * 32);
        } catch (error) {
          if (codeOf(error) !== 'ENOENT') throw failure(error, below(found.path, found.names[entry]!), 'read');
        }
      }
    }
  }

  #isStill(path: Bytes, found: Found, entry: number): boolean {
    const row = found.facts.slice(entry * facts, (entry + 1) * facts);
    const descriptor = openSync(toOs(path), flags);
    try {
      const stat = fstatSync(descriptor);
      // Another file has taken its place: what was read was whole, and the next snapshot sees the new one.
      if (stat.ino !== row[4] || stat.dev !== row[5]) return true;
      if (Number.isNaN(row[ctime])) row[ctime] = stat.ctimeMs;
      if (!isSame(stat, row)) return false;
      const sum = createHash('sha256');
      try {
        for (const piece of this.#pieces(descriptor, row)) sum.update(piece);
      } catch (error) {
        if (error === changed) return false;
        throw error;
      }
      return sum.digest().equals(found.hashes.subarray(entry * 32, entry * 32 + 32));
    } finally {
      closeSync(descriptor);
    }
  }

  /** Reads a file; with `first` above 0 it is looked at anew before. */
  #file(path: Bytes, found: Found, entry: number, first: number): Buffer {
    const row = found.facts.subarray(entry * facts, (entry + 1) * facts);
    let isTrusted = first > 0 || waitForTick(row[ctime]!);
    for (let attempt = first; attempt <= retries; attempt++) {
      const descriptor = openSync(toOs(path), flags);
      try {
        if (attempt > 0) {
          setFacts(row, 0, fstatSync(descriptor));
          isTrusted = waitForTick(row[ctime]!);
        }
        if ((row[0]! & 0o170000) !== 0o100000) break;
        const digest = row[1]! <= small ? this.#whole(descriptor, row) : this.#streamed(descriptor, row);
        if (digest) {
          this.hashed += 1;
          if (Math.abs(systemClock.now() - row[ctime]!) < hot) this.#hot.push({ found, entry });
          if (!isTrusted) row[ctime] = Number.NaN;
          return digest;
        }
      } finally {
        closeSync(descriptor);
      }
    }
    throw keepsChanging(found, entry);
  }

  #whole(descriptor: number, row: Float64Array): Buffer | undefined {
    const buffer = this.#buffer;
    let size = 0;
    for (;;) {
      const read = readSync(descriptor, buffer, size, buffer.length - size, null);
      size += read;
      if (read === 0 || size >= row[1]!) break;
    }
    if (size !== row[1] || !isSame(fstatSync(descriptor), row)) return undefined;
    const bytes = buffer.subarray(0, size);
    const digest = hash('sha256', bytes, 'buffer');
    const { store } = this.#options;
    if (store && !store.packer.has(digest) && !store.packs.find(wordsOf(digest))) store.packer.add(digest, bytes);
    return digest;
  }

  #streamed(descriptor: number, row: Float64Array): Buffer | undefined {
    const { store } = this.#options;
    const pieces = this.#pieces(descriptor, row);
    try {
      if (store) return store.packer.stream(pieces, (digest) => store.packs.find(wordsOf(digest)) !== undefined);
      const sum = createHash('sha256');
      for (const piece of pieces) sum.update(piece);
      return sum.digest();
    } catch (error) {
      if (error === changed) return undefined;
      throw error;
    }
  }

  /** A long file in pieces; throws `changed` at the end when it is not what it was at the start. */
  *#pieces(descriptor: number, row: Float64Array): Generator<Buffer> {
    const { control } = this.#options;
    let size = 0;
    for (;;) {
      if (Atomics.load(control, shared.stop) !== 0) throw new TreeError('stopped', 'This was stopped.');
      const read = readSync(descriptor, this.#buffer, 0, small, null);
      if (read === 0) break;
      size += read;
      if (size > row[1]!) throw changed;
      yield this.#buffer.subarray(0, read);
    }
    if (size !== row[1] || !isSame(fstatSync(descriptor), row)) throw changed;
  }
}

const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

function keepsChanging(found: Found, entry: number): TreeError {
  const name = toText(below(found.path, found.names[entry]!));
  return new TreeError('changed', `${name} keeps changing while it is read.`, { path: name });
}

const changed = new Error('The file changed.');
const seen = new Float64Array(facts);

function isSame(stat: Stats, row: Float64Array): boolean {
  setFacts(seen, 0, stat);
  return seen.every((fact, index) => fact === row[index]);
}
