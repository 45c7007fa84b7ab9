import { hash } from 'node:crypto';
import { TreeError } from './failure.ts';
import { encodeFolder, kinds, type Node } from './folder-object.ts';
import { columns, facts, folderCount, folderFacts, type Listing, number, text, width } from './listing.ts';
import { below, type Bytes, toText } from './name.ts';
import type { Found } from './walk.ts';

export interface ComposeOptions {
  listing: Listing | undefined;
  clean: Uint8Array;
  found: Found[];
  skipped: number;
  key: string;
  /** Whether a folder of the listing need not be stored again, by its hash's place; null: none need be. */
  isPresent: ((hashes: Buffer, at: number) => boolean) | null;
  /** Takes the object of each folder that is not as it was. */
  store: (digest: Buffer, bytes: Buffer) => void;
}

const none = Buffer.alloc(0);

/**
 * Makes the new listing of a tree out of the old one and of the folders that were found to differ. What lies below a folder in
 * which nothing differs is carried over in one piece.
 */
export function compose(options: ComposeOptions): Listing {
  return new Composer(options).compose();
}

class Composer {
  readonly #options: ComposeOptions;
  readonly #listed = new Map<Bytes, number>();
  readonly #found: Map<Bytes, Found>;
  /** How many folders of the listing before this one differ. */
  readonly #dirty: Uint32Array;
  readonly #made: Listing;
  #folders = 0;
  #entries = 0;
  #texts = 0;

