import type { Changes, FileChange } from '../api/runs.ts';

type Change = Pick<FileChange, 'path' | 'change'>;

/** No file changed. */
export const noChanges: Changes = { files: [], additions: null, deletions: null };

/** The changes since the beginning, given those up to now and what happened after. */
export function mergeChanges(sofar: Changes, later: Change[]): Changes {
  const files = new Map(sofar.files.map((file) => [file.path, file.change]));
  for (const { path, change } of later) {
    const before = files.get(path);
    if (before === 'added' && change === 'deleted') files.delete(path);
    else if (before === 'added') files.set(path, 'added');
    else if (before === 'deleted' && change === 'added') files.set(path, 'modified');
    else files.set(path, change);
  }
  return toChanges([...files].map(([path, change]) => ({ path, change })));
}

/** As the result shows them, by path. Line counts need the contents from before the run, and are unknown without. */
export const toChanges = (files: Change[]): Changes => ({
  files: files
    .map(({ path, change }) => ({ path, change, additions: null, deletions: null }))
    .sort((a, b) => (a.path < b.path ? -1 : 1)),
  additions: null,
  deletions: null,
});
