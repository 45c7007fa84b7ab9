import { type BigIntStats, fstatSync, read, readSync } from 'node:fs';
import { createHash, hash } from 'node:crypto';
import { promisify } from 'node:util';
import type { Clock } from '../base/clock.ts';

const readInto = promisify(read);

/** Bytes read at once. */
const chunk = 1_048_576;
/** How many files are remembered. */
const maxKnown = 20_000;
/** A file that was changed less than this long ago (milliseconds) may change again without its times showing it. */
const racy = 2_000;

/** The strong ETag of these bytes. */
export const etagOf = (bytes: Uint8Array): string => `"sha256-${hash('sha256', bytes, 'hex')}"`;
/** The strong ETag of bytes with this SHA-256 in hexadecimal. */
export const etagOfSha = (sha256: string): string => `"sha256-${sha256}"`;

/**
 * ETags of open files. What was read once is remembered by device, inode, size and times, so that a file is hashed once as long as
 * it stays as it is. Files that were just changed are never remembered: a second change in the same tick of the file system's
 * clock would not show.
 */
export function createEtags({ clock }: { clock: Clock }) {
  const known = new Map<string, string>();
  const keyOf = ({ dev, ino, size, mtimeNs, ctimeNs }: BigIntStats) => `${dev}:${ino}:${size}:${mtimeNs}:${ctimeNs}`;

  const find = (stat: BigIntStats): string | undefined => {
    const key = keyOf(stat);
    const etag = known.get(key);
    if (etag !== undefined) {
      known.delete(key);
      known.set(key, etag);
    }
    return etag;
  };

  const remember = (fd: number, before: BigIntStats, began: number, etag: string): string => {
    const after = fstatSync(fd, { bigint: true });
    const latest = after.mtimeMs > after.ctimeMs ? after.mtimeMs : after.ctimeMs;
    if (keyOf(after) === keyOf(before) && Number(latest) < began - racy) {
      known.set(keyOf(after), etag);
      if (known.size > maxKnown) known.delete(known.keys().next().value!);
    }
    return etag;
  };

  return {
    /** The ETag of a file with these facts, if it was read before. */
    find,

    /** The ETag of an open file, read in pieces so that others get their turn. */
    async of(fd: number): Promise<string> {
      const stat = fstatSync(fd, { bigint: true });
      const already = find(stat);
      if (already) return already;
      const began = clock.now();
      const sum = createHash('sha256');
      const buffer = Buffer.allocUnsafe(Math.min(chunk, Number(stat.size) + 1));
      for (let at = 0; ;) {
        const { bytesRead } = await readInto(fd, buffer, 0, buffer.length, at);
        if (bytesRead === 0) break;
        sum.update(buffer.subarray(0, bytesRead));
        at += bytesRead;
      }
      return remember(fd, stat, began, etagOfSha(sum.digest('hex')));
    },

    /** The same at once, where nothing may come in between. */
    ofNow(fd: number): string {
      const stat = fstatSync(fd, { bigint: true });
      const already = find(stat);
      if (already) return already;
      const began = clock.now();
      const sum = createHash('sha256');
      const buffer = Buffer.allocUnsafe(Math.min(chunk, Number(stat.size) + 1));
      for (let at = 0, bytes; (bytes = readSync(fd, buffer, 0, buffer.length, at)) > 0; at += bytes)
        sum.update(buffer.subarray(0, bytes));
      return remember(fd, stat, began, etagOfSha(sum.digest('hex')));
    },
  };
}
export type Etags = ReturnType<typeof createEtags>;
