import {
  chmodSync,
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  renameSync,
  rmdirSync,
  unlinkSync,
} from 'node:fs';
import { Beneath } from './beneath.ts';
import { codeOf, TreeError } from './failure.ts';
import { flush, flushAll, isMany } from './flush.ts';
import { type Bytes, split, toOs, toText } from './name.ts';
import type { Steps } from './steps.ts';
import { stagedAt } from './write.ts';

const linux = process.platform === 'linux';
const O_PATH = linux ? 0o10000000 : 0;
/** How the system says that a folder cannot be unlinked. */
const isFolder = linux ? 'EISDIR' : 'EPERM';

/** Does something and takes these failures for done. */
function unless(codes: readonly string[], act: () => void): void {
  try {
    act();
  } catch (error) {
    if (!codes.includes(codeOf(error) ?? '')) throw error;
  }
}

/** Does something in a folder; where the folder is gone there is nothing left to do. */
function unlessGone(act: () => void): void {
  try {
    act();
  } catch (error) {
    if (!(error instanceof TreeError && codeOf(error.cause) === 'ENOENT')) throw error;
  }
}

/**
 * Carries staged steps out, and does so again after a kill anywhere: what was done already is seen by what is there. Nothing
 * outside `root` is touched, also when folders are replaced by links meanwhile: then it throws TreeError `changed`.
 */
export function apply(root: Bytes, staging: Bytes, steps: Steps): void {
  using beneath = new Beneath(root);
  using staged = new Beneath(staging);
  const touched = new Set<Bytes>();
  const at = (path: Bytes): string | Buffer => {
    const [folder, name] = split(path);
    touched.add(folder);
    return toOs(beneath.folder(folder) + name);
  };

  for (const path of steps.opened) unlessGone(() => setMode(beneath, path, null));
  for (const [step, path] of steps.displaced.entries())
    unless(['ENOENT', 'ENOTDIR'], () => displace(at(path), `${staged.folder('displaced')}${step}`));
  for (const { path, folder } of steps.removed) {
    // Above a folder that is gone nothing is left to remove; what came in meanwhile keeps its folder.
    unlessGone(() => {
      if (folder) unless(['ENOENT', 'ENOTDIR', 'ENOTEMPTY', 'EEXIST'], () => rmdirSync(at(path)));
      else unless(['ENOENT', isFolder], () => unlinkSync(at(path)));
    });
  }
  beneath.forget();
  for (const path of steps.made) unless(['EEXIST'], () => mkdirSync(at(path), 0o700));
  for (const [step, { path }] of steps.placed.entries()) {
    const [folder, name] = stagedAt(step);
    // It is renamed when it is no longer in the staging folder.
    const from = toOs(staged.folder(folder) + name);
    const to = at(path);
    unless(['ENOENT'], () => renameSync(from, to));
    if (!lstatSync(to, { throwIfNoEntry: false }))
      throw new TreeError('changed', `${toText(path)} was taken away.`, { path: toText(path) });
  }
  for (const { path, mode, folder } of steps.modes) {
    setMode(beneath, path, mode);
    touched.add(folder ? path : split(path)[0]);
  }
  force(root, beneath, [...touched]);
}

/** Moves a folder away; what is no folder is the new content already. */
function displace(from: string | Buffer, to: string): void {
  closeSync(openSync(from, O_PATH | constants.O_DIRECTORY | constants.O_NOFOLLOW));
  renameSync(from, to);
}

/** Sets permissions by a descriptor, as a name could have become a link; null adds the owner's right to write and enter. */
function setMode(beneath: Beneath, path: Bytes, mode: number | null): void {
  const [folder, name] = split(path);
  const to = path === '' ? beneath.folder('') : beneath.folder(folder) + name;
  let descriptor: number;
  try {
    descriptor = openSync(toOs(to), (O_PATH || constants.O_RDONLY) | constants.O_NOFOLLOW);
  } catch (error) {
    // A folder that was opened and then removed by the steps, before they were begun again.
    if (mode === null && codeOf(error) === 'ENOENT') return;
    throw error;
  }
  try {
    const stat = fstatSync(descriptor);
    if (mode === null && !stat.isDirectory()) return;
    if (stat.isSymbolicLink()) {
      throw new TreeError('changed', `${toText(path)} became a link.`, { path: toText(path) });
    }
    const wanted = mode ?? (stat.mode & 0o7777) | 0o300;
    if ((stat.mode & 0o7777) !== wanted) chmodSync(O_PATH ? `/proc/self/fd/${descriptor}` : toOs(to), wanted);
  } finally {
    closeSync(descriptor);
  }
}

function force(root: Bytes, beneath: Beneath, folders: readonly Bytes[]): void {
  if (isMany(folders.length)) return flushAll(root);
  for (const folder of folders) {
    try {
      flush(beneath.folder(folder));
    } catch (error) {
      // One that may not be read cannot be forced by itself; one that was removed by the steps has its parent in the list.
      if (codeOf(error) === 'EACCES') return flushAll(root);
      if (!(error instanceof TreeError)) throw error;
    }
  }
}
