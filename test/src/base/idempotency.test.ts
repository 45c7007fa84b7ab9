import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Fault } from '../../../src/api/error.ts';
import { type Db, openDb } from '../../../src/base/db.ts';
import { createIdempotency, fingerprint, type Idempotency } from '../../../src/base/idempotency.ts';
import { packageRoot } from '../../../src/base/root.ts';
import { openSecrets } from '../../../src/base/secrets.ts';
import { createTestClock, type TestClock } from '../../kit/clock.ts';

let folder: string;
let db: Db;
let clock: TestClock;
let records: Idempotency;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'agentctl-db-'));
  db = openDb(join(folder, 'test.db'), join(packageRoot, 'src/schema'));
  clock = createTestClock();
  records = createIdempotency({ db, clock, secrets: openSecrets({ path: join(folder, 'secrets.key'), clock }) });
});
afterEach(() => {
  db.close();
  rmSync(folder, { recursive: true });
});

const day = 86_400_000;
const answer = { status: 201, headers: { location: '/v1/projects/1' }, body: '{"id":"1"}' };
const code = (act: () => unknown): string => {
  try {
    act();
  } catch (error) {
    return error instanceof Fault ? error.code : String(error);
  }
  return 'none';
};

test('the first request finds nothing, the same one again what was answered', () => {
  expect(records.find('o', 'k', 'print')).toBeUndefined();
  records.store('o', 'k', 'print', '1', answer);
  expect(records.find('o', 'k', 'print')).toEqual(answer);
});

test('a key belongs to one organization', () => {
  records.store('o', 'k', 'print', '1', answer);
  expect(records.find('other', 'k', 'another print')).toBeUndefined();
});

test('another request under the same key is refused', () => {
  records.store('o', 'k', 'print', '1', answer);
  expect(code(() => records.find('o', 'k', 'another print'))).toBe('idempotency_key_reused');
});

test('while the first request is being worked on the second is told to come again', () => {
  const end = records.begin('o', 'k');
  expect(code(() => records.find('o', 'k', 'print'))).toBe('idempotency_in_progress');
  expect(code(() => records.find('o', 'other', 'print'))).toBe('none');
  end();
  expect(records.find('o', 'k', 'print')).toBeUndefined();
});

test('an empty answer is replayed as one', () => {
  records.store('o', 'k', 'print', null, { status: 204, headers: {}, body: null });
  expect(records.find('o', 'k', 'print')).toEqual({ status: 204, headers: {}, body: null });
});

test('a secret is kept sealed, shown again for ten minutes and then forgotten', () => {
  const secret = { name: 'key', value: 'agk_very-secret' };
  records.store('o', 'k', 'print', '1', { ...answer, secret });
  const stored = () => db.get<{ secret: string | null }>('SELECT secret FROM idempotency')!.secret;
  expect(stored()).not.toContain('very-secret');
  clock.advance(600_000 - 1);
  expect(records.find('o', 'k', 'print')).toEqual({ ...answer, secret });
  clock.advance(1);
  expect(records.find('o', 'k', 'print')).toEqual(answer);
  expect(records.expire()).toBe(0);
  expect(stored()).toBeNull();
});

test('what is rolled back leaves no record', () => {
  expect(() =>
    db.write(() => {
      records.store('o', 'k', 'print', '1', answer);
      throw new Error('no');
    }),
  ).toThrow('no');
  expect(records.find('o', 'k', 'another print')).toBeUndefined();
});

test('a record is kept for seven days and not longer', () => {
  records.store('o', 'k', 'print', '1', answer);
  clock.advance(7 * day - 1);
  expect(records.expire()).toBe(0);
  expect(records.find('o', 'k', 'print')).toEqual(answer);
  clock.advance(1);
  expect(records.find('o', 'k', 'print')).toBeUndefined();
  records.store('o', 'k', 'another print', '2', answer);
  expect(records.resourceOf('o', 'k')).toBe('2');
  clock.advance(7 * day);
  expect(records.expire()).toBe(1);
  expect(records.resourceOf('o', 'k')).toBeNull();
});

test('a request is the same exactly when method, address, body and preconditions are', () => {
  const part = fc.string({ maxLength: 4 });
  const parts = fc.record({ method: part, url: part, body: part, ifMatch: part, ifNoneMatch: part });
  fc.assert(
    fc.property(parts, parts, (a, b) => {
      expect(fingerprint(a) === fingerprint(b)).toBe(JSON.stringify(a) === JSON.stringify(b));
      expect(fingerprint(a)).toBe(fingerprint({ ...a }));
    }),
  );
  const one = { method: 'POST', url: '/a', body: 'b', ifMatch: '', ifNoneMatch: '' };
  expect(fingerprint({ ...one, url: '/ab', body: '' })).not.toBe(fingerprint(one));
  expect(fingerprint({ ...one, ifMatch: 'x' })).not.toBe(fingerprint({ ...one, ifNoneMatch: 'x' }));
});
