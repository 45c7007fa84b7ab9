import { hash } from 'node:crypto';
import { TreeError } from './failure.ts';
import type { Bytes } from './name.ts';

/** A file (its hash in hex) or a link (its target) that is to stand at a path. */
export interface Placed {
  path: Bytes;
  mode: number;
  hash: string | null;
  target: Bytes;
}

/**
 * What a restore does, in this order; each step may be done again. `opened`: folders that get the owner's permission to write, as
 * entries of them change; `displaced`: folders that make room for something else, moved to the staging folder; `removed`: files,
 * links and folders, what is inside first; `made`: new folders; `placed`: renamed from the staging folder; `modes`: permissions of
 * what stays, of new and of opened folders, what is inside first.
 */
export interface Steps {
  tree_hash: string;
  opened: Bytes[];
  displaced: Bytes[];
  removed: { path: Bytes; folder: boolean }[];
  made: Bytes[];
  placed: Placed[];
  modes: { path: Bytes; mode: number; folder: boolean }[];
}

/** Steps as bytes in memory that threads share: JSON of bytes as characters, a line break, and its SHA-256 in hex. */
export function encodeSteps(steps: Steps): Uint8Array {
  const json = Buffer.from(JSON.stringify(steps), 'latin1');
  const all = Buffer.from(new SharedArrayBuffer(json.length + 65));
  json.copy(all);
  all.write(`\n${hash('sha256', json)}`, json.length, 'latin1');
  return all;
}

/** The steps in these bytes. Throws TreeError `damaged`. */
export function decodeSteps(bytes: Uint8Array): Steps {
  const all = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  const json = all.subarray(0, Math.max(0, all.length - 65));
  if (all.toString('latin1', json.length) !== `\n${hash('sha256', json)}`)
    throw new TreeError('damaged', 'The steps of a restore are damaged.');
  return JSON.parse(json.toString('latin1')) as Steps;
}
