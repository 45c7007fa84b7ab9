import { closeSync, openSync, constants, type BigIntStats, type Dirent } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { Fault } from '../api/error.ts';
import type { FileEntry } from '../api/files.ts';
import { iso } from '../base/clock.ts';
import { fold } from '../base/db.ts';
import { beneath, openFolder, type Root } from './beneath.ts';
import type { Etags } from './etags.ts';
import { isReserved } from './grammar.ts';
import { mediaTypeOf } from '../base/media.ts';
import { kindOf } from './refusal.ts';

/** A file larger than this (bytes) is not read for a listing. */
const maxHashed = 26_214_400;
/** Deeper than any path that could be asked for. */
const maxPathBytes = 4096;

/** What to list: one folder, or all below it, perhaps only what has `query` in its path. */
export interface Wanted {
  path: string;
  query?: string | undefined;
  recursive: boolean;
  /** The path of the last entry of the page before. */
  after: string | null;
  limit: number;
  signal: AbortSignal;
}

/** The end of the year 9999: later times have no place on the wire. */
const latest = 253_402_300_799_999;

/** Nobody waits any more: going on would be for nothing. */
function assertHeard(signal: AbortSignal): void {
  if (signal.aborted) throw new Fault('unavailable', 'The client has gone.');
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/**
 * A page of a folder, in ascending order of paths, segment by segment; `next` is the cursor of the next one. It is found by going
 * straight to where the page before ended, so that each page costs what the first one does. Throws `not_found`.
 */
export async function listBeneath(
  root: Root,
  etags: Etags,
  wanted: Wanted,
): Promise<{ data: FileEntry[]; next: string | null }> {
  const { path, query, limit } = wanted;
  const folded = query === undefined ? undefined : fold(query);
  const deep = wanted.recursive || (query !== undefined && query !== '');
  const found: string[] = [];

  /** Collects what is in a folder after these segments; true when the page is full. */
  const visit = async (folder: string, after: string[]): Promise<boolean> => {
    const names = await namesIn(root, folder, folder === path);
    const [first, ...rest] = after;
    for (const entry of first === undefined ? names : names.filter(({ name }) => name >= first)) {
      assertHeard(wanted.signal);
      const at = folder === '' ? entry.name : `${folder}/${entry.name}`;
      if (entry.name !== first && (folded === undefined || fold(at).includes(folded))) {
        found.push(at);
        if (found.length > limit) return true;
      }
      if (deep && entry.isDirectory() && Buffer.byteLength(at) < maxPathBytes)
        if (await visit(at, entry.name === first ? rest : [])) return true;
    }
    return false;
  };

  await visit(path, wanted.after === null ? [] : wanted.after.slice(path === '' ? 0 : path.length + 1).split('/'));
  const shown = found.slice(0, limit);
  const data: FileEntry[] = [];
  for (const at of shown) {
    assertHeard(wanted.signal);
    const entry = await describe(root, etags, at);
    if (entry) data.push(entry);
  }
  return { data, next: found.length > limit ? shown.at(-1)! : null };
}

/** The names in a folder, in order, without git's own and ours, and without what is neither file, folder nor link. */
export async function namesIn(root: Root, path: string, must: boolean): Promise<Dirent[]> {
  let folder: ReturnType<typeof openFolder>;
  try {
    folder = openFolder(root, path);
  } catch (error) {
    // Below the folder that was asked for, what cannot be read or has just gone is simply not listed.
    if (must || !(error instanceof Fault) || error.code === 'unavailable') throw error;
    return [];
  }
  if (!folder) {
    if (must) throw new Fault('not_found', `There is no folder ${path}.`, { param: 'path' });
    return [];
  }
  try {
    const names = await readdir(folder.path, { withFileTypes: true });
    return names
      .filter((entry) => !isReserved(entry.name) && (entry.isFile() || entry.isDirectory() || entry.isSymbolicLink()))
      .sort((a, b) => compare(a.name, b.name));
  } finally {
    closeSync(folder.fd);
  }
}

/** An entry as the API shows it; undefined when it has gone, or has a name that is not UTF-8. */
async function describe(root: Root, etags: Etags, path: string): Promise<FileEntry | undefined> {
  const found = look(root, path);
  if (!found?.stat) return undefined;
  const { stat, fd } = found;
  try {
    const type = kindOf(stat);
    if (type === 'special') return undefined;
    const name = path.slice(path.lastIndexOf('/') + 1);
    const isFile = type === 'file';
    return {
      path,
      name,
      type,
      size_bytes: isFile ? Number(stat.size) : null,
      etag: fd === undefined ? null : (etags.find(stat) ?? (stat.size > maxHashed ? null : await etags.of(fd))),
      executable: isFile && (stat.mode & 0o100n) !== 0n,
      modified_at: iso(Math.min(latest, Math.max(0, Number(stat.mtimeMs)))),
      media_type: isFile ? mediaTypeOf(name) : null,
    };
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

/** The facts of an entry, and a descriptor of it when it is a file that may be read. */
function look(root: Root, path: string): { stat: BigIntStats; fd?: number } | undefined {
  try {
    return beneath(root, path, {}, ({ stat, path: at }) => {
      if (!stat?.isFile()) return stat && { stat };
      try {
        return { stat, fd: openSync(at, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK) };
      } catch {
        // Not ours to read, or just gone: shown as far as it is known.
        return { stat };
      }
    });
  } catch (error) {
    if (error instanceof Fault && error.code !== 'unavailable') return undefined;
    throw error;
  }
}
