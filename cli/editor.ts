import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { exit, Stop } from './exit.ts';
import type { Environment } from './running.ts';

/** What came out of the editor. */
export interface Edited {
  bytes: Buffer;
  /** Where it lies until `remove` is called. */
  path: string;
  remove(): void;
}

/** Opens a copy under the file's own name in $VISUAL, $EDITOR or vi, and waits for its end. Throws Stop when that fails. */
export async function editCopy(env: Environment, name: string, bytes: Buffer): Promise<Edited> {
  const folder = mkdtempSync(join(tmpdir(), 'agentctl-edit-'));
  const path = join(folder, basename(name));
  writeFileSync(path, bytes, { mode: 0o600 });
  const editor = env.VISUAL || env.EDITOR || 'vi';
  // An editor may be named with arguments, as git and others have it: the shell takes it apart, the path is handed over whole.
  const child = spawn('/bin/sh', ['-c', `${editor} "$1"`, editor, path], { stdio: 'inherit' });
  const code = await new Promise<number | null>((resolve) =>
    child.once('close', resolve).once('error', () => resolve(127)),
  );
  const remove = () => rmSync(folder, { recursive: true, force: true });
  if (code !== 0) {
    remove();
    throw new Stop(
      exit.failed,
      `The editor “${editor}” ended with ${code ?? 'a signal'}; nothing was written.`,
      'set EDITOR to another one',
    );
  }
  return { bytes: readFileSync(path), path, remove };
}
