import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Fault } from '../../../src/api/error.ts';
import { paging, toPage } from '../../../src/base/page.ts';

const secret: Buffer = createHash('sha256').update('one').digest();
const scope = ['listProjects', 'organization', {}, { archived: true }];
const seal = (key: number, of: unknown[] = scope, by = secret) => paging(by, of, { limit: 10 }).seal(key);
const open = (cursor: string, of: unknown[] = scope, by = secret) => paging(by, of, { limit: 10, cursor }).after;

const refused = (cursor: string, of?: unknown[], by?: Buffer) => {
  try {
    open(cursor, of, by);
  } catch (error) {
    return error instanceof Fault && error.code === 'invalid_cursor' && error.param === 'cursor';
  }
  return false;
};

const key = fc.integer({ min: 0, max: 999_999_999_999_999 });

test('without a cursor a page begins at the beginning', () => {
  expect(paging(secret, scope, { limit: 10 }).after).toBeNull();
});

test('any key comes back from its cursor', () => {
  fc.assert(
    fc.property(key, (number) => {
      expect(open(seal(number))).toBe(number);
    }),
  );
});

test('a cursor says nothing that a URL would have to escape', () => {
  fc.assert(
    fc.property(key, (number) => {
      expect(seal(number)).toMatch(/^[A-Za-z0-9_-]+$/);
    }),
  );
});

test('a cursor of another list, filter, organization or daemon is refused', () => {
  fc.assert(
    fc.property(key, fc.nat({ max: 3 }), (number, at) => {
      const other = scope.map((part, index) => (index === at ? { other: part } : part));
      expect(refused(seal(number, other))).toBe(true);
    }),
  );
  expect(refused(seal(7, scope, createHash('sha256').update('two').digest()))).toBe(true);
});

test('a cursor with one character changed, added or taken away is refused', () => {
  const characters = fc.constantFrom(
    ...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=.!~ \n\u00e4'.split(''),
  );
  fc.assert(
    fc.property(
      key,
      fc.nat(),
      characters,
      fc.constantFrom('change', 'add', 'remove'),
      (number, position, character, how) => {
        const cursor = seal(number);
        const at = position % cursor.length;
        const kept = how === 'add' ? cursor.slice(at) : cursor.slice(at + 1);
        const tampered = cursor.slice(0, at) + (how === 'remove' ? '' : character) + kept;
        fc.pre(tampered !== cursor);
        expect({ cursor, tampered, refused: refused(tampered) }).toMatchObject({ refused: true });
      },
    ),
    { numRuns: 2_000 },
  );
});

test.each([
  ['a character appended that no alphabet has', (cursor: string) => `${cursor}!`],
  ['padding', (cursor: string) => `${cursor}=`],
  ['a line end', (cursor: string) => `${cursor}\n`],
  ['a further part after the tag', (cursor: string) => wrap(`${unwrap(cursor)}.more`)],
  ['a zero before the key', (cursor: string) => wrap(`0${unwrap(cursor)}`)],
  ['the tag cut off', (cursor: string) => wrap(unwrap(cursor).split('.')[0]!)],
  ['the tag cut short', (cursor: string) => wrap(unwrap(cursor).slice(0, -1))],
  ['a key of its own with an old tag', (cursor: string) => wrap(`8.${unwrap(cursor).split('.')[1]}`)],
  ['nothing', () => ''],
  ['text', () => 'next'],
  ['a number', () => '7'],
  ['a megabyte', () => 'A'.repeat(1_000_000)],
])('a cursor is refused: %s', (_name, tamper) => {
  expect(refused(tamper(seal(7)))).toBe(true);
});

test('text that nobody sealed is refused', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      expect(refused(text)).toBe(true);
    }),
  );
});

test('a page shows at most its limit, and has a cursor exactly when there is more', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 0, max: 40 }), (limit, stored) => {
      const at = paging(secret, scope, { limit });
      const rows = Array.from({ length: stored }, (_, index) => ({ key: index + 1 })).slice(0, limit + 1);
      const { data, next_cursor } = toPage(rows, at, (row) => row.key);
      expect(data).toEqual(rows.slice(0, limit).map((row) => row.key));
      expect(next_cursor === null ? null : open(next_cursor)).toBe(stored > limit ? limit : null);
    }),
  );
});

const unwrap = (cursor: string) => Buffer.from(cursor, 'base64url').toString('latin1');
const wrap = (text: string) => Buffer.from(text, 'latin1').toString('base64url');
