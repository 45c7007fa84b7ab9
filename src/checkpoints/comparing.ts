import type { Changes, FileChange } from '../api/runs.ts';
import { toBytes } from '../trees/name.ts';
import type { Entry } from '../trees/reading.ts';
import type { Trees } from '../trees/trees.ts';

/** A file with more bytes is not compared line by line. */
const maxBytes = 1_048_576;
/** A comparison goes so far into the lines of files: how many files, and how many bytes of them. */
const maxFiles = 300;
const maxTotal = 33_554_432;
/** A comparison that a person or program reads names so many files at most. */
export const maxNamed = 10_000;

interface Compared {
  change: FileChange['change'];
  path: string;
  from: Entry | null;
  to: Entry | null;
  /** Lines from `@@` on; null where the contents were not compared: no text, or too much. */
  hunks: string[] | null;
}

/** A folder is nothing to read: what is in it is compared by itself. */
const readable = (entry: Entry | null): Entry | null => (entry?.type === 'directory' ? null : entry);
const bytesOf = (entry: Entry | null): number => entry?.size ?? 0;

async function hunksOf(trees: Trees, from: Entry | null, to: Entry | null): Promise<string[] | null> {
  if (bytesOf(from) > maxBytes || bytesOf(to) > maxBytes) return null;
  if (from && to && from.hash === to.hash && from.target === to.target) return [];
  return trees.hunks(from, to);
}

/** Files and links that differ between two trees, each with its lines as far as that is worth it. */
async function* compared(trees: Trees, before: string, after: string, signal?: AbortSignal): AsyncGenerator<Compared> {
  let [files, total] = [0, 0];
  for (const { path, ...change } of await trees.diff(before, after)) {
    signal?.throwIfAborted();
    const [from, to] = [readable(change.from), readable(change.to)];
    if (!from && !to) continue;
    // A file in a link's place, or the other way round, is another thing under the same name.
    const parts =
      from && to && from.type !== to.type ? [[from, null] as const, [null, to] as const] : [[from, to] as const];
    for (const [was, is] of parts) {
      files += 1;
      total += bytesOf(was) + bytesOf(is);
      const hunks = files > maxFiles || total > maxTotal ? null : await hunksOf(trees, was, is);
      yield { path, change: was ? (is ? 'modified' : 'deleted') : 'added', from: was, to: is, hunks };
    }
  }
}

const count = (hunks: string[] | null, sign: '+' | '-'): number | null =>
  hunks && hunks.filter((line) => line.startsWith(sign)).length;
const sum = (numbers: (number | null)[]): number | null =>
  numbers.reduce((before, one) => (before === null || one === null ? null : before + one), 0);

/** What changed between two trees, with counts of lines; null where a file is no text or too large. Throws TreeError. */
export async function changesBetween(trees: Trees, before: string, after: string): Promise<Changes> {
  const { truncated: _, ...changes } = await comparison(trees, before, after, Infinity);
  return changes;
}

/** The same, naming `most` files at most; `truncated` says whether there are more. */
export async function comparison(
  trees: Trees,
  before: string,
  after: string,
  most: number,
  signal?: AbortSignal,
): Promise<Changes & { truncated: boolean }> {
  const files = new Map<string, FileChange>();
  let truncated = false;
  for await (const { path, change, hunks } of compared(trees, before, after, signal)) {
    const [additions, deletions] = [count(hunks, '+'), count(hunks, '-')];
    const first = files.get(path);
    truncated = !first && files.size >= most;
    if (truncated) break;
    files.set(
      path,
      first
        ? {
            path,
            change: 'modified',
            additions: sum([first.additions, additions]),
            deletions: sum([first.deletions, deletions]),
          }
        : { path, change, additions, deletions },
    );
  }
  const all = [...files.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
  return {
    files: all,
    additions: truncated ? null : sum(all.map(({ additions }) => additions)),
    deletions: truncated ? null : sum(all.map(({ deletions }) => deletions)),
    truncated,
  };
}

const modeOf = ({ type, mode }: Entry): string => (type === 'symlink' ? '120000' : mode & 0o100 ? '100755' : '100644');

const escapes: Record<string, string> = { '"': '\\"', '\\': '\\\\', '\t': '\\t', '\n': '\\n', '\r': '\\r' };

/** A path as git writes it: in quotation marks, its bytes escaped, when it holds what would break a line or is no text. */
function named(side: 'a' | 'b', path: string): string {
  // oxlint-disable-next-line no-control-regex -- control characters are meant
  if (path.isWellFormed() && !/["\\\x00-\x1f\x7f]/.test(path)) return `${side}/${path}`;
  // oxlint-disable-next-line no-control-regex -- control characters are meant
  const quoted = toBytes(path).replaceAll(/["\\\x00-\x1f\x7f-\xff]/g, (byte) => {
    return escapes[byte] ?? `\\${byte.charCodeAt(0).toString(8).padStart(3, '0')}`;
  });
  return `"${side}/${quoted}"`;
}

/**
 * What changed between two trees as a unified diff, as `git apply` takes it. More files than `most` are only counted, in a last
 * line that is no part of a patch. Throws TreeError.
 */
export async function patchBetween(
  trees: Trees,
  before: string,
  after: string,
  most = maxNamed,
  signal?: AbortSignal,
): Promise<string> {
  const lines: string[] = [];
  let files = 0;
  for await (const { path, from, to, hunks } of compared(trees, before, after, signal)) {
    if (++files > most) continue;
    const [a, b] = [named('a', path), named('b', path)];
    const head = [`diff --git ${a} ${b}`];
    if (!from) head.push(`new file mode ${modeOf(to!)}`);
    else if (!to) head.push(`deleted file mode ${modeOf(from)}`);
    else if (modeOf(from) !== modeOf(to)) head.push(`old mode ${modeOf(from)}`, `new mode ${modeOf(to)}`);
    else if (hunks?.length === 0) continue;
    lines.push(...head);
    const [left, right] = [from ? a : '/dev/null', to ? b : '/dev/null'];
    if (hunks === null) lines.push(`Binary files ${left} and ${right} differ`);
    else if (hunks.length > 0) lines.push(`--- ${left}`, `+++ ${right}`, ...hunks);
  }
  if (files > most) lines.push(`# ${files - most} more files differ.`);
  return lines.length === 0 ? '' : `${lines.join('\n')}\n`;
}
