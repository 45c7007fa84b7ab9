import fc from 'fast-check';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openTrees, type Trees } from '../../../src/trees/trees.ts';

/** One entry to make; the path is one character per byte. */
export type Plant =
  | { path: string; type: 'folder'; mode: number }
  | { path: string; type: 'file'; mode: number; bytes: Buffer }
  | { path: string; type: 'link'; target: string };

const os = (path: string): Buffer => Buffer.from(path, 'latin1');
const bytesOf = (text: string): string => Buffer.from(text).toString('latin1');

/** Makes these entries below a root; what cannot be made because of what is there is left. */
export function plant(root: string, plants: readonly Plant[]): void {
  mkdirSync(root, { recursive: true });
  for (const one of plants) {
    const at = os(`${bytesOf(root)}/${one.path}`);
    try {
      mkdirSync(os(`${bytesOf(root)}/${one.path}/..`.replace(/\/[^/]*\/\.\.$/, '')), { recursive: true });
      if (one.type === 'folder') mkdirSync(at, { recursive: true });
      if (one.type === 'file') writeFileSync(at, one.bytes, { flag: 'wx' });
      if (one.type === 'link') symlinkSync(os(one.target), at);
      else chmodSync(at, one.mode);
    } catch (error) {
      if (
        !['EEXIST', 'ENOTDIR', 'ENAMETOOLONG', 'ELOOP', 'EISDIR', 'ENOENT'].includes(
          (error as NodeJS.ErrnoException).code ?? '',
        )
      )
        throw error;
    }
  }
}

/** What is below a root, read by the simplest means there are: path to type, mode and content. */
export function look(root: string): Map<string, string> {
  const seen = new Map<string, string>();
  const walk = (folder: string): void => {
    for (const name of readdirSync(os(`${bytesOf(root)}/${folder}`), 'latin1')) {
      if (folder === '' && name === '.git') continue;
      const path = folder === '' ? name : `${folder}/${name}`;
      const at = os(`${bytesOf(root)}/${path}`);
      const { mode } = lstatSync(at);
      const bits = (mode & 0o7777).toString(8);
      switch (mode & 0o170000) {
        case 0o040000:
          seen.set(path, `folder ${bits}`);
          walk(path);
          break;
        case 0o120000:
          seen.set(path, `link ${readlinkSync(at, 'latin1')}`);
          break;
        case 0o100000:
          seen.set(path, `file ${bits} ${createHash('sha256').update(readFileSync(at)).digest('hex')}`);
          break;
        default:
          seen.set(path, 'other');
      }
    }
  };
  walk('');
  return new Map([...seen].toSorted(([one], [other]) => (one < other ? -1 : 1)));
}

