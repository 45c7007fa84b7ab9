import { createHash } from 'node:crypto';
import { existsSync, linkSync, mkdirSync, read, readdirSync, rmSync } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { crashPoint } from '../base/crash.ts';

/** Bytes that are kept, as an artifact names them. */
export interface Bytes {
  sha256: string;
  size_bytes: number;
}

/** More bytes came than were allowed. */
export class TooMany extends Error {}

/** Bytes of one run on their way in or out. Whoever begins it ends it. */
export interface Moving {
  /** Copies bytes. Throws TooMany after `most`; then nothing of them is left. */
  take(bytes: AsyncIterable<Uint8Array>, most: number): Promise<Bytes>;
  /** To be called before a commit that names them: all bytes are on disk, and their names. */
  flush(): Promise<void>;
  /** To be called before a commit after which they may be nobody's. */
  release(sha256: string): void;
  /** Removes what no row names. */
  end(): Promise<void>;
}

const readInto = promisify(read);
const pieceBytes = 262_144;
/** Files that are forced to the disk at a time. */
const atOnce = 8;

/** An open file in pieces, each of which is good until the next is asked for: they are one buffer. */
export async function* piecesOf(fd: number): AsyncGenerator<Uint8Array> {
  const buffer = Buffer.allocUnsafeSlow(pieceBytes);
  for (let at = 0; ;) {
    const { bytesRead } = await readInto(fd, buffer, 0, pieceBytes, at);
    if (bytesRead === 0) return;
    yield buffer.subarray(0, bytesRead);
    at += bytesRead;
  }
}

/** Forces a file, or the names in a folder, to the disk. */
async function flush(path: string): Promise<void> {
  const file = await open(path, 'r');
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}

/**
 * Bytes named by their SHA-256, each kept once. While bytes come or go, a second name of them lies in the staging folder of the
 * run, so that a daemon that died in between finds what may be nobody's without looking at all there is.
 */
export function openBlobs(folder: string, isUsed: (sha256: string) => boolean) {
  const blobs = join(folder, 'blobs');
  const staging = join(folder, 'staging');
  for (const path of [blobs, staging]) mkdirSync(path, { recursive: true, mode: 0o700 });
  const pathOf = (sha256: string) => join(blobs, sha256);
  /** Bytes that a run is about to name, and how many do. */
  const held = new Map<string, number>();

  const sweep = (sha256: string) => {
    if (/^[0-9a-f]{64}$/.test(sha256) && !held.has(sha256) && !isUsed(sha256)) rmSync(pathOf(sha256), { force: true });
  };

  /** The second name of bytes that are kept; false when there are none. */
  const link = (from: string, to: string): boolean => {
    try {
      linkSync(from, to);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'ENOENT') return false;
      if (code !== 'EEXIST') throw error;
    }
    return true;
  };

  for (const run of readdirSync(staging)) {
    for (const name of readdirSync(join(staging, run))) sweep(name);
    rmSync(join(staging, run), { recursive: true, force: true });
  }

  return {
    pathOf,

    /** Begins to bring bytes of a run in, or to let go of them. Only one at a time may do so for a run. */
    begin(run: string): Moving {
      const own = join(staging, run);
      const names = new Set<string>();
      const taken: string[] = [];
      mkdirSync(own, { recursive: true, mode: 0o700 });
      return {
        async take(bytes, most) {
          const part = join(own, `part-${taken.length}`);
          const sum = createHash('sha256');
          let size_bytes = 0;
          const file = await open(part, 'w', 0o400);
          try {
            for await (const piece of bytes) {
              size_bytes += piece.length;
              if (size_bytes > most) throw new TooMany();
              sum.update(piece);
              await file.writeFile(piece);
            }
          } catch (error) {
            await rm(part, { force: true });
            throw error;
          } finally {
            await file.close();
          }
          const sha256 = sum.digest('hex');
          crashPoint('artifact', 'copied');
          await rename(part, join(own, sha256));
          names.add(sha256);
          taken.push(sha256);
          held.set(sha256, (held.get(sha256) ?? 0) + 1);
          return { sha256, size_bytes };
        },

        async flush() {
          // Bytes come under their name only when they are on disk: who finds some there takes them as they are.
          const fresh = [...new Set(taken)].filter((sha256) => !existsSync(pathOf(sha256)));
          const next = fresh.values();
          const flushers = Array.from({ length: atOnce }, async () => {
            for (const sha256 of next) {
              await flush(join(own, sha256));
              link(join(own, sha256), pathOf(sha256));
            }
          });
          await Promise.all(flushers);
          if (taken.length > 0) await flush(blobs);
        },

        release(sha256) {
          if (link(pathOf(sha256), join(own, sha256))) names.add(sha256);
        },

        async end() {
          for (const sha256 of taken) {
            const others = held.get(sha256)! - 1;
            if (others > 0) held.set(sha256, others);
            else held.delete(sha256);
          }
          for (const sha256 of names) sweep(sha256);
          await rm(own, { recursive: true, force: true });
        },
      };
    },
  };
}
export type Blobs = ReturnType<typeof openBlobs>;
