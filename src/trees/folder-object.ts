import { TreeError } from './failure.ts';
import type { Bytes } from './name.ts';

/** What an entry of a tree is; 0 is what is left out (excluded folders, pipes, sockets, devices). */
export const kinds = { left: 0, file: 1, folder: 2, link: 3 } as const;
export type Kind = (typeof kinds)[keyof typeof kinds];

/** One entry of a folder in the store. */
export interface Node {
  name: Bytes;
  kind: Kind;
  /** Permission bits, 0o7777 at most. */
  mode: number;
  /** Bytes of a file, or of a link's target; 0 for a folder. */
  size: number;
  /** SHA-256 of a file's bytes or of a folder's object; empty for a link. */
  hash: Buffer;
  /** The target of a link. */
  target: Bytes;
}

const magic = Buffer.from('AGTREE1\n');
const fixed = 11;

/**
 * A folder's part of the manifest: `AGTREE1\n`, then its entries ordered by the bytes of their names, each
 * kind (u8), mode (u16), size (u48), name's length (u16), name, and then for files and folders the SHA-256 (32 bytes), for links
 * the target's length (u16) and the target. Integers are little endian. The SHA-256 of a folder's object stands in its parent's,
 * so that the root's names the whole tree, and what did not change is not written again.
 */
export function encodeFolder(nodes: Node[]): Buffer {
  nodes.sort((one, other) => (one.name < other.name ? -1 : 1));
  let length = magic.length;
  for (const { name, kind, target } of nodes)
    length += fixed + name.length + (kind === kinds.link ? 2 + target.length : 32);
  const bytes = Buffer.allocUnsafe(length);
  magic.copy(bytes);
  let at = magic.length;
  for (const { name, kind, mode, size, hash, target } of nodes) {
    bytes[at] = kind;
    bytes.writeUInt16LE(mode, at + 1);
    bytes.writeUIntLE(size, at + 3, 6);
    bytes.writeUInt16LE(name.length, at + 9);
    at += fixed + bytes.write(name, at + fixed, 'latin1');
    if (kind === kinds.link) {
      bytes.writeUInt16LE(target.length, at);
      at += 2 + bytes.write(target, at + 2, 'latin1');
    } else at += hash.copy(bytes, at, 0, 32);
  }
  return bytes;
}

/** The entries of a folder's object, in their order. Throws TreeError `damaged` when it is none. */
export function decodeFolder(bytes: Buffer): Node[] {
  const nodes: Node[] = [];
  if (!bytes.subarray(0, magic.length).equals(magic))
    throw new TreeError('damaged', 'An object is not the folder that it should be.');
  for (let at = magic.length; at < bytes.length;) {
    const kind = bytes[at] as Kind;
    const mode = bytes.readUInt16LE(at + 1);
    const size = bytes.readUIntLE(at + 3, 6);
    const length = bytes.readUInt16LE(at + 9);
    at += fixed;
    const name = bytes.toString('latin1', at, at + length);
    at += length;
    if (kind === kinds.link) {
      const end = at + 2 + bytes.readUInt16LE(at);
      nodes.push({ name, kind, mode, size, hash: none, target: bytes.toString('latin1', at + 2, end) });
      at = end;
    } else {
      nodes.push({ name, kind, mode, size, hash: bytes.subarray(at, at + 32), target: '' });
      at += 32;
    }
  }
  return nodes;
}

const none = Buffer.alloc(0);
