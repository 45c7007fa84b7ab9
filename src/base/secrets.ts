import { createCipheriv, createDecipheriv } from 'node:crypto';
import { closeSync, fsyncSync, linkSync, openSync, readFileSync, rmSync, statSync, writeSync } from 'node:fs';
import type { Clock } from './clock.ts';
import { ConfigError } from './config.ts';

/** What must be kept and must not lie about: AES-256-GCM under a key of this installation. */
export interface Secrets {
  /** Base64url text that only `open` with the same purpose makes sense of. */
  seal(text: string, purpose: string): string;
  /** The text again. Throws for one that is damaged, of another purpose or of another installation. */
  open(sealed: string, purpose: string): string;
}

const keyBytes = 32;
const nonceBytes = 12;
const tagBytes = 16;

/** Secrets under the key in the file at `path`, which is made, mode 0600, when there is none. Throws ConfigError for one that others may read. */
export function openSecrets({ path, clock }: { path: string; clock: Clock }): Secrets {
  const key = readKey(path) ?? makeKey(path, clock.random(keyBytes));
  return {
    seal(text, purpose) {
      const nonce = clock.random(nonceBytes);
      const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(purpose));
      const bytes = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
      return Buffer.concat([nonce, cipher.getAuthTag(), bytes]).toString('base64url');
    },
    open(sealed, purpose) {
      const all = Buffer.from(sealed, 'base64url');
      try {
        const cipher = createDecipheriv('aes-256-gcm', key, all.subarray(0, nonceBytes)).setAAD(Buffer.from(purpose));
        cipher.setAuthTag(all.subarray(nonceBytes, nonceBytes + tagBytes));
        return Buffer.concat([cipher.update(all.subarray(nonceBytes + tagBytes)), cipher.final()]).toString('utf8');
      } catch (error) {
        throw new Error('This secret does not open.', { cause: error });
      }
    },
  };
}

function readKey(path: string): Buffer | undefined {
  let key: Buffer;
  try {
    if (statSync(path).mode & 0o077)
      throw new ConfigError(`${path} can be read by others. Close it with: chmod 600 ${path}`);
    key = readFileSync(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  if (key.length !== keyBytes) throw new ConfigError(`${path} holds no key: it must have ${keyBytes} bytes.`);
  return key;
}

function makeKey(path: string, key: Buffer): Buffer {
  const file = openSync(`${path}.new`, 'w', 0o600);
  writeSync(file, key);
  fsyncSync(file);
  closeSync(file);
  // Never over a key that is there: what was sealed with it would be lost.
  linkSync(`${path}.new`, path);
  rmSync(`${path}.new`);
  return key;
}