const names = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom('a', 'b', 'c', 'src', 'x.ts', 'a-b', 'a.b', 'a b') },
  {
    weight: 2,
    arbitrary: fc.constantFrom(
      '.hidden',
      '-rf',
      '--',
      ' ',
      'new\nline',
      '.gitattributes',
      'nested',
      '*',
      '"',
      "'",
      '\\',
      '\t',
      '\u0001',
    ),
  },
  {
    weight: 1,
    arbitrary: fc
      .constantFrom('\u00e9', 'e\u0301', '\u65e5\u672c', '\ud83d\ude00', 'A', '\u00c5', '\u212b')
      .map(bytesOf),
  },
  { weight: 1, arbitrary: fc.constantFrom('\xff', '\xc3', 'caf\xe9', '\x80\x81', 'a\xed\xa0\x80b', '\xf0\x9f\x98') },
  { weight: 1, arbitrary: fc.constantFrom('n'.repeat(255), '\xfe'.repeat(255)) },
  { weight: 1, arbitrary: fc.string({ minLength: 1, maxLength: 8, unit: 'binary' }).map(bytesOf) },
);
const name = names.filter((one) => !/[/\0]/.test(one) && one !== '.' && one !== '..' && one.length <= 255);
const nested = fc.constantFrom(
  'nested/.git/HEAD',
  'nested/.git/objects/aa/bb',
  'nested/.git/refs/heads/main',
  'deep/er/.git',
);
const path = fc.oneof(
  { weight: 10, arbitrary: fc.array(name, { minLength: 1, maxLength: 4 }).map((parts) => parts.join('/')) },
  { weight: 1, arbitrary: nested },
  { weight: 1, arbitrary: fc.integer({ min: 5, max: 60 }).map((depth) => Array(depth).fill('d').join('/')) },
);
const content = fc.oneof(
  {
    weight: 3,
    arbitrary: fc
      .constantFrom('', 'same', 'equal contents\n', 'crlf\r\nlines\r\n', '* text=auto eol=crlf ident\n$Id$\n')
      .map((text) => Buffer.from(text)),
  },
  { weight: 3, arbitrary: fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)) },
  { weight: 1, arbitrary: fc.integer({ min: 1, max: 900_000 }).map((size) => Buffer.alloc(size, `${size} `)) },
  {
    weight: 1,
    // Around the size up to which files are read at once; long runs of zeros at the start, in the middle, at the end, and nothing else.
    arbitrary: fc
      .constantFrom([1_048_575], [1_048_576], [1_048_577], [-70_000, 9], [9, -1_300_000, 9], [9, -70_000], [-2_200_000])
      .map((runs) => Buffer.concat(runs.map((size) => Buffer.alloc(Math.abs(size), size < 0 ? 0 : `${size} `)))),
  },
);
// What nobody may read can be read by root alone: for others it is refused (see round-trip).
const isRoot = process.getuid?.() === 0;
const fileMode = fc.constantFrom(
  0o644,
  0o755,
  0o600,
  0o444,
  0o777,
  0o400,
  0o4755,
  ...(isRoot ? [0, 0o200, 0o111] : []),
);
const folderMode = fc.constantFrom(0o755, 0o700, 0o775, 0o555, 0o1777, ...(isRoot ? [0, 0o300] : []));
const target = fc.constantFrom('missing', '/etc/passwd', '.', '..', 'a', 'a/b', '../../..', '\xff\xfe', 'loop');

/** A tree of odd things. */
export const forest: fc.Arbitrary<Plant[]> = fc
  .array(
    fc.oneof(
      { weight: 6, arbitrary: fc.record({ path, type: fc.constant('file' as const), mode: fileMode, bytes: content }) },
      { weight: 2, arbitrary: fc.record({ path, type: fc.constant('folder' as const), mode: folderMode }) },
      { weight: 2, arbitrary: fc.record({ path, type: fc.constant('link' as const), target }) },
    ),
    { maxLength: 40 },
  )
  .map((plants) => plants.filter((one) => one.path !== '.git' && !one.path.startsWith('.git/')));

/** A temporary folder with a store, a root and the files between them. */
export class Ground implements Disposable {
  readonly folder = mkdtempSync(join(tmpdir(), 'agentctl-trees-'));
  readonly root = join(this.folder, 'root');
  readonly store = join(this.folder, 'store');
  readonly cache = join(this.folder, 'cache');
  readonly staging = join(this.folder, 'staging');
  readonly trees: Trees = openTrees(this.store);
  exclude: string[] = [];

  constructor(plants: readonly Plant[] = []) {
    plant(this.root, plants);
  }

  get options() {
    return { cache: this.cache, exclude: this.exclude, limits: { max_files: 1_000_000, max_bytes: 1e12 } };
  }

  /** What a child of a test is told. */
  get places() {
    const { root, store, cache, staging } = this;
    return { root, store, cache, staging };
  }

  snapshot = () => this.trees.snapshot(this.root, this.options);

  plan = (tree_hash: string, paths: string[] | null = null) =>
    this.trees.plan(this.root, tree_hash, { ...this.options, paths });

  /** Plans, stages and applies. */
  async restore(tree_hash: string, paths: string[] | null = null) {
    const plan = await this.plan(tree_hash, paths);
    await this.trees.stage(this.root, plan, this.staging);
    await this.trees.apply(this.root, this.staging);
    return plan;
  }

  look = () => look(this.root);

  [Symbol.dispose](): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** What a difference between two looks is called in a plan. */
export function differences(before: Map<string, string>, after: Map<string, string>) {
  const text = (path: string) => path;
  return {
    added: [...after.keys()].filter((one) => !before.has(one)).map(text),
    removed: [...before.keys()].filter((one) => !after.has(one)).map(text),
    changed: [...after].filter(([one, what]) => before.has(one) && before.get(one) !== what).map(([one]) => text(one)),
  };
}
