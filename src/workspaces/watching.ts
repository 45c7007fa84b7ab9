import type { WorkspaceWatch, Writer } from '../api/workspaces.ts';
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import { createLoop } from '../base/loop.ts';
import { digest, Marks } from './marks.ts';
import { markAt, Overlooked } from './survey.ts';
import { Thread, ThreadEnded } from './thread.ts';

/** What watching needs of a workspace. */
export interface Place {
  path: string;
  status: string;
  writer: Writer | null;
  /** The tree's signature when it was last looked at, if nothing of ours has changed it since. */
  signature: string | null;
}

interface Needs {
  clock: Clock;
  log: Logger;
  /** Folders that checkpoints leave out: nobody counts what happens in them. */
  exclude: string[];
  find(id: string): Place | undefined;
  /** The tree was changed by somebody else than us: grows the revision, and keeps the new signature. */
  grown(id: string, signature: string): void;
  /** Keeps a tree's signature. */
  keep(id: string, signature: string): void;
}

/** Times in milliseconds, and entries of trees (files, links and folders). */
export const watchLimits = {
  /** A workspace is watched for so long after somebody last looked into it. */
  quiet: 600_000,
  /** A burst is over after so long without an event; what goes on for longer than `burst` counts meanwhile. */
  settle: 100,
  burst: 1_000,
  /** Events can be lost: a watched tree is walked after so long. */
  rescan: 300_000,
  /** A tree that is not watched is walked this often, and for no more than a twentieth of the time. */
  scan: 10_000,
  /** A larger tree is walked once in a while instead of watched, and so is one that would bring all together above `all`. */
  watched: 20_000,
  all: 40_000,
  /** A larger tree is not walked either. */
  scanned: 500_000,
  /** Workspaces at one time; the one that was used least recently makes place. */
  workspaces: 16,
  /** Paths that are looked at in one turn; where more were touched, the tree is walked. */
  paths: 1_000,
};

/** A workspace in use. */
interface Eye {
  id: string;
  path: string;
  /** When it was last used. */
  used: number;
  view: WorkspaceWatch;
  entries: number;
  /** What is known of its tree; null before the first walk. */
  marks: Marks | null;
  /** Where something may have changed; null: anywhere, so it is to be walked. */
  touched: Set<string> | null;
  /** What the next walk finds was us, and has been counted. */
  isCounted: boolean;
  /** Marks that were set while a walk went on, which may have come too early or too late to see them. */
  meanwhile: Map<number, number> | null;
  /** Marks of a long list of changed paths are being set. */
  marking: Promise<void> | null;
  kept: string | null;
  burstSince: number | null;
  due: number | null;
}

const starting = (): WorkspaceWatch => ({ mode: 'starting', reason: null });
const off: WorkspaceWatch = { mode: 'off', reason: 'Nobody has looked into it lately.' };

/** Why a tree is not watched, for a person. */
const refusals: Record<string, string> = {
  ENOSPC: 'The system has no more inotify watches to give (fs.inotify.max_user_watches).',
  EMFILE: 'The system has no more inotify instances or descriptors to give (fs.inotify.max_user_instances, ulimit -n).',
};

/**
 * Watches the trees of workspaces in use: of those into which somebody looked through the API within the last ten minutes.
 * Events are only hints: what counts is that a tree differs from what is known of it. While a run, a restore or a sync has
 * the writer's place nothing is counted here, as they say themselves what they change; each change of ours is marked as known
 * in the moment in which it is counted, so that only what is left over counts as somebody else's. What is known of a tree is
 * kept as a signature with the workspace, so that what happens while nobody watches counts when somebody looks again.
 */
