import { execFileSync } from 'node:child_process';
import {
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { links } from './payloads.ts';

/** Words that stand outside of the workspace, or in its git folder, and must never come out. */
export const secrets = ['CANARY-OUTSIDE', 'CANARY-GIT', 'root:x:0'];
/** What is written where nothing may be written. */
export const trace = 'TRACE-OF-A-WRITE';

/** A workspace `ws` full of links, between folders that it must not reach. */
export interface Grounds {
  folder: string;
  ws: string;
  /** Everything around the workspace and in its git folder, to be compared. */
  around(): string;
  remove(): void;
}

export function createGrounds(): Grounds {
  const folder = mkdtempSync(join(realpathSync(tmpdir()), 'agentctl-grounds-'));
  const ws = join(folder, 'ws');
  const outer = join(folder, 'outer');
  for (const path of [
    join(ws, 'sub', 'deep'),
    join(ws, '.git', 'hooks'),
    join(ws, 'sub', '.git'),
    outer,
    `${ws}-other`,
  ])
    mkdirSync(path, { recursive: true });
  for (const path of [join(outer, 'secret'), join(`${ws}-other`, 'secret')]) writeFileSync(path, 'CANARY-OUTSIDE');
  for (const path of ['.git/config', '.git/HEAD', '.git/hooks/post-checkout', 'sub/.git/config'])
    writeFileSync(join(ws, path), 'CANARY-GIT');
  writeFileSync(join(ws, 'sub', 'inside'), 'inside');
  symlinkSync('../../outer/secret', join(ws, 'sub', 'chain-out-2'));
  for (const [name, target] of links) symlinkSync(target.replace('{ws}', ws).replace('{outer}', outer), join(ws, name));
  execFileSync('mkfifo', [join(ws, 'fifo')]);
  const read = (path: string): unknown => {
    const stat = lstatSync(path);
    if (stat.isDirectory())
      return readdirSync(path)
        .toSorted()
        .map((name) => [name, read(join(path, name))]);
    return [stat.mode, stat.isFile() ? readFileSync(path, 'utf8') : 'special'];
  };
  return {
    folder,
    ws,
    around: () =>
      JSON.stringify(
        [readdirSync(folder).toSorted(), outer, `${ws}-other`, join(ws, '.git'), join(ws, 'sub', '.git')].map((path) =>
          Array.isArray(path) ? path : read(path),
        ),
      ),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}