  constructor(options: ComposeOptions) {
    this.#options = options;
    const { listing, clean, found, isPresent } = options;
    this.#found = new Map(found.map((one) => [one.path, one]));
    const before = listing ? folderCount(listing) : 0;
    this.#dirty = new Uint32Array(before + 1);
    for (let folder = 0; folder < before; folder++) {
      this.#listed.set(text(listing!, folder, 'path'), folder);
      const isSame = clean[folder] === 1 && (isPresent?.(listing!.folderHashes, folder * 32) ?? true);
      this.#dirty[folder + 1] = this.#dirty[folder]! + (isSame ? 0 : 1);
    }
    let [folders, entries, texts] = [before, listing?.kinds.length ?? 0, listing?.texts.length ?? 0];
    for (const { path, names, targets } of found) {
      folders += 1;
      entries += names.length;
      texts += path.length;
      for (const name of names) texts += name.length + 1;
      for (const target of targets.values()) texts += target.length + 1;
    }
    this.#made = {
      summary: { tree_hash: '', file_count: 0, size_bytes: 0, skipped: options.skipped, key: options.key },
      folders: new Uint32Array(folders * width),
      folderHashes: Buffer.alloc(folders * 32),
      folderFacts: new Float64Array(folders * folderFacts),
      facts: new Float64Array(entries * facts),
      kinds: new Uint8Array(entries),
      hashes: Buffer.alloc(entries * 32),
      texts: Buffer.alloc(texts),
    };
  }

  compose(): Listing {
    const root = this.#folder('');
    const made = this.#made;
    const { summary } = made;
    summary.tree_hash = made.folderHashes.toString('hex', root * 32, root * 32 + 32);
    for (let entry = 0; entry < this.#entries; entry++) {
      const kind = made.kinds[entry];
      if (kind === kinds.file || kind === kinds.link) summary.file_count += 1;
      if (kind === kinds.file) summary.size_bytes += made.facts[entry * facts + 1]!;
    }
    return {
      summary,
      folders: made.folders.subarray(0, this.#folders * width),
      folderHashes: made.folderHashes.subarray(0, this.#folders * 32),
      folderFacts: made.folderFacts.subarray(0, this.#folders * folderFacts),
      facts: made.facts.subarray(0, this.#entries * facts),
      kinds: made.kinds.subarray(0, this.#entries),
      hashes: made.hashes.subarray(0, this.#entries * 32),
      texts: made.texts.subarray(0, this.#texts),
    };
  }

  /** Adds a folder with all that is below it; answers its number. */
  #folder(path: Bytes): number {
    const { listing, clean, store } = this.#options;
    const listed = this.#listed.get(path) ?? -1;
    if (listing && listed >= 0) {
      const first = number(listing, listed, 'first');
      if (this.#dirty[listed + 1] === this.#dirty[first]) return this.#carry(listing, first, listed);
    }
    const found =
      this.#found.get(path) ??
      (listing && listed >= 0 && clean[listed] === 1 ? foundAgain(listing, listed) : undefined);
    if (!found) {
      const name = toText(path);
      throw new TreeError('changed', `${name} went away while it was read.`, { path: name });
    }
    const first = this.#folders;
    const nodes: Node[] = [];
    for (const [entry, name] of found.names.entries()) {
      const kind = found.kinds[entry];
      if (kind === kinds.folder) {
        const child = this.#folder(below(path, name));
        this.#made.folderHashes.copy(found.hashes, entry * 32, child * 32, child * 32 + 32);
      }
      const mode = found.facts[entry * facts]! & 0o7777;
      const digest = found.hashes.subarray(entry * 32, entry * 32 + 32);
      if (kind === kinds.file)
        nodes.push({ name, kind, mode, size: found.facts[entry * facts + 1]!, hash: digest, target: '' });
      else if (kind === kinds.folder) nodes.push({ name, kind, mode, size: 0, hash: digest, target: '' });
      else if (kind === kinds.link) {
        const target = found.targets.get(entry) ?? '';
        nodes.push({ name, kind, mode: 0o777, size: target.length, hash: none, target });
      }
    }
    const bytes = encodeFolder(nodes);
    const digest = hash('sha256', bytes, 'buffer');
    store(digest, bytes);
    return this.#add(found, first, digest);
  }

  #add(found: Found, first: number, digest: Buffer): number {
    const made = this.#made;
    const folder = this.#folders;
    const row = folder * width;
    made.folders[row + columns.first] = first;
    made.folders[row + columns.entries] = this.#entries;
    made.folders[row + columns.count] = found.names.length;
    const links: Bytes[] = [];
    for (const [entry, kind] of found.kinds.entries())
      if (kind === kinds.link) links.push(found.targets.get(entry) ?? '');
    this.#text(row + columns.path, found.path);
    this.#text(row + columns.names, found.names.join('/'));
    this.#text(row + columns.links, links.join('\0'));
    digest.copy(made.folderHashes, folder * 32);
    made.folderFacts.set(found.own, folder * folderFacts);
    made.facts.set(found.facts, this.#entries * facts);
    made.kinds.set(found.kinds, this.#entries);
    found.hashes.copy(made.hashes, this.#entries * 32);
    this.#entries += found.names.length;
    this.#folders += 1;
    return folder;
  }

  #text(column: number, value: Bytes): void {
    this.#made.folders[column] = this.#texts;
    this.#made.folders[column + 1] = value.length;
    this.#texts += this.#made.texts.write(value, this.#texts, 'latin1');
  }

  /** Carries over a range of folders of the old listing; answers the number of the last. */
  #carry(listing: Listing, first: number, last: number): number {
    const made = this.#made;
    const entries = number(listing, first, 'entries');
    const entriesEnd = number(listing, last, 'entries') + number(listing, last, 'count');
    const texts = number(listing, first, 'path');
    const textsEnd = number(listing, last, 'links') + number(listing, last, 'linksSize');
    made.folders.set(listing.folders.subarray(first * width, (last + 1) * width), this.#folders * width);
    for (let row = this.#folders * width; row < (this.#folders + last - first + 1) * width; row += width) {
      made.folders[row + columns.first]! += this.#folders - first;
      made.folders[row + columns.entries]! += this.#entries - entries;
      for (const column of [columns.path, columns.names, columns.links])
        made.folders[row + column]! += this.#texts - texts;
    }
    made.folderFacts.set(
      listing.folderFacts.subarray(first * folderFacts, (last + 1) * folderFacts),
      this.#folders * folderFacts,
    );
    listing.folderHashes.copy(made.folderHashes, this.#folders * 32, first * 32, (last + 1) * 32);
    made.facts.set(listing.facts.subarray(entries * facts, entriesEnd * facts), this.#entries * facts);
    made.kinds.set(listing.kinds.subarray(entries, entriesEnd), this.#entries);
    listing.hashes.copy(made.hashes, this.#entries * 32, entries * 32, entriesEnd * 32);
    listing.texts.copy(made.texts, this.#texts, texts, textsEnd);
    this.#folders += last - first + 1;
    this.#entries += entriesEnd - entries;
    this.#texts += textsEnd - texts;
    return this.#folders - 1;
  }
}

/** A folder of a listing as if it had just been found. */
export function foundAgain(listing: Listing, folder: number): Found {
  const start = number(listing, folder, 'entries');
  const count = number(listing, folder, 'count');
  const found: Found = {
    path: text(listing, folder, 'path'),
    names: count === 0 ? [] : text(listing, folder, 'names').split('/'),
    facts: listing.facts.slice(start * facts, (start + count) * facts),
    kinds: listing.kinds.slice(start, start + count),
    hashes: Buffer.from(listing.hashes.subarray(start * 32, (start + count) * 32)),
    targets: new Map(),
    unread: new Uint8Array(count),
    own: listing.folderFacts.slice(folder * folderFacts, (folder + 1) * folderFacts),
  };
  const links = text(listing, folder, 'links').split('\0');
  for (const [entry, kind] of found.kinds.entries())
    if (kind === kinds.link) found.targets.set(entry, links.shift() ?? '');
  return found;
}
