import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';

/** Takes a staged file away, if it is there. */
export function removeStaged(staging: string, name: string): void {
  rmSync(join(staging, name), { force: true });
}

/** Makes the folder for bytes on their way, and takes away what nobody is waiting for any more. */
export function tidyStaging(staging: string, needed: ReadonlySet<string>): void {
  mkdirSync(staging, { recursive: true, mode: 0o700 });
  for (const name of readdirSync(staging))
    if (!needed.has(name)) rmSync(join(staging, name), { force: true, recursive: true });
}
