import {
  type BigIntStats,
  closeSync,
  constants,
  existsSync,
  fstatSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  readlinkSync,
  realpathSync,
} from 'node:fs';
import { join } from 'node:path';
import { Fault } from '../api/error.ts';
import { invalidPath, isReserved, segmentsOf } from './grammar.ts';
import { assertRegular, faultOf, kindOf } from './refusal.ts';

const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;
const maxLinks = 40;
/** How often a walk begins again because somebody renames things under its feet. */
const maxRestarts = 100;

/**
 * Whether an entry of an open folder can be named by the folder's descriptor. Where it cannot (macOS), entries are named by path,
 * and before and after each use every folder on the way is compared with the one that was opened: a swap in between is found out,
 * one that is made and taken back just in between is not.
 */
export const byDescriptor = existsSync('/proc/self/fd');

/** A tree to stay in. */
export interface Root {
  path: string;
  /** Folders that are not to be entered, wherever they turn up, as `dev:ino`. */
  closed?: ReadonlySet<string>;
  /** For tests: walk as on a machine without /proc. */
  byPath?: boolean;
}

/** An entry of a folder that is held open. It stays in that folder, whatever is renamed meanwhile. */
export interface Place {
  /** Descriptor and facts of the folder. */
  folder: number;
  folderStat: BigIntStats;
  /** `.` when the place is the folder itself. */
  name: string;
  /** Of the entry itself, if there is one; a link is not followed. */
  stat: BigIntStats | undefined;
  /** Names the entry for calls of node:fs as long as the folder is held. */
  path: string;
  /** Names another entry of the folder. */
  beside(name: string): string;
}

export interface Reach {
  /** Follow a link in the last place, if it stays inside. */
  follow?: boolean;
  /** Make the folders on the way. */
  make?: boolean;
  /** A file where a folder must be is `invalid_state`; otherwise the entry is simply not there. */
  strict?: boolean;
}

interface Held {
  fd: number;
  stat: BigIntStats;
  /** Where it was when it was opened. */
  path: string;
}

/** Something on the way was renamed since it was looked at. */
class Moved extends Error {}

/**
 * Walks from a root to an entry and hands it over; no other module goes along paths of a workspace. Each folder on the way is
 * opened by the one before, without following links. A link is read and followed only while its target stays inside the root:
 * `..` never leads above it, an absolute target must lie below its real path. Throws `invalid_path` for a path that leaves.
 * Undefined when a folder on the way is missing.
 */
export function beneath<T>(
  root: Root,
  path: string,
  { follow = false, make = false, strict = false }: Reach,
  use: (place: Place) => T,
): T | undefined {
  const segments = segmentsOf(path);
  for (let restart = 0; ; restart++) {
    const held: Held[] = [];
    try {
      const place = walk(root, path, [...segments], held, { follow, make, strict });
      return place && use(place);
    } catch (error) {
      if (!(error instanceof Moved)) throw faultOf(error, path);
      if (restart >= maxRestarts)
        throw new Fault('invalid_state', `The folders on the way to ${path} are being changed all the time.`, {
          details: { state: 'changing' },
        });
    } finally {
      for (const { fd } of held) closeSync(fd);
    }
  }
}

