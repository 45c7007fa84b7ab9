import { existsSync, readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { TreeError } from './failure.ts';
import { encodeIndex, hashSize, type Pack } from './pack.ts';
import { Packer, syncFolder, writeIndex } from './packer.ts';
import { type Packs, treesFolder } from './packs.ts';
import { objectsOf } from './reading.ts';

/** What was removed, or would be: objects, and about how many bytes they and the remains of crashes take on the disk. */
export interface Collected {
  objects: number;
  bytes: number;
}

/** Packs that are smaller are put together when there are more than `mostSmall` of them. */
const smallPack = 262_144;
const mostSmall = 32;

interface Plan {
  name: string;
  pack: Pack;
  live: number[];
  /** Live bytes and all bytes, before compression. */
  liveBytes: number;
  bytes: number;
}

/**
 * Removes every object that none of these trees needs; nobody else may use the store meanwhile. Trees that the store does not have
 * are passed over. Throws TreeError `damaged`, before anything is removed, when one of the trees is not whole.
 */
export function collect(packs: Packs, store: string, keep: readonly string[], isDry: boolean): Collected {
  packs.refresh();
  const kept = new Set(keep.filter((tree) => existsSync(join(treesFolder(store), tree))));
  const bad = new Set<string>();
  const live = new Set(objectsOf(packs, [...kept], bad).keys());
  const { chosen, doubles } = choose(packs);
  const { plans, dead, bytes } = sort(chosen, live);
  if (bad.size > 0 || live.size > 0)
    throw new TreeError('damaged', 'A tree that is to be kept is damaged: nothing was removed.');
  const garbage = [...findGarbage(packs), ...doubles];
  const collected = {
    objects: dead.size,
    bytes: bytes + garbage.reduce((sum, path) => sum + (statSync(path, { throwIfNoEntry: false })?.size ?? 0), 0),
  };
  if (isDry) return collected;

  forgetTrees(store, kept);
  for (const path of garbage) rmSync(path, { force: true });
  const areSmall = plans.filter(({ pack }) => packedSize(pack) < smallPack);
  const isDue = (plan: Plan) =>
    plan.liveBytes * 2 < plan.bytes ||
    plan.live.length === 0 ||
    (areSmall.length > mostSmall && areSmall.includes(plan));
  repack(packs, plans.filter(isDue));
  for (const plan of plans) if (!isDue(plan) && plan.live.length < plan.pack.objects) shorten(packs, plan);
  syncFolder(packs.folder);
  packs.refresh();
  return collected;
}

const packedSize = ({ index }: Pack): number => index.offsets.at(-1)!;

/**
 * One index for each pack, by its file's name, and the paths of the others: a kill may leave the old and the new one, and then the
 * old one, which names more, may be relied on by trees that came since.
 */
function choose(packs: Packs): { chosen: Map<string, Pack>; doubles: string[] } {
  const byPath = new Map<string, [name: string, pack: Pack]>();
  const doubles: string[] = [];
  for (const [name, pack] of packs.all) {
    const other = byPath.get(pack.path);
    if (other) doubles.push(join(packs.folder, other[1].objects < pack.objects ? other[0] : name));
    if (!other || other[1].objects < pack.objects) byPath.set(pack.path, [name, pack]);
  }
  return { chosen: new Map(byPath.values()), doubles };
}

/** What is live in each pack, each object in one pack alone. Takes from `live` what it finds. */
function sort(packs: Map<string, Pack>, live: Set<string>): { plans: Plan[]; dead: Set<string>; bytes: number } {
  const dead = new Set<string>();
  const found = new Set<string>();
  const plans: Plan[] = [];
  let bytes = 0;
  for (const [name, pack] of [...packs].toSorted(([one], [other]) => (one < other ? -1 : 1))) {
    const plan: Plan = { name, pack, live: [], liveBytes: 0, bytes: pack.index.starts.at(-1)! };
    const ratio = plan.bytes === 0 ? 0 : packedSize(pack) / plan.bytes;
    for (let object = 0; object < pack.objects; object++) {
      const hex = pack.index.hashes.toString('hex', object * hashSize, (object + 1) * hashSize);
      const length = pack.index.lengths[object]!;
      if (live.delete(hex)) {
        found.add(hex);
        plan.live.push(object);
        plan.liveBytes += length;
      } else {
        if (!found.has(hex)) dead.add(hex);
        bytes += Math.round(length * ratio) + hashSize + 16;
      }
    }
    plans.push(plan);
  }
  return { plans, dead, bytes };
}

/** Files of the store that nothing leads to: the remains of crashes, and damaged indexes that no kept tree needs. */
function findGarbage(packs: Packs): string[] {
  const used = new Set([...packs.all.values()].map(({ path }) => path));
  return readdirSync(packs.folder)
    .filter((name) => !packs.all.has(name))
    .map((name) => join(packs.folder, name))
    .filter((path) => !used.has(path));
}

/** First of all the trees go: from then on no snapshot takes them for whole. */
function forgetTrees(store: string, kept: ReadonlySet<string>): void {
  const folder = treesFolder(store);
  if (!existsSync(folder)) return;
  const gone = readdirSync(folder).filter((tree) => !kept.has(tree));
  for (const tree of gone) rmSync(join(folder, tree), { force: true });
  if (gone.length > 0) syncFolder(folder);
}

function repack(packs: Packs, plans: readonly Plan[]): void {
  const packer = new Packer(packs.folder);
  try {
    for (const { pack, live } of plans)
      for (const object of live) {
        const hash = Buffer.from(pack.index.hashes.subarray(object * hashSize, (object + 1) * hashSize));
        const digest = packer.stream(pack.pieces(object), () => false, true);
        if (!digest.equals(hash))
          throw new TreeError('damaged', `The object ${hash.toString('hex')} is damaged: nothing was removed.`);
      }
    packer.seal();
  } finally {
    packer.abandon();
  }
  for (const { name, pack } of plans) {
    pack.close();
    rmSync(join(packs.folder, name));
    rmSync(pack.path, { force: true });
  }
}

/** Gives a pack an index that names only what is live; the dead bytes stay until most of the pack is dead. */
function shorten(packs: Packs, { name, pack, live }: Plan): void {
  const { index } = pack;
  const bytes = encodeIndex({
    ...index,
    places: Float64Array.from(live, (object) => index.places[object]!),
    lengths: Float64Array.from(live, (object) => index.lengths[object]!),
    hashes: Buffer.concat(live.map((object) => index.hashes.subarray(object * hashSize, (object + 1) * hashSize))),
  });
  writeIndex(pack.path, bytes);
  rmSync(join(packs.folder, name));
}
