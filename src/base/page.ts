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

/** The same for a list that is ordered by a text. */
export interface TextPaging extends Omit<Paging, 'after' | 'seal'> {
  after: string | null;
  seal(key: string): string;
}

interface Asked {
  limit: number;
  cursor?: string | undefined;
}

/**
 * Reads `limit` and `cursor`. A cursor is bound to everything in `scope` (endpoint, organization, filters): one that was not
 * made by this daemon for just this list throws `invalid_cursor`.
 */
export function paging(secret: Buffer, scope: unknown[], { limit, cursor }: Asked): Paging {
  const { seal, open } = sealing(secret, scope);
  if (cursor === undefined) return { limit, after: null, seal: (key) => seal(String(key)) };
  const key = open(cursor);
  if (!/^\d{1,15}$/.test(key)) throw badCursor();
  return { limit, after: Number(key), seal: (next) => seal(String(next)) };
}

/** The same for a list that is ordered by a text. */
export function textPaging(secret: Buffer, scope: unknown[], { limit, cursor }: Asked): TextPaging {
  const { seal, open } = sealing(secret, scope);
  return { limit, after: cursor === undefined ? null : open(cursor), seal };
}

function sealing(secret: Buffer, scope: unknown[]) {
  const tag = (key: string) =>
    createHmac('sha256', secret)
      .update(JSON.stringify([key, ...scope]))
      .digest('base64url')
      .slice(0, 22);
  const seal = (key: string) => Buffer.from(`${tag(key)}.${key}`).toString('base64url');
  return {
    seal,
    open(cursor: string): string {
      const text = Buffer.from(cursor, 'base64url').toString('utf8');
      const key = text.slice(text.indexOf('.') + 1);
      // Compared as it was sealed: base64 that only decodes to the same is none of ours.
      const expected = Buffer.from(seal(key));
      const given = Buffer.from(cursor);
      if (given.length !== expected.length || !timingSafeEqual(given, expected)) throw badCursor();
      return key;
    },
  };
}

const badCursor = (): Fault =>
  new Fault('invalid_cursor', 'This cursor is not one of this list with these filters. Start again without it.', {
    param: 'cursor',
  });

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
