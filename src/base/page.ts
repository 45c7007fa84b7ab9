import { createHmac, timingSafeEqual } from 'node:crypto';
import { Fault } from '../api/error.ts';
import type { Page } from '../api/common.ts';

/** What a list is asked for, besides its filters. */
export interface Paging {
  limit: number;
  /** The key after which the page begins; null for the first page. */
  after: number | null;
  /** Wraps the last key of a page into an opaque cursor. */
  seal(key: number): string;
}

/**
 * Reads `limit` and `cursor`. A cursor is bound to everything in `scope` (endpoint, organization, filters): one that was not
 * made by this daemon for just this list throws `invalid_cursor`.
 */
export function paging(
  secret: Buffer,
  scope: unknown[],
  { limit, cursor }: { limit: number; cursor?: string | undefined },
): Paging {
  const tag = (key: number) =>
    createHmac('sha256', secret)
      .update(JSON.stringify([key, ...scope]))
      .digest('base64url')
      .slice(0, 22);
  const seal = (key: number) => Buffer.from(`${key}.${tag(key)}`).toString('base64url');
  if (cursor === undefined) return { limit, after: null, seal };
  const [key = '', given = ''] = Buffer.from(cursor, 'base64url').toString('latin1').split('.');
  const expected = /^\d{1,15}$/.test(key) ? tag(Number(key)) : '';
  if (
    given.length !== expected.length ||
    expected === '' ||
    !timingSafeEqual(Buffer.from(given), Buffer.from(expected))
  )
    throw new Fault(
      'invalid_cursor',
      'This cursor is not one of this list with these filters. Start again without it.',
      {
        param: 'cursor',
      },
    );
  return { limit, after: Number(key), seal };
}

/** Makes a page of rows that were read with one more than `limit`. */
export function toPage<Row extends { key: number }, T>(
  rows: Row[],
  { limit, seal }: Paging,
  read: (row: Row) => T,
): Page<T> {
  const more = rows.length > limit;
  const shown = more ? rows.slice(0, limit) : rows;
  const last = shown.at(-1);
  return { data: shown.map(read), next_cursor: more && last ? seal(last.key) : null };
}
