import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { harnessPackages } from '../api/harness-packages.ts';

/** Where npm puts a package's program, below the folder that it was installed in. */
const programIn = (folder: string, program: string): string => join(folder, 'node_modules', '.bin', program);

const byVersion = (one: string, other: string): number => one.localeCompare(other, 'en', { numeric: true });

/**
 * The program of a harness that was installed by `agentctl harnesses install`, below `folder`: of the version that this agentctl
 * knows, otherwise of the latest that is there. Null when there is none.
 */
export function installedProgram(folder: string, id: string): string | null {
  const known = harnessPackages[id];
  if (!known) return null;
  let versions: string[] = [];
  try {
    versions = readdirSync(join(folder, id)).filter((name) => /^\d/.test(name));
  } catch {
    return null;
  }
  const latest = versions.toSorted(byVersion).toReversed();
  const found = [known.version, ...latest].map((version) => programIn(join(folder, id, version), known.program));
  return found.find((path) => existsSync(path)) ?? null;
}
