import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** The folder of the installed package: where package.json, the schema and the built programs are. */
export const packageRoot = ((): string => {
  for (let folder = import.meta.dirname; ; folder = dirname(folder)) {
    if (existsSync(join(folder, 'package.json'))) return folder;
    if (folder === dirname(folder)) throw new Error('agentctl cannot find its own package.json.');
  }
})();

/** The version of this program. */
export const version: string =
  process.env.AGENTCTL_VERSION ??
  (JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8')) as { version: string }).version;

/** argv that starts a program of ours: what was built, or from source where this runs from source. */
export const ownProgram = (built: string, source: string): [string, string] => [
  process.execPath,
  import.meta.filename.endsWith('.ts') ? join(packageRoot, source) : join(packageRoot, 'dist', built),
];
