import { existsSync, lstatSync, readlinkSync, realpathSync } from 'node:fs';
import { delimiter, dirname, isAbsolute, join, parse, sep } from 'node:path';
import type { RunSpec } from '../protocol.ts';
import { inOrder, type Mount } from './argv.ts';

/** What every program of a machine may need to run at all. */
const systemPaths = [
  '/usr',
  '/bin',
  '/sbin',
  '/lib',
  '/lib32',
  '/lib64',
  '/libx32',
  '/etc',
  '/opt',
  '/nix',
  '/gnu',
  '/snap',
  '/home/linuxbrew/.linuxbrew',
  '/var/lib/ca-certificates',
  '/run/current-system',
  '/run/systemd/resolve',
];

/** Below the home of a user: programs and what they are made of, and nothing else. */
const toolchains = [
  '.asdf',
  '.bun/bin',
  '.cargo/bin',
  '.deno/bin',
  '.fnm',
  '.local/bin',
  '.local/share/fnm',
  '.local/share/mise',
  '.local/share/pnpm',
  '.local/share/uv',
  '.nvm/versions',
  '.pyenv',
  '.rbenv',
  '.rustup/toolchains',
  '.rustup/settings.toml',
  '.sdkman/candidates',
  '.volta',
  'bin',
  'go/bin',
];

/** Whether `path` is `root` or lies below it; both absolute. */
export const isBelow = (path: string, root: string): boolean =>
  path === root || path.startsWith(root.endsWith(sep) ? root : root + sep);

const real = (path: string): string => {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
};

/** Whether a folder holds `home`, or everything. */
const isTooWide = (folder: string, home: string): boolean => folder === parse(folder).root || isBelow(home, folder);

/**
 * The folder with all that a program needs of its own: the outermost `node_modules` around it, or the package it is in, or the
 * folder it lies in. `path` is absolute; a link counts as what it leads to. Never `home` or anything above it: then the file
 * alone.
 */
export function installationOf(path: string, home: string): string {
  const file = real(path);
  const at = file.indexOf(`${sep}node_modules${sep}`);
  if (at >= 0) return file.slice(0, at + `${sep}node_modules`.length);
  for (let folder = dirname(file); !isTooWide(folder, home); folder = dirname(folder))
    if (existsSync(join(folder, 'package.json'))) return folder;
  return isTooWide(dirname(file), home) ? file : dirname(file);
}

/** The folder that a Node.js lies in with its npm, when it is one that brings its own (`bin/node` beside `lib/node_modules`). */
function nodeAround(folder: string): string[] {
  const prefix = dirname(folder);
  return existsSync(join(prefix, 'lib', 'node_modules', 'npm')) ? [prefix] : [];
}

/** Where programs come from: the folders of PATH and what lies around them, the harness itself, this very Node.js. */
function programs(spec: RunSpec, home: string): string[] {
  const path = (spec.env.PATH ?? '').split(delimiter).filter(isAbsolute);
  const named = spec.harness.command.filter((word) => isAbsolute(word) && existsSync(word));
  const found = [
    ...path,
    ...path.flatMap(nodeAround),
    ...toolchains.map((folder) => join(home, folder)),
    ...named.flatMap((file) => [file, installationOf(file, home)]),
    real(process.execPath),
  ];
  // Whatever PATH says: never everything, nor a home with all that is in it.
  return [...new Set(found)].filter((place) => [place, real(place)].every((one) => !isTooWide(one, home)));
}

/** A mount of something that may be a link, as most of `/bin`, `/lib` and `/sbin` are today; none when it is not there. */
function asItIs(path: string): Mount[] {
  try {
    if (lstatSync(path).isSymbolicLink()) return [{ kind: 'link', path, to: readlinkSync(path) }];
    return [{ kind: 'read', path }];
  } catch {
    return [];
  }
}

/** What a path leads to, to read, and where links lead there a link of its own name. */
function readable(path: string): Mount[] {
  const target = real(path);
  if (!existsSync(target)) return [];
  return [{ kind: 'read', path: target }, ...(target === path ? [] : [{ kind: 'link' as const, path, to: target }])];
}

/** The system of this machine, to read, and folders for what passes. */
export const systemMounts = (): Mount[] => [
  ...['/tmp', '/var/tmp', '/run'].map((path): Mount => ({ kind: 'empty', path })),
  ...systemPaths.flatMap(asItIs),
];

/** Without what is there anyway, since it lies in something that may be read. */
function needed(mounts: readonly Mount[]): Mount[] {
  const kept: Mount[] = [];
  for (const mount of inOrder(mounts)) {
    const around = kept.findLast(({ path }) => path !== mount.path && isBelow(mount.path, path));
    const isThere = around?.kind === 'read' || (around?.kind === 'write' && mount.kind === 'link');
    if ((mount.kind !== 'read' && mount.kind !== 'link') || mount.from !== undefined || !isThere) kept.push(mount);
  }
  return kept;
}

/**
 * All that a run may see, but for what is guarded inside its workspace: the system and the programs to read; the workspace, the
 * session's private folder and a `/tmp` of its own to write; `more` to read. `hidden` paths are empty where something visible would hold them.
 */
export function furnish(spec: RunSpec, hidden: readonly string[], more: readonly string[] = []): Mount[] {
  const home = spec.env.HOME ?? '/nonexistent';
  const workspace = spec.workspace.path;
  const shown: Mount[] = [
    ...systemMounts(),
    ...[...programs(spec, home), ...more].flatMap(readable),
    { kind: 'write', path: workspace },
  ];
  const masks = shown.flatMap((mount): Mount[] => {
    if (mount.kind === 'link' || mount.kind === 'empty') return [];
    const root = real(mount.path);
    // A workspace that is the home, or holds it, was chosen so.
    const secret = mount.path === workspace ? hidden : [...hidden, home];
    return secret
      .map(real)
      .filter((path) => path !== root && isBelow(path, root) && existsSync(path))
      .map((path) => ({ kind: 'empty', path: mount.path + path.slice(root.length) }));
  });
  const own = [spec.session_folder, spec.artifacts_folder].map((path): Mount => ({ kind: 'write', path }));
  return needed([...masks, ...shown, ...own]);
}
