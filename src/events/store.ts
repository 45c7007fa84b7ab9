import type { Db } from '../base/db.ts';
import type { Announcement } from './announcements.ts';

export interface Row {
  key: number;
  sequence: number;
  body: string;
}

/** The log's SQL. Runs are named by their integer key. */
export const createStore = (db: Db) => ({
  add: (run: number, sequence: number, type: string, body: string) =>
    db.run('INSERT INTO events (run, sequence, type, body) VALUES (?, ?, ?, ?)', [run, sequence, type, body]),

  page: (run: number, after: number, limit: number): Row[] =>
    db.all(
      'SELECT sequence AS key, sequence, body FROM events WHERE run = ? AND sequence > ? ORDER BY sequence LIMIT ?',
      [run, after, limit],
    ),

  stretch: (run: number, after: number, limit: number): { sequence: number; type: string; body: string }[] =>
    db.all('SELECT sequence, type, body FROM events WHERE run = ? AND sequence > ? ORDER BY sequence LIMIT ?', [
      run,
      after,
      limit,
    ]),

  /**
   * Server-sent events of a stretch as bytes, ready to be written, their number and the last sequence. Their order is that of the
   * inner SELECT, which its LIMIT keeps whole: an ORDER BY in the aggregate would sort all of it once more.
   */
  block: (
    run: number,
    after: number,
    limit: number,
  ): { bytes: Buffer | null; count: number; last: number; terminal: 0 | 1 } =>
    db.get(
      `SELECT CAST(group_concat(concat('id: ', sequence, char(10), 'event: ', type, char(10), 'data: ', body, char(10, 10)), '')
                   AS BLOB) AS bytes,
              count(*) AS count, max(sequence) AS last,
              max(type IN ('run.completed', 'run.failed', 'run.cancelled')) AS terminal
       FROM (SELECT sequence, type, body FROM events WHERE run = ? AND sequence > ? ORDER BY sequence LIMIT ?)`,
      [run, after, limit],
    )!,

  oldest: (run: number): number | null =>
    db.get<{ oldest: number | null }>('SELECT min(sequence) AS oldest FROM events WHERE run = ?', [run])!.oldest,

  announce: ({ organization_id, run_id, type, created_at, data }: Omit<Announcement, 'key'>) =>
    db.run('INSERT INTO announcements (organization_id, run_id, type, created_at, data) VALUES (?, ?, ?, ?, ?)', [
      organization_id,
      run_id,
      type,
      created_at,
      JSON.stringify(data),
    ]),

  announcements: (limit: number): Announcement[] =>
    db
      .all<Omit<Announcement, 'data'> & { data: string }>(
        'SELECT key, organization_id, run_id, type, created_at, data FROM announcements ORDER BY key LIMIT ?',
        [limit],
      )
      .map((row) => ({ ...row, data: JSON.parse(row.data) as Announcement['data'] })),

  forgetAnnouncements: (key: number): number => db.run('DELETE FROM announcements WHERE key <= ?', [key]),

  trim: (run: number, before: number, limit: number): number =>
    db.run(
      'DELETE FROM events WHERE key IN (SELECT key FROM events WHERE run = ? AND sequence < ? ORDER BY sequence LIMIT ?)',
      [run, before, limit],
    ),
});
