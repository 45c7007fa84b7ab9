import { realpathSync } from 'node:fs';
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from 'node:path';
import { ToolError } from './tool.ts';

/** The path with all links of the part that exists resolved. */
function real(path: string): string {
  try {
    return realpathSync(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    const parent = dirname(path);
    return parent === path ? path : join(real(parent), basename(path));
  }
}

/**
 * The absolute path of what lies in the workspace: relative to its root, or absolute. Throws ToolError when it lies outside, also
 * by way of a link. A rule for a well-meaning model and no wall: the sandbox is that.
 */
export function placeOf(root: string, path: string): string {
  if (path === '' || path.includes('\0')) throw new ToolError('The path is empty or has a NUL in it.');
  const place = real(resolve(root, path));
  const way = relative(root, place);
  if (way === '..' || way.startsWith(`..${sep}`) || isAbsolute(way))
    throw new ToolError(`${path} lies outside of the workspace ${root}.`);
  return place;
}

/** The same for what is to be written: nothing inside of `.git`, where a file may be a command. */
export function writablePlaceOf(root: string, path: string): string {
  const place = placeOf(root, path);
  if (
    relative(root, place)
      .split(sep)
      .some((part) => part.toLowerCase() === '.git')
  )
    throw new ToolError('Files in .git are not written directly; use git commands.');
  return place;
}
