import { closeSync, constants, openSync } from 'node:fs';
import { join } from 'node:path';
import { platform } from 'node:process';
import { runFiles } from './protocol.ts';

/** Where to connect to a runner. Call `release` when connected, or when that failed. */
export interface SocketAddress {
  path: string;
  release(): void;
}

/** Bytes a socket's path may have: 108 on Linux and 104 on macOS, with the final zero. */
const longest = platform === 'linux' ? 107 : 103;

/**
 * The address of a socket in a run's folder (absolute path), its control socket unless another is named. Paths longer than the system allows for sockets are
 * reached through a descriptor of the folder, on Linux; elsewhere ENAMETOOLONG is thrown. Throws ENOENT when there is no folder.
 */
export function socketAddress(folder: string, name: string = runFiles.socket): SocketAddress {
  const path = join(folder, name);
  if (Buffer.byteLength(path) <= longest) return { path, release: () => {} };
  if (platform !== 'linux') {
    throw Object.assign(new Error(`The path ${path} is too long for a socket.`), { code: 'ENAMETOOLONG' });
  }
  let directory: number | null = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY);
  return {
    path: `/proc/self/fd/${directory}/${name}`,
    release() {
      if (directory !== null) closeSync(directory);
      directory = null;
    },
  };
}
