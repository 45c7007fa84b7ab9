import { isUtf8 } from 'node:buffer';
import { structuredPatch } from 'diff';
import type { Changes, FileChange } from '../api/runs.ts';
import type { Change, Entry } from '../trees/reading.ts';
import type { Trees } from '../trees/trees.ts';

/** A file with more bytes is not compared line by line. */
const maxBytes = 1_048_576;
/** A comparison goes so far into the lines of files: how many files, and how many bytes of them. */
const maxFiles = 300;
const maxTotal = 33_554_432;
/** One file takes at most so long (milliseconds) and so many edits. */
const effort = { timeout: 500, maxEditLength: 20_000 };

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

async function textOf(trees: Trees, entry: Entry | null): Promise<string | null> {
  if (entry === null) return '';
  if (entry.type === 'symlink') return entry.target;
  const bytes = await trees.open(entry.hash!);
  return isUtf8(bytes) && !bytes.includes(0) ? bytes.toString('utf8') : null;
}

async function hunksOf(trees: Trees, from: Entry | null, to: Entry | null): Promise<string[] | null> {
  if (bytesOf(from) > maxBytes || bytesOf(to) > maxBytes) return null;
  if (from && to && from.hash === to.hash && from.target === to.target) return [];
  const [before, after] = [await textOf(trees, from), await textOf(trees, to)];
  if (before === null || after === null) return null;
  const patch = structuredPatch('', '', before, after, '', '', { context: 3, ...effort });
  return (
    patch?.hunks.flatMap(({ oldStart, oldLines, newStart, newLines, lines }) => [
      `@@ -${oldLines === 0 ? oldStart - 1 : oldStart},${oldLines} +${newLines === 0 ? newStart - 1 : newStart},${newLines} @@`,
      ...lines,
    ]) ?? null
  );
}

/** Files and links that differ between two trees, each with its lines as far as that is worth it. */
async function* compared(trees: Trees, before: string, after: string): AsyncGenerator<Compared> {
  let [files, total] = [0, 0];
  const changes: Change[] = await trees.diff(before, after);
  for (const { path, ...change } of changes) {
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
  const files = new Map<string, FileChange>();
  for await (const { path, change, hunks } of compared(trees, before, after)) {
    const [additions, deletions] = [count(hunks, '+'), count(hunks, '-')];
    const first = files.get(path);
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
    additions: sum(all.map(({ additions }) => additions)),
    deletions: sum(all.map(({ deletions }) => deletions)),
  };
}

const modeOf = ({ type, mode }: Entry): string => (type === 'symlink' ? '120000' : mode & 0o100 ? '100755' : '100644');

/** A path as git writes it: in quotation marks when it holds what would break a line. */
const named = (side: 'a' | 'b', path: string): string =>
  // oxlint-disable-next-line no-control-regex -- control characters are meant
  /["\\\x00-\x1f\x7f]/.test(path) ? JSON.stringify(`${side}/${path}`) : `${side}/${path}`;

/** What changed between two trees as a unified diff, as `git apply` takes it. Throws TreeError. */
export async function patchBetween(trees: Trees, before: string, after: string): Promise<string> {
  const lines: string[] = [];
  for await (const { path, from, to, hunks } of compared(trees, before, after)) {
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
  return lines.length === 0 ? '' : `${lines.join('\n')}\n`;
}