export function createWatching({ clock, log, exclude, find, grown, keep }: Needs) {
  const limits = watchLimits;
  const eyes = new Map<string, Eye>();
  const overlooked = new Overlooked(exclude);

  const thread = new Thread({
    touched(id, paths) {
      const eye = eyes.get(id);
      if (!eye) return;
      for (const path of paths ?? []) eye.touched?.add(path);
      if (!paths || (eye.touched?.size ?? 0) > limits.paths) eye.touched = null;
      soon(eye);
    },
    failed(id, code) {
      const eye = eyes.get(id);
      if (eye) scanInstead(eye, refusals[code] ?? `The system refused to watch it (${code}).`);
    },
    lost(error) {
      log.error({ err: error }, 'The thread that watches workspaces has ended, and will be started again.');
      for (const eye of eyes.values()) startOver(eye, clock.now() + limits.burst);
    },
  });

  const soon = (eye: Eye): void => {
    const now = clock.now();
    eye.burstSince ??= now;
    eye.due = Math.min(now + limits.settle, eye.burstSince + limits.burst);
    loop.wake();
  };

  const startOver = (eye: Eye, due: number): void => {
    Object.assign(eye, { view: starting(), touched: null, due });
    loop.wake();
  };

  const scanInstead = (eye: Eye, reason: string): void => {
    if (eye.view.mode === 'watching') thread.unwatch(eye.id);
    Object.assign(eye, { view: { mode: 'scanning', reason }, touched: null, due: clock.now() });
    log.info({ workspace: eye.id, reason }, 'A workspace is scanned instead of watched.');
    loop.wake();
  };

  const drop = (eye: Eye): void => {
    eyes.delete(eye.id);
    thread.unwatch(eye.id);
    if (eyes.size === 0) void thread.end();
  };

  const note = (eye: Eye, marks: Marks, changed: boolean): void => {
    const { signature } = marks;
    if (changed) grown(eye.id, signature);
    else if (signature !== eye.kept) keep(eye.id, signature);
    eye.kept = signature;
  };

  /** Looks at the places that were touched. */
  const compare = (eye: Eye, marks: Marks, touched: Set<string>): void => {
    let changed = false;
    for (const path of touched)
      if (path !== '' && !overlooked.covers(path)) changed = marks.set(digest(path), markAt(eye.path, path)) || changed;
    note(eye, marks, changed);
    eye.entries = marks.count;
    if (eye.entries > limits.watched) scanInstead(eye, tooMany());
    else eye.due = clock.now() + limits.rescan;
  };

  const tooMany = (): string =>
    `It has more than ${limits.watched.toLocaleString('en')} files and folders, so it is looked through every few seconds.`;

  /** Walks the whole tree. Answers whether it is known now. */
  const walk = async (eye: Eye, { signature }: Place): Promise<boolean> => {
    const isCounted = eye.isCounted;
    const meanwhile = new Map<number, number>();
    Object.assign(eye, { isCounted: false, touched: new Set(), meanwhile });
    const since = clock.monotonic();
    const found = await thread.survey({ id: eye.id, root: eye.path, exclude, most: limits.scanned });
    eye.meanwhile = null;
    if (eyes.get(eye.id) !== eye) return false;
    // Somebody has begun to write, or so much was touched that this is no picture of one moment.
    if (eye.touched === null || find(eye.id)?.writer) {
      Object.assign(eye, { isCounted: eye.isCounted || isCounted, touched: null });
      soon(eye);
      return false;
    }
    if (found.kind === 'too_many') {
      const reason = `It has more than ${limits.scanned.toLocaleString('en')} files and folders.`;
      Object.assign(eye, { view: { mode: 'off', reason }, marks: null, due: null });
      return false;
    }
    const marks = new Marks(found.kind === 'whole' ? found.tables : undefined);
    for (const [key, value] of meanwhile) marks.set(key, value);
    const before = eye.marks ? eye.marks.signature : signature;
    const differs = before !== null && before !== marks.signature;
    Object.assign(eye, { marks, entries: marks.count });
    note(eye, marks, differs && !isCounted);
    if (found.kind === 'unreadable') {
      if (eye.view.mode === 'watching') thread.unwatch(eye.id);
      eye.view = { mode: 'scanning', reason: `Its directory cannot be read (${found.code}).` };
    } else if (eye.view.reason?.startsWith('Its directory')) eye.view = starting();
    const pause = eye.view.mode === 'watching' ? limits.rescan : limits.scan;
    eye.due = clock.now() + Math.max(pause, (clock.monotonic() - since) * 20);
    return found.kind === 'whole';
  };

  /** Decides how a tree is followed that has been walked for the first time. */
  const settleOn = async (eye: Eye): Promise<void> => {
    if (eye.entries > limits.watched) return scanInstead(eye, tooMany());
    const all = [...eyes.values()].filter(({ view }) => view.mode === 'watching');
    if (all.reduce((sum, { entries }) => sum + entries, eye.entries) > limits.all)
      return scanInstead(
        eye,
        'Other workspaces in use have many files, too, so it is looked through every few seconds.',
      );
    const code = await thread.watch({ id: eye.id, root: eye.path, exclude });
    if (eyes.get(eye.id) !== eye) return thread.unwatch(eye.id);
    if (code !== null) return scanInstead(eye, refusals[code] ?? `The system refused to watch it (${code}).`);
    // What happened between the walk and the first watch is found by a second walk.
    Object.assign(eye, { view: { mode: 'watching', reason: null }, touched: null, due: clock.now() });
  };

  const look = async (eye: Eye, place: Place): Promise<void> => {
    Object.assign(eye, { due: null, burstSince: null });
    for (let marking = eye.marking; marking; marking = eye.marking) {
      await marking;
      if (eye.marking === marking) eye.marking = null;
    }
    const { marks, touched } = eye;
    if (marks && touched && eye.view.mode === 'watching' && touched.size > 0) {
      eye.touched = new Set();
      return compare(eye, marks, touched);
    }
    if ((await walk(eye, place)) && eye.view.mode === 'starting') await settleOn(eye);
  };

  /** Does what is due of one workspace; answers when more is. */
  const turn = async (eye: Eye): Promise<number> => {
    const isCurrent = () => eyes.get(eye.id) === eye;
    const place = find(eye.id);
    const isIdle = clock.now() - eye.used >= limits.quiet && place?.writer?.kind !== 'run';
    if (!place || isIdle || !['ready', 'restoring'].includes(place.status)) drop(eye);
    // Who writes says what changes; `released` comes afterwards.
    const isFree = () => isCurrent() && !find(eye.id)?.writer;
    try {
      while (isFree() && eye.due !== null && eye.due <= clock.now()) await look(eye, find(eye.id)!);
    } catch (error) {
      if (!(error instanceof ThreadEnded)) throw error;
    }
    if (!isCurrent()) return Infinity;
    const quiet = eye.used + limits.quiet;
    if (isFree()) return Math.min(eye.due ?? Infinity, quiet);
    // A run's end wakes us.
    return quiet > clock.now() ? quiet : Infinity;
  };

  const loop = createLoop({
    name: 'watching',
    clock,
    log,
    async step() {
      let next = Infinity;
      for (const eye of eyes.values()) next = Math.min(next, await turn(eye));
      return next === Infinity ? null : Math.max(0, next - clock.now());
    },
  });

  const mark = (eye: Eye, path: string): void => {
    const [key, value] = [digest(path), markAt(eye.path, path)];
    eye.marks?.set(key, value);
    eye.meanwhile?.set(key, value);
  };

  const markAll = async (eye: Eye, paths: string[], before: Promise<void> | null): Promise<void> => {
    await before;
    for (const [at, path] of paths.entries()) {
      if (at % limits.paths === 0) await new Promise(setImmediate);
      mark(eye, path);
    }
  };

  /** Paths with the folders on the way to them, each once, without what is overlooked. */
  const withFolders = (paths: readonly string[]): string[] => {
    const all = new Set<string>();
    for (const path of paths) {
      if (overlooked.covers(path)) continue;
      for (let at = path; at !== '' && !all.has(at); at = at.slice(0, Math.max(at.lastIndexOf('/'), 0))) all.add(at);
    }
    return [...all];
  };

  return {
    loop: {
      ...loop,
      async stop() {
        await Promise.all([loop.stop(), thread.end()]);
      },
    },

    /** How a workspace's tree is followed at the moment. */
    viewOf: (id: string): WorkspaceWatch => eyes.get(id)?.view ?? off,

    /** Somebody looks into a workspace: from now on its tree is followed, for a while. */
    use(id: string): void {
      const known = eyes.get(id);
      if (known) {
        known.used = clock.now();
        return;
      }
      const place = find(id);
      if (place?.status !== 'ready') return;
      if (eyes.size >= limits.workspaces) {
        const [oldest] = [...eyes.values()].toSorted((one, other) => one.used - other.used);
        if (oldest) drop(oldest);
      }
      const now = clock.now();
      eyes.set(id, {
        id,
        path: place.path,
        used: now,
        view: starting(),
        entries: 0,
        marks: null,
        touched: null,
        isCounted: false,
        meanwhile: null,
        marking: null,
        kept: null,
        burstSince: null,
        due: now,
      });
      loop.wake();
    },

    /**
     * What was changed by us has been counted: call it as soon as that is committed, with the paths from the root (files,
     * links, folders, also such that are gone), or with none when it may have been anything.
     */
    counted(id: string, paths?: readonly string[]): void {
      const eye = eyes.get(id);
      if (!eye) return;
      eye.kept = null;
      if (!paths) Object.assign(eye, { isCounted: true, touched: null });
      else {
        const all = withFolders(paths);
        for (const path of all.splice(0, limits.paths)) mark(eye, path);
        if (all.length > 0) {
          eye.marking = markAll(eye, all, eye.marking);
        }
      }
      soon(eye);
    },

    /** The writer's place is free again: what was touched meanwhile is looked at. */
    released(id: string): void {
      const eye = eyes.get(id);
      if (eye) soon(eye);
    },
  };
}
