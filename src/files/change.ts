import {
  chmodSync,
  closeSync,
  constants,
  copyFileSync,
  fsyncSync,
  linkSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
  unlinkSync,
} from 'node:fs';
import { join } from 'node:path';
import { matches, matchesWeakly, readTags } from '../api/etag.ts';
import { Fault } from '../api/error.ts';
import { crashPoint } from '../base/crash.ts';
import { beneath, openFile, type Place, type Root } from './beneath.ts';
import { type Etags, etagOfSha } from './etags.ts';
import { ownPrefix } from './grammar.ts';
import { assertRegular, kindOf } from './refusal.ts';

/** What is to become of one file. It is kept with its operation, so that it can be taken up again after a crash. */
export interface Change {
  workspace_id: string;
  path: string;
  /** The preconditions as they were sent. */
  if_match: string | null;
  if_none_match: string | null;
  /** The new bytes; null to delete the file. */
  wanted: {
    sha256: string;
    size_bytes: number;
    executable: boolean | null;
    staged: string;
    transfer_id: string | null;
  } | null;
  /** The Idempotency-Key of the request. */
  key: string;
}

/** A file as it is, for comparison. */
export interface Current {
  exists: boolean;
  /** Null when there is no file, or one that cannot be read: a link that leads nowhere. */
  etag: string | null;
  executable: boolean;
}

/** How files are changed: looked at, compared, replaced in one step. All of it is done at once, without giving way to others. */
export function createChanges({ etags, staging }: { etags: Etags; staging: string }) {
  const hashed = (root: Root, path: string): string | null => {
    const file = openFile(root, path);
    if (!file) return null;
    try {
      return etags.ofNow(file.fd);
    } finally {
      closeSync(file.fd);
    }
  };

  /** A delete removes a link itself; a write goes where the link leads. */
  const reachOf = ({ wanted }: Change) => (wanted ? { follow: true, strict: true } : {});

  const currentAt = (root: Root, { path, if_match, wanted }: Change, { stat }: Place): Current => {
    if (!stat) return { exists: false, etag: null, executable: false };
    if (stat.isSymbolicLink()) return { exists: true, etag: linked(root, path), executable: false };
    assertRegular(stat, path);
    // A large file that is replaced whatever it holds need not be read.
    const same = wanted !== null && BigInt(wanted.size_bytes) === stat.size;
    const needed = same || if_match?.trim() !== '*' || stat.size <= 26_214_400n;
    return { exists: true, etag: needed ? hashed(root, path) : '', executable: (stat.mode & 0o100n) !== 0n };
  };

  const linked = (root: Root, path: string): string | null => {
    try {
      return hashed(root, path);
    } catch (error) {
      if (error instanceof Fault && ['invalid_path', 'invalid_state'].includes(error.code)) return null;
      throw error;
    }
  };

  /** Throws `etag_mismatch` unless the preconditions hold. */
  const assertHolds = (change: Change, { exists, etag }: Current): void => {
    const wanted = readTags('If-Match', change.if_match ?? undefined);
    const unwanted = readTags('If-None-Match', change.if_none_match ?? undefined);
    const now = exists ? (etag ?? '') : null;
    if ((!wanted || matches(wanted, now)) && !(unwanted && matchesWeakly(unwanted, now))) return;
    const how = exists ? 'is another one than you expect' : 'does not exist';
    throw new Fault('etag_mismatch', `The file ${change.path} ${how}. Read it again and repeat with its ETag.`, {
      details: { current_etag: etag === '' ? null : etag },
    });
  };

  const current = (root: Root, change: Change): Current =>
    beneath(root, change.path, reachOf(change), (place) => currentAt(root, change, place)) ?? {
      exists: false,
      etag: null,
      executable: false,
    };

  return {
    assertHolds,
    current,

    /** Whether a file is as the change wants it. */
    isDone: ({ wanted }: Change, { exists, etag, executable }: Current): boolean =>
      wanted
        ? etag === etagOfSha(wanted.sha256) && (wanted.executable === null || wanted.executable === executable)
        : !exists,

    /** Checks once more, and puts the new bytes in place or takes the file away; durable when it returns. */
    apply(root: Root, change: Change, id: string): void {
      const { wanted, path } = change;
      const make = wanted !== null;
      beneath(root, path, { ...reachOf(change), make }, (place) => {
        assertHolds(change, currentAt(root, change, place));
        if (wanted) putInPlace(place, join(staging, wanted.staged), wanted.executable, id);
        else if (place.stat) unlinkSync(place.path);
        crashPoint('file', 'renamed');
        fsyncSync(place.folder);
      });
    },

    /** Takes away what a change that came to nothing may have left beside its target. */
    sweep(root: Root, change: Change, id: string): void {
      if (change.wanted)
        beneath(root, change.path, reachOf(change), (place) => rmSync(besides(place, id), { force: true }));
    },
  };
}
export type Changes = ReturnType<typeof createChanges>;

/** Gives a file its new bytes in one step: whoever reads it has the old ones or the new ones. */
function putInPlace(place: Place, staged: string, executable: boolean | null, id: string): void {
  const { stat, folderStat } = place;
  if (stat && kindOf(stat) !== 'file')
    throw new Fault('invalid_state', 'There is no regular file any more.', { details: { state: kindOf(stat) } });
  // A new file is for whom its folder is.
  const base = Number((stat?.mode ?? folderStat.mode & 0o666n) & 0o777n);
  const mode = executable === null ? base : executable ? base | ((base & 0o444) >> 2) : base & ~0o111;
  // Where a file is to be made, a link refuses to replace one that somebody made just now; a rename would not.
  const exclusive = !stat;
  if (statSync(staged).dev === Number(folderStat.dev)) {
    settleMode(staged, mode);
    crashPoint('file', 'before_rename');
    if (install(staged, place.path, exclusive)) return;
  }
  // On another file system the bytes are copied beside their target first.
  const beside = besides(place, id);
  rmSync(beside, { force: true });
  copyFileSync(staged, beside, constants.COPYFILE_EXCL);
  try {
    settleMode(beside, mode);
    crashPoint('file', 'before_rename');
    install(beside, place.path, exclusive);
  } finally {
    rmSync(beside, { force: true });
  }
  rmSync(staged, { force: true });
}

const besides = (place: Place, id: string): string => place.beside(ownPrefix + id);

/** Moves a file to its name; false when that is on another file system. */
function install(from: string, to: string, exclusive: boolean): boolean {
  try {
    if (exclusive && linkTo(from, to)) unlinkSync(from);
    else renameSync(from, to);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EXDEV') return false;
    throw error;
  }
}

/** Gives a file a second name; false where the file system knows no links. Throws `etag_mismatch` when the name is taken. */
function linkTo(from: string, to: string): boolean {
  try {
    linkSync(from, to);
    return true;
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST')
      throw new Fault(
        'etag_mismatch',
        'The file was made by somebody else just now. Read it and repeat with its ETag.',
        {
          details: { current_etag: null },
        },
      );
    if (['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK'].includes(code)) return false;
    throw error;
  }
}

/** Sets a mode so that it survives a power cut. */
function settleMode(path: string, mode: number): void {
  chmodSync(path, mode);
  const fd = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW);
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}
