import { foundAgain } from './compose.ts';
import { TreeError } from './failure.ts';
import { type Kind, kinds } from './folder-object.ts';
import { facts, folderCount, type Listing, text } from './listing.ts';
import { below, type Bytes, toText } from './name.ts';
import type { Packs } from './packs.ts';
import type { Steps } from './steps.ts';

/** Which paths are meant: names to what is meant below them, or null for all. */
type Filter = Map<Bytes, Filter> | null;

/** An entry on either side; of the present tree also what is left out. */
interface Side {
  kind: Kind;
  mode: number;
  hash: Buffer;
  target: Bytes;
  /** It is left out and a folder. */
  keptFolder: boolean;
}

/** The filter that lets through these paths and all that is below them. */
export function filterOf(paths: readonly Bytes[] | null): Filter {
  if (paths === null) return null;
  const root: Map<Bytes, Filter> = new Map();
  for (const path of paths) {
    const names = path.split('/').filter((name) => name !== '');
    if (names.some((name) => name === '.' || name === '..'))
      throw new TreeError('unusable', `${toText(path)} is no path in a tree.`);
    if (names.length === 0) return null;
    let at = root;
    for (const [index, name] of names.entries()) {
      const next = at.get(name);
      if (next === null) break;
      if (index === names.length - 1) at.set(name, null);
      else if (next) at = next;
      else {
        const made: Map<Bytes, Filter> = new Map();
        at.set(name, made);
        at = made;
      }
    }
  }
  return root;
}

/** Finds out what makes one tree into another. */
export class Planner {
  readonly added: Bytes[] = [];
  readonly changed: Bytes[] = [];
  readonly removed: Bytes[] = [];
  readonly steps: Steps;
  readonly #packs: Packs;
  readonly #now: Listing | null;
  readonly #numbers = new Map<Bytes, number>();

  /** `now`: the tree as it is, or null for an empty one. */
  constructor(packs: Packs, now: Listing | null, tree_hash: string) {
    this.#packs = packs;
    this.#now = now;
    if (now)
      for (let folder = 0; folder < folderCount(now); folder++) this.#numbers.set(text(now, folder, 'path'), folder);
    this.steps = { tree_hash, opened: [], displaced: [], removed: [], made: [], placed: [], modes: [] };
  }

  /** Plans towards a stored tree. Throws TreeError `damaged`. */
  plan(filter: Filter): void {
    const target = this.#stored(Buffer.from(this.steps.tree_hash, 'hex'));
    this.#folder('', this.#present(''), target, 0o700, null, filter);
  }

