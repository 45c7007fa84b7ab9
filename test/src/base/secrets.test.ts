import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { systemClock as clock } from '../../../src/base/clock.ts';
import { openSecrets } from '../../../src/base/secrets.ts';

let folder: string;
let path: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'agentctl-secrets-'));
  path = join(folder, 'secrets.key');
});
afterEach(() => rmSync(folder, { recursive: true }));

test('any text comes back, also after a restart; no two seals are alike', () => {
  const secrets = openSecrets({ path, clock });
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), (text) => {
      const sealed = secrets.seal(text, 'webhook');
      expect(sealed).not.toBe(secrets.seal(text, 'webhook'));
      expect(openSecrets({ path, clock }).open(sealed, 'webhook')).toBe(text);
    }),
    { numRuns: 50 },
  );
});

test('what was changed, cut, sealed for something else or elsewhere does not open', () => {
  const secrets = openSecrets({ path, clock });
  const sealed = secrets.seal('the secret', 'webhook');
  const bytes = Buffer.from(sealed, 'base64url');
  for (let at = 0; at < bytes.length; at += 1) {
    const changed = Buffer.from(bytes);
    changed[at]! ^= 1;
    expect(() => secrets.open(changed.toString('base64url'), 'webhook')).toThrow('does not open');
    expect(() => secrets.open(bytes.subarray(0, at).toString('base64url'), 'webhook')).toThrow('does not open');
  }
  expect(() => secrets.open(sealed, 'connection')).toThrow('does not open');
  expect(() => openSecrets({ path: join(folder, 'other'), clock }).open(sealed, 'webhook')).toThrow('does not open');
});

test('the key is the user’s alone; one that others may read, or that is none, is refused and stays', () => {
  openSecrets({ path, clock });
  expect(statSync(path).mode & 0o777).toBe(0o600);
  const key = readFileSync(path);
  chmodSync(path, 0o644);
  expect(() => openSecrets({ path, clock })).toThrow('chmod 600');
  chmodSync(path, 0o600);
  expect(readFileSync(path)).toEqual(key);
  writeFileSync(path, 'short');
  expect(() => openSecrets({ path, clock })).toThrow('holds no key');
  expect(readFileSync(path, 'utf8')).toBe('short');
});
