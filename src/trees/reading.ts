import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { TreeError } from './failure.ts';
import { type Kind, kinds, type Node } from './folder-object.ts';
import { below, type Bytes, toBytes, toText } from './name.ts';
import { hashSize } from './pack.ts';
import { isSound, type Packs, treesFolder, wordsOf } from './packs.ts';

export type EntryType = 'file' | 'directory' | 'symlink';

/** One entry of a stored tree. */
export interface Entry {
  /** Text; bytes that are no UTF-8 stand as U+DC80..U+DCFF. */
  path: string;
  type: EntryType;
  /** Permission bits. */
  mode: number;
  size: number;
  /** SHA-256 of a file's bytes, hex; null for others. */
  hash: string | null;
  /** The target of a link, as text; null for others. */
  target: string | null;
}

/** What differs between two trees at a path. */
export interface Change {
  path: string;
  change: 'added' | 'modified' | 'deleted';
  from: Entry | null;
  to: Entry | null;
}

const types = { [kinds.file]: 'file', [kinds.folder]: 'directory', [kinds.link]: 'symlink' } as const;

const entryOf = (path: Bytes, { kind, mode, size, hash, target }: Node): Entry => ({
  path: toText(path),
  type: types[kind as Exclude<Kind, 0>],
  mode,
  size,
  hash: kind === kinds.file ? hash.toString('hex') : null,
  target: kind === kinds.link ? toText(target) : null,
});

/** Throws TreeError `unknown_tree` when the store does not have the tree whole. */
export function assertTree(store: string, tree_hash: string): void {
  if (!/^[0-9a-f]{64}$/.test(tree_hash) || !existsSync(join(treesFolder(store), tree_hash)))
    throw new TreeError('unknown_tree', `The store has no tree ${tree_hash}.`);
}

/** The entries of a tree, each folder before what is in it and names ordered by their bytes; those after a path, `limit` at most. */
export function listEntries(packs: Packs, tree_hash: string, after: string | null, limit: number): Entry[] {
  const entries: Entry[] = [];
  const cursor = after === null ? null : toBytes(after).split('/');
  const walk = (folder: Bytes, digest: Buffer, rest: Bytes[] | null): void => {
    for (const node of packs.readFolder(digest)) {
      if (entries.length >= limit) return;
      const first = rest?.[0];
      if (first !== undefined && node.name < first) continue;
      const path = below(folder, node.name);
      const isPast = first === undefined || node.name > first;
      if (isPast) entries.push(entryOf(path, node));
      if (node.kind === kinds.folder) walk(path, node.hash, isPast ? null : rest!.slice(1));
    }
  };
  walk('', Buffer.from(tree_hash, 'hex'), cursor);
  return entries;
}

/** What differs between two trees (null: an empty one), ordered as `listEntries` orders. Folders that are equal are not read. */
export function compareTrees(packs: Packs, from: string | null, to: string): Change[] {
  const changes: Change[] = [];
  const read = (node: Node | undefined): Node[] => (node?.kind === kinds.folder ? packs.readFolder(node.hash) : []);
  const walk = (folder: Bytes, before: Node[], after: Node[]): void => {
    const [old, now] = [
      new Map(before.map((node) => [node.name, node])),
      new Map(after.map((node) => [node.name, node])),
    ];
    for (const name of [...new Set([...old.keys(), ...now.keys()])].toSorted((a, b) => (a < b ? -1 : 1))) {
      const [was, is] = [old.get(name), now.get(name)];
      const path = below(folder, name);
      const sameContent = was && is && was.kind === is.kind && was.hash.equals(is.hash) && was.target === is.target;
      if (!sameContent || was.mode !== is.mode) {
        const onlyBelow = was?.kind === kinds.folder && is?.kind === kinds.folder && was.mode === is.mode;
        const change = was ? (is ? 'modified' : 'deleted') : 'added';
        if (!onlyBelow)
          changes.push({
            path: toText(path),
            change,
            from: was ? entryOf(path, was) : null,
            to: is ? entryOf(path, is) : null,
          });
      }
      if (!sameContent) walk(path, read(was), read(is));
    }
  };
  walk('', from === null ? [] : packs.readFolder(Buffer.from(from, 'hex')), packs.readFolder(Buffer.from(to, 'hex')));
  return changes;
}

/** All objects of trees by their hashes in hex, true for folders; `bad` gets those that cannot be read. */
export function objectsOf(packs: Packs, tree_hashes: readonly string[], bad: Set<string>): Map<string, boolean> {
  const objects = new Map<string, boolean>();
  const waiting = [...tree_hashes];
  for (const tree of tree_hashes) objects.set(tree, true);
  for (let folder = waiting.pop(); folder !== undefined; folder = waiting.pop()) {
    let nodes: Node[];
    try {
      nodes = packs.readFolder(Buffer.from(folder, 'hex'));
    } catch (error) {
      if (!(error instanceof TreeError)) throw error;
      bad.add(folder);
      continue;
    }
    for (const { kind, hash } of nodes) {
      if (kind === kinds.link) continue;
      const hex = hash.toString('hex');
      if (objects.has(hex)) continue;
      objects.set(hex, kind === kinds.folder);
      if (kind === kinds.folder) waiting.push(hex);
    }
  }
  return objects;
}

/** The hashes of these objects, 32 bytes each, in the order in which they lie in the store, in parts; `bad` gets the missing ones. */
export function inOrder(packs: Packs, hashes: Iterable<string>, count: number, bad: Set<string>): Buffer[] {
  const all: { hash: Buffer; path: string; at: number }[] = [];
  for (const hex of hashes) {
    const hash = Buffer.from(hex, 'hex');
    const place = packs.find(wordsOf(hash));
    if (place) all.push({ hash, path: place.pack.path, at: place.pack.index.places[place.object]! });
    else bad.add(hex);
  }
  all.sort((one, other) => (one.path === other.path ? one.at - other.at : one.path < other.path ? -1 : 1));
  const share = Math.ceil(all.length / count);
  return Array.from({ length: count }, (_, part) =>
    Buffer.concat(all.slice(part * share, (part + 1) * share).map(({ hash }) => hash)),
  );
}

/** Reads objects back and answers the hashes, in hex, of those that are not what they should be. */
export function findBad(packs: Packs, hashes: Uint8Array): string[] {
  const bad: string[] = [];
  for (let at = 0; at < hashes.length; at += hashSize) {
    const hash = Buffer.from(hashes.subarray(at, at + hashSize));
    try {
      if (isSound(packs.place(hash))) continue;
    } catch (error) {
      if (!(error instanceof TreeError)) throw error;
    }
    bad.push(hash.toString('hex'));
  }
  packs.close();
  return bad;
}
