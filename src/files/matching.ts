import { begin, type Glob, type Progress, step } from '../base/glob.ts';
import type { Root } from './beneath.ts';
import { namesIn } from './listing.ts';

const maxPathBytes = 4096;
/** Names that are looked at before a search is given up. */
const maxLooked = 1_000_000;

/** What was found, in ascending order of folders, and whether that is all. */
export interface Matches {
  paths: string[];
  /** How many more there were than were asked for; null when the search was given up before its end. */
  more: number | null;
  /** Texts of the globs that nothing matched. */
  unmatched: string[];
}

/**
 * The files and links beneath a root that globs name, at most `most` of them. Only folders in which something could match are
 * read, and links to folders are not entered. `**` does not stand for folders that `leavesOut` names.
 */
export async function matching(
  root: Root,
  globs: Glob[],
  { most, leavesOut = () => false }: { most: number; leavesOut?: (folder: string, name: string) => boolean },
): Promise<Matches> {
  const paths: string[] = [];
  const seen = new Set<Glob>();
  const texts = () => globs.filter((glob) => !seen.has(glob)).map(({ text }) => text);
  let [more, looked] = [0, 0];
  const folders: { path: string; at: Map<Glob, Progress> }[] = [
    { path: '', at: new Map(globs.map((glob) => [glob, begin(glob)])) },
  ];
  for (let folder; (folder = folders.pop());) {
    const { path, at } = folder;
    const below: typeof folders = [];
    for (const entry of await namesIn(root, path, path === '')) {
      if (++looked > maxLooked) return { paths, more: null, unmatched: texts() };
      const here = path === '' ? entry.name : `${path}/${entry.name}`;
      const next = new Map<Glob, Progress>();
      let isMatch = false;
      for (const [glob, progress] of at) {
        const found = step(glob, progress, entry.name, entry.isDirectory() && !leavesOut(path, entry.name));
        if (found.below.size > 0) next.set(glob, found.below);
        if (!found.matches || entry.isDirectory()) continue;
        isMatch = true;
        seen.add(glob);
      }
      if (isMatch && paths.length < most) paths.push(here);
      else if (isMatch) more += 1;
      if (entry.isDirectory() && next.size > 0 && Buffer.byteLength(here) < maxPathBytes)
        below.push({ path: here, at: next });
    }
    folders.push(...below.reverse());
  }
  return { paths, more, unmatched: texts() };
}
