import { spawnSync } from 'node:child_process';
import { closeSync, existsSync, fsyncSync, openSync } from 'node:fs';
import { TreeError } from './failure.ts';
import { type Bytes, toOs } from './name.ts';

/** From this number of files on, one sync of the whole file system is cheaper than one of each file. */
const many = 64;

const program =
  process.platform === 'linux' ? ['/usr/bin/sync', '/bin/sync'].find((path) => existsSync(path)) : undefined;

/** Whether so many files should be forced to the disk all at once, by `flushAll`, and not each for itself. */
export const isMany = (files: number): boolean => program !== undefined && files > many;

/** Forces all of the file system that holds `folder` to the disk (syncfs, which node has no call for). */
export function flushAll(folder: Bytes): void {
  const { status, error } = spawnSync(program!, ['-f', '--', Buffer.from(folder, 'latin1').toString()], {
    stdio: 'ignore',
    env: {},
  });
  if (status !== 0)
    throw new TreeError('unusable', 'The file system could not be forced to the disk.', { cause: error });
}

/** Forces one folder or file, given by its path, to the disk. */
export function flush(path: Bytes): void {
  const descriptor = openSync(toOs(path), 'r');
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
