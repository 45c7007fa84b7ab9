import { createCipheriv, createDecipheriv, hkdfSync } from 'node:crypto';
import {
  chmodSync,
  closeSync,
  fsyncSync,
  linkSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import type { Clock } from './clock.ts';

/**
 * Encryption at rest. `place` says where a secret belongs (table, row, field): what was sealed for one place opens at no other,
 * so that rows cannot be swapped.
 */
export interface Secrets {
  /** The sealed form of a text; two of the same text differ. */
  seal(place: string, text: string): string;
  /** The text again. Throws SecretUnreadable. */
  open(place: string, sealed: string): string;
}

/** What was sealed cannot be opened: by another key, for another place, or damaged. */
export class SecretUnreadable extends Error {}

/**
 * Opens the key file, which is made when there is none: 32 bytes, mode 0600. It protects copies and backups of the database;
 * not against programs of the same user.
 */
export function openSecrets(path: string, clock: Clock): Secrets {
  const master = readKey(path) ?? makeKey(path, clock);
  const key = Buffer.from(hkdfSync('sha256', master, '', 'agentctl secrets at rest', 32));
  return {
    seal(place, text) {
      const nonce = clock.random(12);
      const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(place));
      const bytes = Buffer.concat([nonce, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]);
      return `v1.${bytes.toString('base64url')}`;
    },

    open(place, sealed) {
      try {
        if (!sealed.startsWith('v1.')) throw new Error('unknown form');
        const bytes = Buffer.from(sealed.slice(3), 'base64url');
        const cipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, 12), { authTagLength: 16 });
        cipher.setAAD(Buffer.from(place)).setAuthTag(bytes.subarray(-16));
        return Buffer.concat([cipher.update(bytes.subarray(12, -16)), cipher.final()]).toString('utf8');
      } catch (error) {
        throw new SecretUnreadable('A stored secret cannot be read with the key of this data directory.', {
          cause: error,
        });
      }
    },
  };
}

function readKey(path: string): Buffer | undefined {
  let key: Buffer;
  try {
    key = readFileSync(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  // A key that is not whole is never replaced in silence: what it has sealed would be lost with it.
  if (key.length !== 32) throw new Error(`${path} is not a key of 32 bytes.`);
  if (statSync(path).mode & 0o077) chmodSync(path, 0o600);
  return key;
}

function makeKey(path: string, clock: Clock): Buffer {
  const key = clock.random(32);
  const fresh = `${path}.new`;
  rmSync(fresh, { force: true });
  const file = openSync(fresh, 'wx', 0o600);
  writeSync(file, key);
  fsyncSync(file);
  closeSync(file);
  // Under its name only when it is whole, and never over another one.
  linkSync(fresh, path);
  rmSync(fresh);
  return key;
}
