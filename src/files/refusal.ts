import type { BigIntStats } from 'node:fs';
import { Fault } from '../api/error.ts';
import { invalidPath } from './grammar.ts';

/** What an entry is, in a word. */
export const kindOf = (stat: BigIntStats): 'file' | 'directory' | 'symlink' | 'special' =>
  stat.isFile() ? 'file' : stat.isDirectory() ? 'directory' : stat.isSymbolicLink() ? 'symlink' : 'special';

/** Throws `invalid_state` for what is no regular file: folders, devices, pipes, sockets. */
export function assertRegular(stat: BigIntStats, path: string): void {
  if (stat.isFile()) return;
  const kind = kindOf(stat);
  const what =
    kind === 'directory' ? 'a folder' : kind === 'symlink' ? 'a symbolic link' : 'neither a file nor a folder';
  throw new Fault('invalid_state', `${path} is ${what}; only regular files are read and written.`, {
    param: 'path',
    details: { state: kind },
  });
}

/** What the file system refused, in the contract's words; what is a Fault already, or unknown, stays what it is. */
export function faultOf(error: unknown, path: string): unknown {
  const { code } = error as NodeJS.ErrnoException;
  const refuse = (state: string, why: string) =>
    new Fault('invalid_state', `${path || 'The folder'} ${why}.`, { details: { state }, cause: error });
  switch (code) {
    case 'ENAMETOOLONG':
      return invalidPath(path, 'has a name that is too long for the file system', error);
    case 'EILSEQ':
    case 'EINVAL':
      return invalidPath(path, 'has a name that the file system does not take', error);
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
      return refuse('not_permitted', 'may not be touched by the user that the daemon runs as');
    case 'EISDIR':
      return refuse('directory', 'is a folder');
    case 'ENOTDIR':
      return refuse('file', 'leads through a file');
    case 'ENOENT':
    case 'ELOOP':
    case 'ENXIO':
      return refuse('changing', 'was changed while it was looked at');
    case 'ENOSPC':
    case 'EDQUOT':
      return new Fault(
        'insufficient_storage',
        'The disk is full. Nothing was changed; free some space and try again.',
        { cause: error },
      );
    case 'EMFILE':
    case 'ENFILE':
      return new Fault('unavailable', 'Too many files are open at the moment.', {
        headers: { 'retry-after': '1' },
        cause: error,
      });
    default:
      return error;
  }
}
