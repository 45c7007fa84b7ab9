import { accessSync, constants, realpathSync, statSync } from 'node:fs';
import { delimiter, isAbsolute, join, relative, sep } from 'node:path';

/**
 * The absolute path of a program: as given, or in the first folder of `path` (a PATH) that has it. Relative entries of PATH are
 * passed over, and so is all that lies inside of `workspace`: what an agent wrote must not become what is started. Null when
 * there is none.
 */
export function findProgram(name: string, path: string, workspace?: string): string | null {
  const outside = (file: string): boolean => {
    if (workspace === undefined) return true;
    const roots = [workspace, real(workspace)];
    return [file, real(file)].every((one) => roots.every((root) => !isInside(one, root)));
  };
  const usable = (file: string): boolean => {
    try {
      accessSync(file, constants.X_OK);
      return statSync(file).isFile() && outside(file);
    } catch {
      return false;
    }
  };
  if (isAbsolute(name)) return usable(name) ? name : null;
  if (name.includes('/') || name === '') return null;
  for (const folder of path.split(delimiter)) {
    const file = join(folder, name);
    if (isAbsolute(folder) && usable(file)) return file;
  }
  return null;
}

const real = (path: string): string => {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
};

const isInside = (path: string, root: string): boolean => {
  const way = relative(root, path);
  return way === '' || (way !== '..' && !way.startsWith(`..${sep}`) && !isAbsolute(way));
};