  #stored(digest: Buffer): Map<Bytes, Side> {
    return new Map(
      this.#packs
        .readFolder(digest)
        .map(({ name, kind, mode, hash, target }) => [name, { kind, mode, hash, target, keptFolder: false }]),
    );
  }

  #present(path: Bytes): Map<Bytes, Side> {
    const sides = new Map<Bytes, Side>();
    if (!this.#now) return sides;
    const folder = this.#numbers.get(path);
    if (folder === undefined) return sides;
    const found = foundAgain(this.#now, folder);
    for (const [entry, name] of found.names.entries()) {
      const kind = found.kinds[entry] as Kind;
      const type = found.facts[entry * facts]!;
      const hash = found.hashes.subarray(entry * 32, entry * 32 + 32);
      const keptFolder = kind === kinds.left && (type & 0o170000) === 0o040000;
      // What was gone when it was to be read has no type: it is not there.
      if (type !== 0)
        sides.set(name, { kind, mode: type & 0o7777, hash, target: found.targets.get(entry) ?? '', keptFolder });
    }
    return sides;
  }

  /**
   * What happens in one folder. `mode`: its permissions now; `later`: those it must get, or null when it keeps them. Answers
   * whether something is left in it although nothing of the target is.
   */
  #folder(
    path: Bytes,
    now: Map<Bytes, Side>,
    target: Map<Bytes, Side>,
    mode: number,
    later: number | null,
    filter: Filter,
  ): boolean {
    const isOpen = (mode & 0o300) === 0o300;
    if (!isOpen) this.steps.opened.push(path);
    let isKept = false;
    const before = this.#weight();
    for (const name of new Set([...now.keys(), ...target.keys()])) {
      const inner = filter === null ? null : filter.get(name);
      const [is, shall] = [now.get(name), target.get(name)];
      if (inner === undefined) {
        isKept ||= is !== undefined;
        continue;
      }
      if (inner === null) isKept = this.#entry(below(path, name), is, shall) || isKept;
      else {
        this.#above(below(path, name), is, shall, inner);
        isKept ||= is !== undefined;
      }
    }
    const touched = this.#weight() > before;
    if (!isOpen && !touched) this.steps.opened.splice(this.steps.opened.lastIndexOf(path), 1);
    if (later !== null || (!isOpen && touched)) this.steps.modes.push({ path, mode: later ?? mode, folder: true });
    return isKept;
  }

  /** How many steps change which entries there are. */
  #weight(): number {
    const { displaced, removed, made, placed } = this.steps;
    return displaced.length + removed.length + made.length + placed.length;
  }

  /** Something above what is meant: it is made a folder when that is needed, and otherwise left as it is. */
  #above(path: Bytes, is: Side | undefined, shall: Side | undefined, filter: Filter): void {
    if (is?.kind === kinds.folder) {
      const target = shall?.kind === kinds.folder ? this.#stored(shall.hash) : new Map<Bytes, Side>();
      this.#folder(path, this.#present(path), target, is.mode, null, filter);
    } else if (shall?.kind === kinds.folder && !is?.keptFolder) {
      const target = this.#stored(shall.hash);
      if (!this.#reaches(target, filter)) return;
      this.#makeFolder(path, is, shall, target, filter);
    }
  }

  #reaches(target: Map<Bytes, Side>, filter: Filter): boolean {
    if (filter === null) return true;
    for (const [name, inner] of filter) {
      const side = target.get(name);
      if (side && (inner === null || (side.kind === kinds.folder && this.#reaches(this.#stored(side.hash), inner))))
        return true;
    }
    return false;
  }

  #makeFolder(path: Bytes, is: Side | undefined, shall: Side, target: Map<Bytes, Side>, filter: Filter): void {
    if (is) this.steps.removed.push({ path, folder: false });
    (is ? this.changed : this.added).push(path);
    this.steps.made.push(path);
    this.#folder(path, new Map(), target, 0o700, shall.mode, filter);
  }

  /** What happens to one entry; answers whether it stays although the target does not have it. */
  #entry(path: Bytes, is: Side | undefined, shall: Side | undefined): boolean {
    if (!shall) return is !== undefined && this.#remove(path, is);
    if (shall.kind === kinds.folder) this.#becomeFolder(path, is, shall);
    else this.#becomeLeaf(path, is, shall);
    return false;
  }

  #remove(path: Bytes, is: Side): boolean {
    if (is.kind === kinds.left) return true;
    const folder = is.kind === kinds.folder;
    if (folder && this.#folder(path, this.#present(path), new Map(), is.mode, null, null)) return true;
    // The permissions of what goes away are not given back.
    if (folder && this.steps.modes.at(-1)?.path === path) this.steps.modes.pop();
    this.removed.push(path);
    this.steps.removed.push({ path, folder });
    return false;
  }

  #becomeFolder(path: Bytes, is: Side | undefined, shall: Side): void {
    if (is?.keptFolder) return;
    if (is?.kind !== kinds.folder) return this.#makeFolder(path, is, shall, this.#stored(shall.hash), null);
    const later = is.mode === shall.mode ? null : shall.mode;
    if (later !== null) this.changed.push(path);
    if (!is.hash.equals(shall.hash))
      this.#folder(path, this.#present(path), this.#stored(shall.hash), is.mode, later, null);
    else if (later !== null) this.steps.modes.push({ path, mode: later, folder: true });
  }

  #becomeLeaf(path: Bytes, is: Side | undefined, shall: Side): void {
    const isFile = shall.kind === kinds.file;
    if (is?.kind === shall.kind) {
      const isSame = isFile ? is.hash.equals(shall.hash) : is.target === shall.target;
      if (isSame && (!isFile || is.mode === shall.mode)) return;
      this.changed.push(path);
      if (isSame) return void this.steps.modes.push({ path, mode: shall.mode, folder: false });
    } else if (is) {
      this.changed.push(path);
      if (is.kind === kinds.folder) this.#listBelow(path);
      if (is.kind === kinds.folder || is.keptFolder) this.steps.displaced.push(path);
    } else this.added.push(path);
    this.steps.placed.push({
      path,
      mode: shall.mode,
      hash: isFile ? shall.hash.toString('hex') : null,
      target: shall.target,
    });
  }

  #listBelow(path: Bytes): void {
    for (const [name, is] of this.#present(path)) {
      this.removed.push(below(path, name));
      if (is.kind === kinds.folder) this.#listBelow(below(path, name));
    }
  }
}
