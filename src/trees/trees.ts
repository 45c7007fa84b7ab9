import { MessageChannel } from 'node:worker_threads';
import type { Collected } from './collect.ts';
import { Crew, type Hand } from './crew.ts';
import { TreeError } from './failure.ts';
import { Gate } from './gate.ts';
import type { Side } from './hunks.ts';
import { toBytes } from './name.ts';
import type { Change, Entry } from './reading.ts';
import type { ScanOrder, Snapshot, Walked } from './scan.ts';
import { shared, sharedSize } from './walk.ts';
import type { Weight } from './weigh.ts';

/** What a snapshot refuses before it stores anything: more files and links, or more bytes, than this. */
export interface Limits {
  max_files: number;
  max_bytes: number;
}

export interface SnapshotOptions {
  /** The file that keeps the workspace's stat cache. It may be lost at any time: then all is read again. */
  cache: string;
  /** Folders to leave out: names, or paths from the root when there is a slash in them. */
  exclude: string[];
  limits: Limits;
  /** Files read, and how many there are to read once that is known. Called a few times a second. */
  onProgress?(done: number, total: number | null): void;
  /** Called with the tree right before no `collect` that was called meanwhile could miss it: who needs it longer says so from here on. */
  onTree?(tree_hash: string): void;
  signal?: AbortSignal;
}

/** What a restore would do: paths, sorted; `steps` is for `stage`. */
export interface Plan {
  tree_hash: string;
  added: string[];
  changed: string[];
  removed: string[];
  steps: Uint8Array;
}

/** A store of whole file trees, by content. All methods may throw TreeError; paths are text as `name.ts` says. */
export interface Trees {
  /** Stores what is new below `root`, reads it back, and answers the tree. Once it resolves the tree is on the disk. */
  snapshot(root: string, options: SnapshotOptions): Promise<Snapshot>;
  /** Reads every object of a tree back and hashes it; `bad` are the hashes of what is damaged or missing. */
  verify(tree_hash: string): Promise<{ objects: number; bad: string[] }>;
  /** What a restore would do to `root`; with `paths` only to these and what is below them. */
  plan(
    root: string,
    tree_hash: string,
    options: { cache: string; exclude: string[]; paths: string[] | null },
  ): Promise<Plan>;
  /** Writes a plan's new contents into the folder `staging`, which is made anew and must be on the file system of `root`. */
  stage(root: string, plan: Plan, staging: string): Promise<void>;
  /** Carries a staged plan out. After a kill at any point it may be called again and leads to the same end. */
  apply(root: string, staging: string): Promise<void>;
  /** Writes a tree into a folder, which it makes. */
  materialize(tree_hash: string, folder: string): Promise<void>;
  /** A tree's entries, folders before what is in them, names by their bytes; after `after`, at most `limit` (1,000). */
  entries(tree_hash: string, options?: { after?: string; limit?: number }): Promise<Entry[]>;
  /** What differs between two trees, in the order of `entries`; null is the empty tree. */
  diff(from: string | null, to: string): Promise<Change[]>;
  /** How the lines of two files or links differ, as a unified diff has it from `@@` on; null when that cannot be said. */
  hunks(from: Side, to: Side): Promise<string[] | null>;
  /** The bytes of a file, by its hash. */
  open(object_hash: string): Promise<Buffer>;
  /**
   * Removes what none of these trees needs. Trees of snapshots that had not resolved when this was called are kept, too. Waits for
   * all else that goes on in this store.
   */
  collect(keep: string[], options: { dry_run: boolean }): Promise<Collected>;
  usage(): Promise<{ bytes: number; objects: number; packs: number }>;
  /** Waits for what goes on; nothing may be called after it. */
  close(): Promise<void>;
}

/** Waits until all have ended, also when one fails, which `stop` is told; then throws the first failure. */
async function all<T extends readonly Promise<unknown>[] | []>(
  promises: T,
  stop: () => void,
): Promise<{ [K in keyof T]: Awaited<T[K]> }> {
  const failures: unknown[] = [];
  const settled = promises.map((promise) =>
    promise.catch((error: unknown) => {
      failures.push(error);
      stop();
    }),
  );
  const values = await Promise.all(settled);
  const isCause = (error: unknown) => !(error instanceof TreeError && error.reason === 'stopped');
  if (failures.length > 0) throw failures.find(isCause) ?? failures[0];
  return values as { [K in keyof T]: Awaited<T[K]> };
}

