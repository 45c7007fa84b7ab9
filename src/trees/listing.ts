import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { crc32 } from 'node:zlib';
import type { Bytes } from './name.ts';

/** Numbers kept of each entry: mode with type, size, mtime, ctime (milliseconds), inode, device. All but the mode are 0 for folders. */
export const facts = 6;
/** Numbers kept of each folder for the next walk: mtime, ctime (NaN when it cannot be trusted), inode, device. */
export const folderFacts = 4;
/** Numbers kept of each folder. */
export const columns = {
  first: 0,
  entries: 1,
  count: 2,
  path: 3,
  pathSize: 4,
  names: 5,
  namesSize: 6,
  links: 7,
  linksSize: 8,
} as const;
export const width = 9;

/** What is known of a whole tree at once, as it was at a snapshot. */
export interface Summary {
  /** Hex; '' when the tree was not stored. */
  tree_hash: string;
  file_count: number;
  size_bytes: number;
  /** Pipes, sockets and devices. */
  skipped: number;
  /** What the listing was made with: another list of exclusions makes another listing. */
  key: string;
}

/**
 * A tree as it was last seen, in few large columns: folders after what is in them, so that all below a folder is one range.
 * Entries stand in the order in which the system named them. It is kept in a file per workspace, as the stat cache.
 */
export interface Listing {
  summary: Summary;
  /** `width` numbers a folder. */
  folders: Uint32Array;
  /** 32 bytes a folder: its object's hash. */
  folderHashes: Buffer;
  /** `folderFacts` numbers a folder. */
  folderFacts: Float64Array;
  /** `facts` numbers an entry. */
  facts: Float64Array;
  /** A kind an entry. */
  kinds: Uint8Array;
  /** 32 bytes an entry; of a file or folder. */
  hashes: Buffer;
  /** Paths of folders; names of a folder's entries joined by `/`; targets of its links joined by NUL. */
  texts: Buffer;
}

const magic = Buffer.from('AGLIST1\n');
const header = 40;

/** The number of folders of a listing. */
export const folderCount = ({ folders }: Listing): number => folders.length / width;

/** One of a folder's numbers. */
export const number = ({ folders }: Listing, folder: number, column: keyof typeof columns): number =>
  folders[folder * width + columns[column]]!;

/** One of a folder's texts. */
export function text(listing: Listing, folder: number, column: 'path' | 'names' | 'links'): Bytes {
  const start = number(listing, folder, column);
  return listing.texts.toString('latin1', start, start + number(listing, folder, `${column}Size`));
}

/** Writes a listing to a file; it is there whole, or it is seen on reading that it is not. */
export function save(path: string, listing: Listing): void {
  const summary = Buffer.from(JSON.stringify(listing.summary));
  const head = Buffer.alloc(header);
  magic.copy(head);
  head.writeUInt32LE(summary.length, 12);
  head.writeUInt32LE(listing.folders.length / width, 16);
  head.writeUInt32LE(listing.kinds.length, 20);
  head.writeDoubleLE(listing.texts.length, 24);
  const parts = [
    head,
    Buffer.from(listing.facts.buffer, listing.facts.byteOffset, listing.facts.byteLength),
    Buffer.from(listing.folderFacts.buffer, listing.folderFacts.byteOffset, listing.folderFacts.byteLength),
    Buffer.from(listing.folders.buffer, listing.folders.byteOffset, listing.folders.byteLength),
    listing.folderHashes,
    listing.hashes,
    Buffer.from(listing.kinds.buffer, listing.kinds.byteOffset, listing.kinds.byteLength),
    listing.texts,
    summary,
  ];
  let check = crc32(head.subarray(12));
  for (const part of parts.slice(1)) check = crc32(part, check);
  head.writeUInt32LE(check, 8);
  writeFileSync(`${path}.new`, Buffer.concat(parts), { mode: 0o600 });
  renameSync(`${path}.new`, path);
}

/** The bytes of a listing's file in memory that threads can share, or undefined when there is no file. */
export function readShared(path: string): SharedArrayBuffer | undefined {
  let bytes: Buffer;
  try {
    bytes = readFileSync(path);
  } catch {
    return undefined;
  }
  const shared = new SharedArrayBuffer(bytes.length);
  Buffer.from(shared).set(bytes);
  return shared;
}

/** The listing in these bytes, or undefined when it is damaged or was made with another key. `checked`: somebody did already. */
export function parse(shared: SharedArrayBuffer, key: string, checked = false): Listing | undefined {
  const bytes = Buffer.from(shared);
  if (bytes.length < header || !bytes.subarray(0, 8).equals(magic)) return undefined;
  if (!checked && crc32(bytes.subarray(12)) !== bytes.readUInt32LE(8)) return undefined;
  const [summarySize, folders, entries] = [bytes.readUInt32LE(12), bytes.readUInt32LE(16), bytes.readUInt32LE(20)];
  const textSize = bytes.readDoubleLE(24);
  const size =
    header + entries * (facts * 8 + 33) + folders * (folderFacts * 8 + width * 4 + 32) + textSize + summarySize;
  if (size !== bytes.length) return undefined;
  let at = header;
  const take = (size: number) => {
    at += size;
    return Buffer.from(shared, at - size, size);
  };
  const listing = {
    facts: new Float64Array(shared, take(entries * facts * 8).byteOffset, entries * facts),
    folderFacts: new Float64Array(shared, take(folders * folderFacts * 8).byteOffset, folders * folderFacts),
    folders: new Uint32Array(shared, take(folders * width * 4).byteOffset, folders * width),
    folderHashes: take(folders * 32),
    hashes: take(entries * 32),
    kinds: new Uint8Array(shared, take(entries).byteOffset, entries),
    texts: take(textSize),
  };
  const summary = JSON.parse(take(summarySize).toString()) as Summary;
  return summary.key === key ? { summary, ...listing } : undefined;
}
