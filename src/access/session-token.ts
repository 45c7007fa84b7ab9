import { createHash, timingSafeEqual } from 'node:crypto';
import { chmodSync, closeSync, fsyncSync, openSync, readFileSync, renameSync, statSync, writeSync } from 'node:fs';
import type { Clock } from '../base/clock.ts';

/**
 * The local session's token (contract section 10): whoever may read this 0600 file is the user. Only a hash stays in
 * memory.
 */
export function openSessionToken(path: string, clock: Clock) {
  const hash = (token: string) => createHash('sha256').update(token).digest();
  const make = () => {
    const token = `ags_${clock.random(32).toString('base64url')}`;
    const file = openSync(`${path}.new`, 'w', 0o600);
    writeSync(file, `${token}\n`);
    fsyncSync(file);
    closeSync(file);
    renameSync(`${path}.new`, path);
    return hash(token);
  };

  let expected: Buffer;
  try {
    const { mode } = statSync(path);
    if (mode & 0o077) chmodSync(path, 0o600);
    const token = readFileSync(path, 'utf8').trim();
    // A file that others could read, or that holds no token, is replaced: what it held is to be trusted no more.
    expected = mode & 0o077 || !token.startsWith('ags_') ? make() : hash(token);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    expected = make();
  }

  return {
    matches: (token: string): boolean => timingSafeEqual(hash(token), expected),
    /** Replaces the token: the one before is worth nothing from now on. */
    rotate(): void {
      expected = make();
    },
  };
}
export type SessionToken = ReturnType<typeof openSessionToken>;
