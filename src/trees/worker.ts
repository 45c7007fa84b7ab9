import { once } from 'node:events';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type MessagePort, parentPort } from 'node:worker_threads';
import { apply } from './apply.ts';
import { Beneath } from './beneath.ts';
import { type Collected, collect } from './collect.ts';
import { codeOf, TreeError } from './failure.ts';
import { flush, flushAll, isMany } from './flush.ts';
import { hunksBetween, type Side } from './hunks.ts';
import { type Listing } from './listing.ts';
import { type Bytes, split, toBytes, toOs, toText } from './name.ts';
import { Packs } from './packs.ts';
import { filterOf, Planner } from './planner.ts';
import {
  assertTree,
  type Change,
  compareTrees,
  type Entry,
  findBad,
  inOrder,
  listEntries,
  objectsOf,
} from './reading.ts';
import { Scan, type ScanOrder, type Survey, type Walked } from './scan.ts';
import { decodeSteps, encodeSteps } from './steps.ts';
import { weigh, type Weight } from './weigh.ts';
import { inParts, stagingFolders, writePart } from './write.ts';
import type { Found } from './walk.ts';

/** What the other side of a thread sends. */
export interface Question {
  id: number;
  task: keyof Tasks;
  question: unknown;
}

/** What comes back. A failure's class does not survive the way: `reason` is a TreeError's. */
export type Answer =
  | { id: number; value: unknown }
  | {
      id: number;
      error: {
        reason: string | null;
        message: string;
        path: string | null;
        limit: TreeError['limit'];
        code: string | undefined;
      };
    };

/** What a plan is before its lists are sorted. */
interface Planned {
  added: string[];
  changed: string[];
  removed: string[];
  steps: Uint8Array;
}

/** The file in a staging folder that says what is to be done; it is there when all contents are. */
const stepsFile = 'steps';

const open = new Map<string, Packs>();

/** The packs of a store, as they are now; those of a few stores are kept in memory. */
function packsOf(store: string): Packs {
  const packs = open.get(store) ?? new Packs(store);
  open.delete(store);
  open.set(store, packs);
  const [oldest] = open.keys();
  if (open.size > 8 && oldest !== undefined) {
    open.get(oldest)?.close();
    open.delete(oldest);
  }
  packs.refresh();
  return packs;
}

let scan: { scan: Scan; packs: Packs; listing: Listing | null } | null = null;

function current(): NonNullable<typeof scan> {
  if (!scan) throw new Error('This thread has no scan.');
  return scan;
}

