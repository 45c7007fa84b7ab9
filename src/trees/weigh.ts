import { lstatSync, readdirSync } from 'node:fs';
import { type Bytes, toOs } from './name.ts';

/** What something takes on the disk, with all that is below it. */
export interface Weight {
  bytes: number;
  /** Files and links. */
  files: number;
}

/**
 * Adds up what these paths take on the disk, by what the system says of each file: none is opened. What several names lead to
 * counts once; what goes away meanwhile, or may not be looked at, counts nothing.
 */
export function weigh(paths: readonly Bytes[]): Weight[] {
  const seen = new Set<string>();
  const look = (path: Bytes, sum: Weight): void => {
    const stat = attempt(() => lstatSync(toOs(path)));
    if (!stat) return;
    if (!stat.isDirectory()) {
      sum.files += 1;
      if (stat.nlink > 1) {
        const key = `${stat.dev}:${stat.ino}`;
        if (seen.has(key)) return;
        seen.add(key);
      }
    }
    sum.bytes += stat.blocks * 512;
    if (stat.isDirectory())
      for (const name of attempt(() => readdirSync(toOs(path), 'latin1')) ?? []) look(`${path}/${name}`, sum);
  };
  return paths.map((path) => {
    const sum = { bytes: 0, files: 0 };
    look(path, sum);
    return sum;
  });
}

function attempt<Result>(act: () => Result): Result | undefined {
  try {
    return act();
  } catch {
    return undefined;
  }
}
