import { closeSync, createReadStream, read } from 'node:fs';
import type { Readable } from 'node:stream';
import { promisify } from 'node:util';
import { Fault } from '../api/error.ts';
import { maxDirectBytes } from '../api/files.ts';
import type { OpenFile } from './beneath.ts';
import { type Etags, etagOf } from './etags.ts';
import { isActive } from '../base/media.ts';

const readInto = promisify(read);

/** A file that is open for reading. Whoever asked for it closes it, unless its stream is taken, which closes it at its end. */
export interface Reading {
  name: string;
  size: number;
  /** Whether a browser could be made to run what it holds. */
  active: boolean;
  /** Reads it all to say its ETag, unless that is known. */
  etag(): Promise<string>;
  /** All of it, with the ETag of just these bytes. */
  whole(): Promise<{ bytes: Buffer; etag: string }>;
  /** The bytes from the first to the last. */
  stream(first: number, last: number): Readable;
  close(): void;
}

/** Reads an open file, which was asked for by this path. */
export function readingOf({ fd, stat, name }: OpenFile, path: string, etags: Etags): Reading {
  const size = Number(stat.size);
  return {
    name,
    size,
    active: isActive(name) || isActive(path),
    etag: () => etags.of(fd),
    async whole() {
      const buffer = Buffer.alloc(size);
      let at = 0;
      while (at < size) {
        const { bytesRead } = await readInto(fd, buffer, at, size - at, at);
        // Somebody has cut it short meanwhile.
        if (bytesRead === 0) break;
        at += bytesRead;
      }
      const bytes = buffer.subarray(0, at);
      return { bytes, etag: etagOf(bytes) };
    },
    stream: (first, last) =>
      createReadStream('', { fd, start: first, end: last, autoClose: true, highWaterMark: 262_144 }),
    close: () => closeSync(fd),
  };
}

/** Throws `download_required` for a file that is too large to be read at once. */
export function assertDirect({ name, size }: Reading): void {
  if (size > maxDirectBytes)
    throw new Fault('download_required', `${name} has ${size} bytes; over ${maxDirectBytes} ask with download=true.`, {
      details: { max_bytes: maxDirectBytes, size_bytes: size },
    });
}