function walk(
  root: Root,
  path: string,
  rest: string[],
  held: Held[],
  { follow, make, strict }: Required<Reach>,
): Place | undefined {
  const direct = byDescriptor && !root.byPath;
  const named = (folder: Held, name: string) =>
    direct ? `/proc/self/fd/${folder.fd}/${name}` : join(folder.path, name);
  const hold = (at: string, where: string) => {
    const fd = openSync(at, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK);
    const stat = fstatSync(fd, { bigint: true });
    held.push({ fd, stat, path: where });
    if (root.closed?.has(`${stat.dev}:${stat.ino}`)) throw invalidPath(path, 'leads into a folder of agentctl’s own');
    if (!direct) for (const { path: at, stat } of held) assertSame(at, stat);
  };
  try {
    hold(root.path, root.path);
  } catch (cause) {
    if (!['ENOENT', 'ENOTDIR', 'ELOOP', 'EACCES'].includes((cause as NodeJS.ErrnoException).code ?? '')) throw cause;
    throw new Fault('invalid_state', 'The workspace’s folder is not there or cannot be entered.', {
      details: { state: 'missing' },
      cause,
    });
  }

  let links = 0;
  for (;;) {
    const top = held.at(-1)!;
    const name = rest.shift();
    if (name === undefined) {
      const at = direct ? `/proc/self/fd/${top.fd}` : top.path;
      return {
        folder: top.fd,
        folderStat: top.stat,
        name: '.',
        stat: top.stat,
        path: at,
        beside: (other) => named(top, other),
      };
    }
    if (name === '..') {
      if (held.length === 1) throw invalidPath(path, 'leaves the workspace by a symbolic link');
      closeSync(held.pop()!.fd);
      continue;
    }
    if (isReserved(name)) throw invalidPath(path, 'leads by a symbolic link into what is not part of the files');
    const at = named(top, name);
    const stat = lstatSync(at, { bigint: true, throwIfNoEntry: false });
    if (stat?.isSymbolicLink() && (follow || rest.length > 0)) {
      if (++links > maxLinks) throw invalidPath(path, `leads over more than ${maxLinks} symbolic links`);
      const target = readLink(at);
      if (target.startsWith('/')) while (held.length > 1) closeSync(held.pop()!.fd);
      rest.unshift(...stepsOf(target, () => inside(root, held[0]!, direct), path));
      continue;
    }
    if (rest.length === 0) {
      if (!direct) assertSame(top.path, top.stat);
      return { folder: top.fd, folderStat: top.stat, name, stat, path: at, beside: (other) => named(top, other) };
    }
    if (stat && !stat.isDirectory()) {
      if (!strict) return undefined;
      throw new Fault('invalid_state', `On the way to ${path} there is a file where a folder must be.`, {
        details: { state: 'file' },
      });
    }
    if (!stat) {
      if (!make) return undefined;
      ignoring('EEXIST', () => mkdirSync(at, { mode: Number(top.stat.mode & 0o777n) }));
      fsyncSync(top.fd);
    }
    orMoved(() => hold(at, join(top.path, name)));
  }
}

/** The segments of a link's target, seen from where the walk goes on. */
function stepsOf(target: string, roots: () => string[], path: string): string[] {
  const steps = (text: string) => text.split('/').filter((step) => step !== '' && step !== '.');
  if (!target.startsWith('/')) return steps(target);
  for (const root of roots()) {
    if (target === root || target.startsWith(`${root}/`)) return steps(target.slice(root.length));
  }
  throw invalidPath(path, 'leaves the workspace by a symbolic link');
}

/** How an absolute link may write the root. */
const inside = (root: Root, { fd }: Held, direct: boolean): string[] => [
  direct ? readlinkSync(`/proc/self/fd/${fd}`) : realpathSync(root.path),
];

/** The folder at this path is not the one that was opened there: only asked where descriptors do not name entries. */
function assertSame(path: string, { dev, ino }: BigIntStats): void {
  const now = lstatSync(path, { bigint: true, throwIfNoEntry: false });
  if (now?.dev !== dev || now.ino !== ino) throw new Moved();
}

const readLink = (at: string): string => orMoved(() => readlinkSync(at));

/** What was looked at a moment ago is another thing now. */
function orMoved<T>(call: () => T): T {
  try {
    return call();
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (['ENOENT', 'ENOTDIR', 'ELOOP', 'EINVAL'].includes(code)) throw new Moved();
    throw error;
  }
}

function ignoring(expected: string, call: () => void): void {
  try {
    call();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== expected) throw error;
  }
}

/** An open regular file. Whoever asks for it closes it. */
export interface OpenFile {
  fd: number;
  stat: BigIntStats;
  name: string;
}

/** Opens a regular file for reading; undefined when there is none. What is no regular file is `invalid_state`. */
export function openFile(root: Root, path: string): OpenFile | undefined {
  return beneath(root, path, { follow: true }, ({ name, stat, path: at }) => {
    if (!stat) return undefined;
    assertRegular(stat, path);
    const fd = orMoved(() => openSync(at, O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
    try {
      const opened = fstatSync(fd, { bigint: true });
      assertRegular(opened, path);
      if ((!byDescriptor || root.byPath) && (opened.dev !== stat.dev || opened.ino !== stat.ino)) throw new Moved();
      return { fd, stat: opened, name };
    } catch (error) {
      closeSync(fd);
      throw error;
    }
  });
}

/** Opens a folder for reading; undefined when there is none, `invalid_state` when it is a file. Whoever asks for it closes it. */
export function openFolder(root: Root, path: string): { fd: number; path: string } | undefined {
  return beneath(root, path, { follow: true }, ({ name, stat, path: at }) => {
    if (!stat) return undefined;
    if (!stat.isDirectory())
      throw new Fault('invalid_state', `${path} is not a folder.`, { param: 'path', details: { state: kindOf(stat) } });
    // A descriptor's own name under /proc is a link itself.
    const flags = O_RDONLY | O_DIRECTORY | O_NONBLOCK | (name === '.' ? 0 : O_NOFOLLOW);
    const fd = orMoved(() => openSync(at, flags));
    return { fd, path: byDescriptor && !root.byPath ? `/proc/self/fd/${fd}` : at };
  });
}
