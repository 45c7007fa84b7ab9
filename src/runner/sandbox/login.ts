import { copyFileSync, existsSync, lstatSync, mkdirSync, realpathSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { HarnessLogin } from '../../harness/row.ts';
import type { RunSpec } from '../protocol.ts';
import type { Mount } from './argv.ts';
import { isBelow } from './furnish.ts';

const isNewer = (path: string, other: string): boolean =>
  !existsSync(other) || statSync(path).mtimeMs > statSync(other).mtimeMs;

/**
 * The home of a harness that works with the user's own login: at the user's path, but a private folder of the session, with those
 * of the user's folders in it that hold the login. Of these it may only read what programs run commands from.
 */
export function loginMounts(spec: RunSpec, login: HarnessLogin): Mount[] {
  const home = spec.env.HOME;
  // A workspace that is the home, or holds it, was chosen so: then the home is there.
  if (home === undefined || isBelow(home, spec.workspace.path)) return [];
  const own = join(spec.session_folder, 'home');
  mkdirSync(own, { recursive: true, mode: 0o700 });
  for (const name of login.copy) {
    const [from, to] = [join(home, name), join(own, name)];
    if (!existsSync(from) || !isNewer(from, to)) continue;
    mkdirSync(dirname(to), { recursive: true, mode: 0o700 });
    copyFileSync(from, to);
  }
  const folders = login.write.map((name) => join(home, name)).filter((path) => existsSync(path));
  const guarded = login.guard
    .map((name) => join(home, name))
    .filter((path) => existsSync(path) && !lstatSync(path).isSymbolicLink());
  return [
    { kind: 'write', path: home, from: own },
    ...folders.map((path): Mount => ({ kind: 'write', path, from: realpathSync(path) })),
    ...guarded.map((path): Mount => ({ kind: 'read', path })),
  ];
}
