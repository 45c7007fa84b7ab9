import { sep } from 'node:path';

/** One thing of the box's file system. Paths are absolute and the same inside and outside, unless `from` says otherwise. */
export type Mount =
  | { kind: 'read' | 'write'; path: string; from?: string }
  | { kind: 'empty'; path: string; from?: undefined }
  | { kind: 'link'; path: string; to: string; from?: undefined };

/** What a sandboxed program is to find around itself. Nothing else is there. */
export interface Box {
  mounts: readonly Mount[];
  /** Where the program starts, absolute. */
  cwd: string;
  command: readonly string[];
}

const depth = (path: string): number => path.split(sep).filter(Boolean).length;

/** Mounts so that what lies further inside comes later, and so counts. Of two of one path the later one counts. */
export function inOrder(mounts: readonly Mount[]): Mount[] {
  const byPath = new Map(mounts.map((mount) => [mount.path, mount]));
  return [...byPath.values()].toSorted((one, other) => depth(one.path) - depth(other.path));
}

const mountArguments = (mount: Mount): string[] => {
  switch (mount.kind) {
    case 'read':
      return ['--ro-bind', mount.from ?? mount.path, mount.path];
    case 'write':
      return ['--bind', mount.from ?? mount.path, mount.path];
    case 'empty':
      return ['--tmpfs', mount.path];
    case 'link':
      return ['--symlink', mount.to, mount.path];
  }
};

const walls =
  '--unshare-user --unshare-pid --unshare-net --unshare-ipc --unshare-uts --unshare-cgroup-try --cap-drop ALL --die-with-parent --new-session --hostname sandbox'.split(
    ' ',
  );

/**
 * The arguments of bubblewrap for a box: namespaces of its own for users, processes, network, messages and the machine's name;
 * no capability; it ends with its parent and has no terminal. The environment is that of bubblewrap's own process, which must
 * be made for the box: in the arguments every user of the machine could read it.
 */
export function bubblewrapArguments({ mounts, cwd, command }: Box): string[] {
  return [
    ...walls,
    '--proc',
    '/proc',
    '--dev',
    '/dev',
    ...inOrder(mounts).flatMap(mountArguments),
    '--remount-ro',
    '/',
    '--chdir',
    cwd,
    '--',
    ...command,
  ];
}
