import { relative } from 'node:path';
import { parentPort } from 'node:worker_threads';
import { type FSWatcher, watch } from 'chokidar';
import { Overlooked, type Survey, survey } from './survey.ts';

/** What the thread is asked for. */
export type Order =
  | { kind: 'survey'; id: string; root: string; exclude: string[]; most: number }
  | { kind: 'watch'; id: string; root: string; exclude: string[] }
  | { kind: 'unwatch'; id: string };

/** What the thread says. */
export type Notice =
  | { kind: 'surveyed'; id: string; survey: Survey }
  | { kind: 'ready'; id: string }
  /** Something may have changed at these places; null: anywhere. */
  | { kind: 'touched'; id: string; paths: string[] | null }
  /** The tree cannot be watched, or not any more. */
  | { kind: 'failed'; id: string; code: string };

/** More places than this are said as "anywhere". */
const mostPaths = 2_000;

/** What the system says when it has no more watches to give; ENOSPC is no full disk here. */
const exhausted = new Set(['ENOSPC', 'EMFILE', 'ENFILE', 'ENOMEM']);

const port = parentPort!;
const watchers = new Map<string, FSWatcher>();
const touched = new Map<string, Set<string> | null>();

const say = (notice: Notice, transfer: readonly ArrayBuffer[] = []): void => port.postMessage(notice, transfer);

const unwatch = (id: string): void => {
  void watchers.get(id)?.close();
  watchers.delete(id);
  touched.delete(id);
};

function touch(id: string, path: string): void {
  if (touched.size === 0)
    setImmediate(() => {
      for (const [one, paths] of touched) say({ kind: 'touched', id: one, paths: paths && [...paths] });
      touched.clear();
    });
  const paths = touched.has(id) ? touched.get(id)! : new Set<string>();
  paths?.add(path);
  touched.set(id, paths && paths.size > mostPaths ? null : paths);
}

function begin(id: string, root: string, exclude: string[]): void {
  unwatch(id);
  const overlooked = new Overlooked(exclude);
  const watcher = watch(root, {
    ignoreInitial: true,
    followSymlinks: false,
    atomic: false,
    ignored(path, stat) {
      const at = relative(root, path);
      const cut = at.lastIndexOf('/');
      return (
        at !== '' && overlooked.has(at.slice(0, Math.max(cut, 0)), at.slice(cut + 1), stat?.isDirectory() ?? false)
      );
    },
  });
  watchers.set(id, watcher);
  const isCurrent = () => watchers.get(id) === watcher;
  watcher.on('ready', () => isCurrent() && say({ kind: 'ready', id }));
  watcher.on('all', (_event, path) => isCurrent() && touch(id, relative(root, path)));
  watcher.on('error', (error) => {
    const { code = 'EIO' } = error as NodeJS.ErrnoException;
    // A folder that cannot be read is one that nothing is seen of; it is looked at again with the next survey.
    if (!isCurrent() || !exhausted.has(code)) return;
    unwatch(id);
    say({ kind: 'failed', id, code });
  });
}

port.on('message', (order: Order) => {
  if (order.kind === 'unwatch') return unwatch(order.id);
  const { id, root, exclude } = order;
  if (order.kind === 'watch') return begin(id, root, exclude);
  const found = survey(root, new Overlooked(exclude), order.most);
  const transfer = found.kind === 'whole' ? [found.tables.keys.buffer, found.tables.values.buffer] : [];
  say({ kind: 'surveyed', id, survey: found }, transfer);
});
