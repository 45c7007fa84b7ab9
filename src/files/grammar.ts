import { Fault } from '../api/error.ts';

/** Files of ours beside a target, while its new bytes are on their way to it. */
export const ownPrefix = '.agentctl-tmp-';

/** The folder of a restore on its way, at the root (src/trees). */
const restorePrefix = '.agentctl-restore-';

const maxBytes = 4096;

/** Why a path cannot be, as the contract has it. */
export const invalidPath = (path: string, why: string, cause?: unknown): Fault =>
  new Fault('invalid_path', `The path ${JSON.stringify(path.slice(0, 200))} ${why}.`, { param: 'path', cause });

/**
 * The segments of a path as the contract has it (section 4): relative, POSIX separators, at most 4096 bytes. The empty path,
 * which is the workspace itself, has none. Throws `invalid_path`.
 */
export function segmentsOf(path: string): string[] {
  if (path === '') return [];
  if (Buffer.byteLength(path) > maxBytes) throw invalidPath(path, `is longer than ${maxBytes} bytes`);
  if (!path.isWellFormed()) throw invalidPath(path, 'is not UTF-8');
  if (path.includes('\0')) throw invalidPath(path, 'holds a NUL');
  if (path.startsWith('/')) throw invalidPath(path, 'is absolute; give one that is relative to the workspace');
  const segments = path.split('/');
  for (const segment of segments) {
    if (segment === '') throw invalidPath(path, 'has an empty segment');
    if (segment === '.' || segment === '..') throw invalidPath(path, `has a segment "${segment}"`);
    if (isReserved(segment))
      throw invalidPath(path, 'leads into what is not part of the files: git’s own folder, or agentctl’s');
  }
  return segments;
}

/**
 * Whether a name stands for git's own folder on some file system, or for a file of ours. HFS+ ignores some code points and case,
 * NTFS ignores dots and spaces at the end and what follows a colon, takes a backslash for a separator, and knows `git~1`.
 */
export function isReserved(name: string): boolean {
  if (name.startsWith(ownPrefix) || name.startsWith(restorePrefix)) return true;
  // Most names are told apart by this alone.
  if (!/[.~\u0080-\uffff]/.test(name)) return false;
  return name.split('\\').some((part) => {
    const plain = part
      .replace(/\p{Default_Ignorable_Code_Point}/gu, '')
      .normalize('NFKC')
      .toUpperCase()
      .toLowerCase()
      .replace(/:.*$/s, '')
      .replace(/[. ]+$/, '');
    return plain === '.git' || /^git~\d+$/.test(plain);
  });
}
