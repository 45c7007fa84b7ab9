import { isUtf8 } from 'node:buffer';
import type { Packs } from './packs.ts';
import type { Entry } from './reading.ts';

/** One file takes at most so long (milliseconds) and so many edits. */
const effort = { timeout: 500, maxEditLength: 20_000 };

/** What is to be compared: null is a file that is not there. */
export type Side = Pick<Entry, 'type' | 'hash' | 'target'> | null;

function textOf(packs: Packs, side: Side): string | null {
  if (side === null) return '';
  if (side.type === 'symlink') return side.target;
  const bytes = packs.read(Buffer.from(side.hash!, 'hex'));
  return isUtf8(bytes) && !bytes.includes(0) ? bytes.toString('utf8') : null;
}

/**
 * How the lines of two files or links differ, from `@@` on as a unified diff has it; none when they are equal, null when one is
 * no text or they differ in too much. Throws TreeError `damaged`.
 */
export async function hunksBetween(packs: Packs, from: Side, to: Side): Promise<string[] | null> {
  const [before, after] = [textOf(packs, from), textOf(packs, to)];
  if (before === null || after === null) return null;
  // Most threads never compare lines: they need not load what does.
  const { structuredPatch } = await import('diff');
  const patch = structuredPatch('', '', before, after, '', '', { context: 3, ...effort });
  return (
    patch?.hunks.flatMap(({ oldStart, oldLines, newStart, newLines, lines }) => [
      `@@ -${oldLines === 0 ? oldStart - 1 : oldStart},${oldLines} +${newLines === 0 ? newStart - 1 : newStart},${newLines} @@`,
      ...lines,
    ]) ?? null
  );
}
