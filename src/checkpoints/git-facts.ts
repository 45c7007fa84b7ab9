import { isUtf8 } from 'node:buffer';
import { closeSync, constants, fstatSync, lstatSync, openSync, readlinkSync, readSync } from 'node:fs';
import { join, resolve } from 'node:path';

/** Where a repository stood: its commit (null before the first) and its branch (null when HEAD is detached). */
export interface GitFacts {
  head: string | null;
  branch: string | null;
}

/** A file with more bytes is not what git writes: HEAD, a loose ref, a file that points elsewhere. */
const maxSmall = 4096;
/** The same of packed-refs; some repositories have a hundred thousand branches and tags. */
const maxPacked = 16_777_216;
/** Refs that name refs are followed so far, as git does. */
const maxDepth = 5;

const objectId = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;
/** What git allows in the name of a ref, as far as it matters for a name that is shown and put in a path. */
// oxlint-disable-next-line no-control-regex -- control characters are meant
const refName = /^refs\/(?!.*(?:\/\/|\.\.|\/\.|@\{|\.lock(?:\/|$)))[^\x00-\x20\x7f~^:?*[\\]{1,1000}$/;

/**
 * HEAD and branch of the repository whose work tree is just this folder; null when it is none. Reads git's files alone: nothing of
 * the repository is run, and what an agent wrote there can at most make this null.
 */
export function readGitFacts(folder: string): GitFacts | null {
  try {
    const own = gitFolder(folder);
    return own === null ? null : factsOf(own);
  } catch {
    // Not readable, or not what git writes: there is nothing to say.
    return null;
  }
}

/** `.git`, or where a file of that name leads: in a linked work tree and in a submodule. */
function gitFolder(folder: string): string | null {
  const path = join(folder, '.git');
  const stat = lstatSync(path, { throwIfNoEntry: false });
  if (!stat) return null;
  if (!stat.isFile()) return path;
  const [, to] = /^gitdir: ([^\0\n]+)\n*$/.exec(readText(path, maxSmall)) ?? [];
  return to === undefined ? null : resolve(folder, to);
}

function factsOf(own: string): GitFacts | null {
  const link = readLink(join(own, 'HEAD'));
  const head = link === null ? readText(join(own, 'HEAD'), maxSmall).trim() : `ref: ${link}`;
  if (objectId.test(head)) return { head, branch: null };
  const name = /^ref:\s*(\S+)$/.exec(head)?.[1];
  // A repository that keeps its refs in one table says so here; the table is nothing to read by the way.
  if (name === undefined || !refName.test(name) || name === 'refs/heads/.invalid') return null;
  return { head: refOf(own, name, 0), branch: name.startsWith('refs/heads/') ? name.slice(11) : null };
}

/** The commit of a ref: its own file, else its line among the packed ones; null for a branch without commits. */
function refOf(own: string, name: string, depth: number): string | null {
  const common = resolve(own, tryText(join(own, 'commondir'), maxSmall)?.trim() ?? '.');
  const text = (tryText(join(own, name), maxSmall) ?? tryText(join(common, name), maxSmall))?.trim();
  if (text !== undefined) {
    if (objectId.test(text)) return text;
    const next = /^ref:\s*(\S+)$/.exec(text)?.[1];
    return next !== undefined && depth < maxDepth && refName.test(next) ? refOf(own, next, depth + 1) : null;
  }
  const packed = `\n${tryText(join(common, 'packed-refs'), maxPacked) ?? ''}`;
  const at = packed.indexOf(` ${name}\n`);
  const id = packed.slice(packed.lastIndexOf('\n', at) + 1, Math.max(0, at));
  return objectId.test(id) ? id : null;
}

function readLink(path: string): string | null {
  return lstatSync(path).isSymbolicLink() ? readlinkSync(path) : null;
}

function tryText(path: string, max: number): string | undefined {
  try {
    return readText(path, max);
  } catch {
    return undefined;
  }
}

/** A plain file of at most so many bytes, which must be text. A pipe that stands in its place is not waited for. */
function readText(path: string, max: number): string {
  const descriptor = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const stat = fstatSync(descriptor);
    if (!stat.isFile() || stat.size > max) throw new Error('This is no file of git’s.');
    const bytes = Buffer.alloc(stat.size);
    let size = 0;
    for (let read = -1; read !== 0 && size < bytes.length; size += read)
      read = readSync(descriptor, bytes, size, bytes.length - size, size);
    if (!isUtf8(bytes.subarray(0, size))) throw new Error('This is no text.');
    return bytes.toString('utf8', 0, size);
  } finally {
    closeSync(descriptor);
  }
}