const tasks = {
  /** Begins a scan; with a survey, the second thread's part of it. */
  survey({ order, survey }: { order: ScanOrder; survey: Survey | null }): Survey | null {
    const packs = packsOf(order.store);
    scan = { packs, scan: new Scan(order, packs, survey ?? undefined), listing: null };
    return survey ? null : scan.scan.survey();
  },

  walk: (_question: null): Walked => current().scan.walk(),

  read(_question: null): void {
    current().scan.read();
  },

  /** The second thread's part of reading; the port leads to the first. */
  give({ port, isRead }: { port: MessagePort; isRead: boolean }): void {
    try {
      current().scan.give(port, isRead);
    } finally {
      port.close();
    }
  },

  /** Puts the listing together; what the second thread found comes by the port. */
  async compose(given: { port: MessagePort | null; areRead: boolean; skipped: number }): Promise<Listing['summary']> {
    const others = given.port ? await receive(given.port) : [];
    const one = current();
    one.listing = one.scan.compose(others, given.areRead, given.skipped);
    return one.listing.summary;
  },

  publish(_question: null): void {
    const { scan: one, listing } = current();
    if (listing) one.publish(listing);
  },

  /** Ends a scan, whatever has become of it. */
  end(_question: null): { hashed: number; stored: number } {
    if (!scan) return { hashed: 0, stored: 0 };
    const { done } = scan.scan;
    scan.scan[Symbol.dispose]();
    scan = null;
    return done;
  },

  /** After a scan without storing: what a restore would do. */
  plan({ store, tree_hash, paths }: { store: string; tree_hash: string; paths: string[] | null }): Planned {
    assertTree(store, tree_hash);
    const planner = new Planner(current().packs, current().listing, tree_hash);
    planner.plan(filterOf(paths?.map(toBytes) ?? null));
    const [added, changed, removed] = [planner.added, planner.changed, planner.removed].map((paths) =>
      paths.map(toText),
    );
    return { added: added!, changed: changed!, removed: removed!, steps: encodeSteps(planner.steps) };
  },

  /** Makes the folders of a stage, and answers which thread writes what. */
  prepareStage({
    store,
    steps,
    staging,
    count,
  }: {
    store: string;
    steps: Uint8Array;
    staging: Bytes;
    count: number;
  }): Uint32Array[] {
    const { placed } = decodeSteps(steps);
    const parts = inParts(packsOf(store), placed, count);
    rmSync(toOs(staging), { recursive: true, force: true });
    mkdirSync(toOs(staging), { mode: 0o700 });
    for (const folder of [...stagingFolders(placed.length), 'displaced'])
      mkdirSync(toOs(`${staging}/${folder}`), { mode: 0o700 });
    return parts;
  },

  /** Writes a thread's part below a folder. */
  write({
    store,
    steps,
    part,
    folder,
    staged,
  }: {
    store: string;
    steps: Uint8Array;
    part: Uint32Array;
    folder: Bytes;
    staged: boolean;
  }): void {
    const { placed } = decodeSteps(steps);
    writePart({ packs: packsOf(store), placed, part, folder, staged, flush: !isMany(placed.length) });
  },

  /** Forces a stage to the disk, and says last that it is whole. */
  finishStage({ steps, staging }: { steps: Uint8Array; staging: Bytes }): void {
    const { placed } = decodeSteps(steps);
    if (isMany(placed.length)) flushAll(staging);
    else for (const folder of [...stagingFolders(placed.length), 'displaced']) flush(`${staging}/${folder}`);
    writeFileSync(toOs(`${staging}/${stepsFile}`), steps, { mode: 0o600, flush: true });
    flush(staging);
    flush(split(staging)[0] || '/');
  },

  apply({ root, staging }: { root: Bytes; staging: Bytes }): void {
    let steps: Uint8Array;
    try {
      steps = readFileSync(toOs(`${staging}/${stepsFile}`));
    } catch (error) {
      throw new TreeError('unusable', 'There is no whole staged restore in this folder.', { cause: error });
    }
    apply(root, staging, decodeSteps(steps));
  },

  /** Makes the folders of a fresh tree, and answers which thread writes what. */
  prepareTree({
    store,
    tree_hash,
    folder,
    count,
  }: {
    store: string;
    tree_hash: string;
    folder: Bytes;
    count: number;
  }): { steps: Uint8Array; parts: Uint32Array[] } {
    assertTree(store, tree_hash);
    const packs = packsOf(store);
    const planner = new Planner(packs, null, tree_hash);
    planner.plan(null);
    const { steps } = planner;
    const parts = inParts(packs, steps.placed, count);
    try {
      mkdirSync(toOs(folder), { mode: 0o700 });
    } catch (error) {
      throw new TreeError('unusable', 'The folder for the tree cannot be made.', { cause: error });
    }
    using beneath = new Beneath(folder);
    for (const path of steps.made) {
      const [above, name] = split(path);
      mkdirSync(toOs(beneath.folder(above) + name), { mode: 0o700 });
    }
    return { steps: encodeSteps(steps), parts };
  },

  /** Gives a fresh tree's folders their permissions and forces all of it to the disk. */
  finishTree({ steps, folder }: { steps: Uint8Array; folder: Bytes }): void {
    const all = decodeSteps(steps);
    apply(folder, folder, { ...all, opened: [], displaced: [], removed: [], placed: [], made: all.made });
    if (isMany(all.placed.length)) flushAll(folder);
    else
      for (const made of new Set(['', ...all.made, ...all.placed.map(({ path }) => split(path)[0])]))
        flush(made === '' ? folder : `${folder}/${made}`);
    flush(split(folder)[0] || '/');
  },

  /** The objects of a tree, for each thread to read back. */
  objects({ store, tree_hash, count }: { store: string; tree_hash: string; count: number }): {
    objects: number;
    bad: string[];
    parts: Uint8Array[];
  } {
    assertTree(store, tree_hash);
    const packs = packsOf(store);
    const bad = new Set<string>();
    const objects = objectsOf(packs, [tree_hash], bad);
    // A folder that could be decoded was compared with its hash just now.
    const files = [...objects].filter(([, isFolder]) => !isFolder).map(([hash]) => hash);
    const parts = inOrder(packs, files, count, bad);
    return { objects: objects.size, bad: [...bad], parts };
  },

  check: ({ store, hashes }: { store: string; hashes: Uint8Array }): string[] => findBad(packsOf(store), hashes),

  entries({
    store,
    tree_hash,
    after,
    limit,
  }: {
    store: string;
    tree_hash: string;
    after: string | null;
    limit: number;
  }): Entry[] {
    assertTree(store, tree_hash);
    return listEntries(packsOf(store), tree_hash, after, limit);
  },

  diff({ store, from, to }: { store: string; from: string | null; to: string }): Change[] {
    for (const tree of [from, to]) if (tree !== null) assertTree(store, tree);
    return compareTrees(packsOf(store), from, to);
  },

  open({ store, hash }: { store: string; hash: string }): Uint8Array {
    if (!/^[0-9a-f]{64}$/.test(hash)) throw new TreeError('unknown_tree', 'This is no hash of an object.');
    return packsOf(store).read(Buffer.from(hash, 'hex'));
  },

  hunks: ({ store, from, to }: { store: string; from: Side; to: Side }): Promise<string[] | null> =>
    hunksBetween(packsOf(store), from, to),

  collect: ({ store, keep, isDry }: { store: string; keep: string[]; isDry: boolean }): Collected =>
    collect(packsOf(store), store, keep, isDry),

  weigh: ({ paths }: { paths: Bytes[] }): Weight[] => weigh(paths),

  usage({ store }: { store: string }): { bytes: number; objects: number; packs: number } {
    return packsOf(store).usage();
  },
};

/** What worker threads can do. */
export type Tasks = typeof tasks;

async function receive(port: MessagePort): Promise<Found[]> {
  const controller = new AbortController();
  const closed = once(port, 'close', { signal: controller.signal }).then(() => {
    throw new TreeError('stopped', 'The other thread has failed.');
  });
  try {
    const [found] = (await Promise.race([once(port, 'message', { signal: controller.signal }), closed])) as [Found[]];
    for (const one of found) one.hashes = Buffer.from(one.hashes.buffer, one.hashes.byteOffset, one.hashes.length);
    return found;
  } finally {
    controller.abort();
    closed.catch(() => {});
    port.close();
  }
}

async function answer({ id, task, question }: Question): Promise<Answer> {
  try {
    const value: unknown = await (tasks[task] as (question: unknown) => unknown)(question);
    return { id, value };
  } catch (error) {
    const { reason, path, limit } = error instanceof TreeError ? error : { reason: null, path: null, limit: null };
    const message = error instanceof Error ? error.message : String(error);
    return { id, error: { reason, message, path, limit, code: codeOf(error) } };
  }
}

parentPort?.on('message', (question: Question) => {
  void answer(question).then((one) => parentPort!.postMessage(one));
});
