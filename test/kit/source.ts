import { join } from 'node:path';
import { packageRoot } from '../../src/base/root.ts';

const cache = join(packageRoot, 'node_modules/.cache/compiled');

/**
 * argv that runs a program of ours from its source. What was compiled is kept for the next one, which starts in half the time; said
 * here and not in the environment, which children would inherit.
 */
export const fromSource = (file: string, ...args: string[]): [string, ...string[]] => [
  process.execPath,
  '--disable-warning=ExperimentalWarning',
  '--import',
  `data:text/javascript,${encodeURIComponent(`import { enableCompileCache } from 'node:module'; enableCompileCache(${JSON.stringify(cache)});`)}`,
  file,
  ...args,
];