const tooManyBytes = (limit: number, seen: number): TreeError =>
  new TreeError('too_large', `The tree has more than ${limit} bytes.`, {
    limit: { name: 'max_bytes', value: limit, seen },
  });

/** Threads of this process for all stores. */
const crew = new Crew(4);

/** Adds up what each of these paths takes on the disk, with all that is below it, in a thread of its own. Opens no file. */
export const weigh = (paths: string[]): Promise<Weight[]> =>
  crew.with((hand) => hand.do('weigh', { paths: paths.map(toBytes) }));
export type { Weight };

/** Ends the worker threads that are idle; they come back when they are needed. */
export const rest = (): Promise<void> => crew.end();

/** Opens the store in a folder, which is made when it is needed: one per project, as contents are shared inside a store. */
export function openTrees(folder: string, { workers = 2 }: { workers?: number } = {}): Trees {
  const gate = new Gate();
  let last: Promise<unknown> = Promise.resolve();
  /** Collects that wait or run: each gets the trees of snapshots that were not finished when it was called. */
  const collecting = new Set<Set<string>>();

  const read = <Result>(work: (hand: Hand) => Promise<Result>): Promise<Result> => gate.shared(() => crew.with(work));

  /** Does something with a second thread if one is free. */
  const together = async <Result>(work: (hands: Hand[]) => Promise<Result>): Promise<Result> =>
    gate.shared(() =>
      crew.with(async (hand) => {
        const second = workers > 1 ? crew.tryTake() : undefined;
        try {
          return await work(second ? [hand, second] : [hand]);
        } finally {
          if (second) crew.giveBack(second);
        }
      }),
    );

  /** Walks a tree and finds out what it is; `then` gets the first thread with the listing. */
  async function scan<Result>(
    order: Omit<ScanOrder, 'control' | 'store'>,
    { onProgress, signal }: Pick<SnapshotOptions, 'onProgress' | 'signal'>,
    then: (lead: Hand, outcome: Omit<Snapshot, 'stored_bytes' | 'hashed'>) => Promise<Result>,
  ): Promise<{ result: Result; hashed: number; stored: number }> {
    signal?.throwIfAborted();
    const known: { total: number | null } = { total: null };
    const control = new Int32Array(new SharedArrayBuffer(sharedSize * 4));
    const stop = () => void Atomics.store(control, shared.stop, 1);
    signal?.addEventListener('abort', stop);
    const timer =
      onProgress && setInterval(() => onProgress(Atomics.load(control, shared.done), known.total), 200).unref();
    const hands: Hand[] = [];
    try {
      return await crew.with(async (lead) => {
        hands.push(lead);
        try {
          const whole = { ...order, store: folder, control: control.buffer as SharedArrayBuffer };
          const survey = (await lead.do('survey', { order: whole, survey: null }))!;
          const second = survey.waiting.length > 0 && workers > 1 ? crew.tryTake() : undefined;
          if (second) hands.push(second);
          // A thread does its tasks one after another: nobody has to wait for the second one's beginning.
          const joined = second?.do('survey', { order: whole, survey });
          const walks = all(
            hands.map((hand) => hand.do('walk', null)),
            stop,
          );
          const [walked] = await all([walks, joined ?? Promise.resolve(null)], stop);
          const sum = (key: keyof Walked) => walked.reduce((before, one) => before + one[key], 0);
          if (sum('bytes') > order.maxBytes) throw tooManyBytes(order.maxBytes, sum('bytes'));
          const total = (known.total = sum('unread'));
          const { port1, port2 } = new MessageChannel();
          const mine = second ? port1 : null;
          // A pack of its own costs the second thread three syncs: for little the first one does it all.
          const areRead = total > 200 || sum('unreadBytes') > 4_194_304;
          const giving = second?.do('give', { port: port2, isRead: areRead }, [port2]);
          const composing = lead
            .do('read', null)
            .then(() => lead.do('compose', { port: mine, areRead, skipped: sum('skipped') }, mine ? [mine] : []));
          const [summary] = await all([composing, giving ?? Promise.resolve()], stop);
          port1.close();
          signal?.throwIfAborted();
          const { tree_hash, file_count, size_bytes } = summary as Awaited<typeof composing>;
          const files = sum('files');
          const result = await then(lead, {
            tree_hash,
            file_count,
            size_bytes,
            walked: files,
            reused: Math.max(0, files - total),
            skipped: sum('skipped'),
          });
          const done = await Promise.all(hands.map((hand) => hand.do('end', null)));
          onProgress?.(total, total);
          return {
            result,
            hashed: done.reduce((n, { hashed }) => n + hashed, 0),
            stored: done.reduce((n, { stored }) => n + stored, 0),
          };
        } finally {
          await Promise.all(hands.map((hand) => hand.do('end', null).catch(() => {})));
          const [, second] = hands;
          if (second) crew.giveBack(second);
        }
      });
    } catch (error) {
      signal?.throwIfAborted();
      throw error;
    } finally {
      clearInterval(timer);
      signal?.removeEventListener('abort', stop);
    }
  }

  const trees: Trees = {
    snapshot(root, { cache, exclude, limits, onTree, ...more }) {
      const order = {
        root: toBytes(root),
        cache,
        exclude,
        maxFiles: limits.max_files,
        maxBytes: limits.max_bytes,
        keeps: true,
      };
      const waiting = collecting;
      const snapshot = last.then(() =>
        gate.shared(async () => {
          const { result, hashed, stored } = await scan(order, more, async (lead, outcome) => {
            await lead.do('publish', null);
            return outcome;
          });
          for (const kept of waiting) kept.add(result.tree_hash);
          onTree?.(result.tree_hash);
          return { ...result, hashed, stored_bytes: stored };
        }),
      );
      last = snapshot.catch(() => {});
      return snapshot;
    },

    verify: (tree_hash) =>
      together(async (hands) => {
        const { objects, bad, parts } = await hands[0]!.do('objects', {
          store: folder,
          tree_hash,
          count: hands.length,
        });
        const more = await Promise.all(
          hands.map((hand, index) => hand.do('check', { store: folder, hashes: parts[index]! })),
        );
        return { objects, bad: [...bad, ...more.flat()].toSorted() };
      }),

    plan: (root, tree_hash, { cache, exclude, paths }) =>
      gate.shared(async () => {
        const order = { root: toBytes(root), cache, exclude, maxFiles: Infinity, maxBytes: Infinity, keeps: false };
        const { result } = await scan(order, {}, (lead) => lead.do('plan', { store: folder, tree_hash, paths }));
        const { added, changed, removed, steps } = result;
        return { tree_hash, added: added.toSorted(), changed: changed.toSorted(), removed: removed.toSorted(), steps };
      }),

    stage: (_root, { steps }, into) =>
      together(async (hands) => {
        const staging = toBytes(into);
        const parts = await hands[0]!.do('prepareStage', { store: folder, steps, staging, count: hands.length });
        const write = (hand: Hand, index: number) =>
          hand.do('write', { store: folder, steps, part: parts[index]!, folder: staging, staged: true });
        await all(hands.map(write), () => {});
        await hands[0]!.do('finishStage', { steps, staging });
      }),

    apply: (root, staging) => read((hand) => hand.do('apply', { root: toBytes(root), staging: toBytes(staging) })),

    materialize: (tree_hash, into) =>
      together(async (hands) => {
        const to = toBytes(into);
        const { steps, parts } = await hands[0]!.do('prepareTree', {
          store: folder,
          tree_hash,
          folder: to,
          count: hands.length,
        });
        const write = (hand: Hand, index: number) =>
          hand.do('write', { store: folder, steps, part: parts[index]!, folder: to, staged: false });
        await all(hands.map(write), () => {});
        await hands[0]!.do('finishTree', { steps, folder: to });
      }),

    entries: (tree_hash, { after, limit = 1000 } = {}) =>
      read((hand) => hand.do('entries', { store: folder, tree_hash, after: after ?? null, limit })),

    diff: (from, to) => read((hand) => hand.do('diff', { store: folder, from, to })),

    hunks: (from, to) => read((hand) => hand.do('hunks', { store: folder, from, to })),

    async open(object_hash) {
      const bytes = await read((hand) => hand.do('open', { store: folder, hash: object_hash }));
      return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
    },

    async collect(keep, { dry_run }) {
      const kept = new Set(keep);
      collecting.add(kept);
      try {
        return await gate.alone(() =>
          crew.with((hand) => hand.do('collect', { store: folder, keep: [...kept], isDry: dry_run })),
        );
      } finally {
        collecting.delete(kept);
      }
    },

    usage: () => read((hand) => hand.do('usage', { store: folder })),

    close: () => gate.alone(() => Promise.resolve()),
  };
  return trees;
}
