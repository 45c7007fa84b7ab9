import { chmodSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { Fault } from '../api/error.ts';

type Value = string | number | bigint | Buffer | null;
export type Params = Record<string, Value> | Value[];

/** Handed to whatever runs inside a write transaction. */
export interface Tx {
  /** Calls `fn` once the transaction is on disk; never when it is rolled back. For wake-ups only. */
  after(fn: () => void): void;
}

/** The one connection to the database. Nothing else ever opens its files: a foreign close would drop SQLite's locks. */
export interface Db {
  get<Row>(sql: string, params?: Params): Row | undefined;
  all<Row>(sql: string, params?: Params): Row[];
  /** Answers how many rows changed. */
  run(sql: string, params?: Params): number;
  /** Inserts and answers the new row's integer key. */
  insert(sql: string, params?: Params): number;
  /**
   * Runs `fn` in one durable transaction; joins the one that is open. Throws what `fn` throws, after rolling back;
   * `insufficient_storage` when the disk is full.
   */
  write<T>(fn: (tx: Tx) => T): T;
  close(): void;
}

/** Opens (and makes) the database, checks that it is durable, and migrates it. `folder` holds the numbered SQL files. */
export function openDb(path: string, folder: string): Db {
  const sqlite = new Database(path);
  chmodSync(path, 0o600);
  sqlite.pragma('journal_mode = WAL');
  sqlite.pragma('synchronous = FULL');
  sqlite.pragma('foreign_keys = ON');
  sqlite.pragma('busy_timeout = 5000');
  sqlite.pragma('journal_size_limit = 67108864');
  sqlite.pragma('cache_size = -16384');
  // better-sqlite3 is compiled with NORMAL as the default in WAL mode, which loses commits at a power cut.
  if (sqlite.pragma('synchronous', { simple: true }) !== 2) throw new Error('SQLite refused synchronous=FULL.');
  sqlite.function('fold', { deterministic: true }, (text) => fold(String(text)));
  migrate(sqlite, folder);

  const statements = new Map<string, Database.Statement>();
  const prepare = (sql: string) => {
    let statement = statements.get(sql);
    if (!statement) statements.set(sql, (statement = sqlite.prepare(sql)));
    return statement;
  };
  const begin = sqlite.prepare('BEGIN IMMEDIATE');
  const commit = sqlite.prepare('COMMIT');
  const rollback = sqlite.prepare('ROLLBACK');
  let open: { tx: Tx; after: (() => void)[] } | undefined;

  return {
    get: <Row>(sql: string, params: Params = []) => prepare(sql).get(params) as Row | undefined,
    all: <Row>(sql: string, params: Params = []) => prepare(sql).all(params) as Row[],
    run: (sql, params = []) => prepare(sql).run(params).changes,
    insert: (sql, params = []) => Number(prepare(sql).run(params).lastInsertRowid),
    write(fn) {
      if (open) return fn(open.tx);
      const after: (() => void)[] = [];
      const tx: Tx = { after: (call) => void after.push(call) };
      begin.run();
      open = { tx, after };
      let result;
      try {
        result = fn(tx);
        commit.run();
      } catch (error) {
        if (sqlite.inTransaction) rollback.run();
        throw storageFault(error) ?? error;
      } finally {
        open = undefined;
      }
      for (const call of after) call();
      return result;
    },
    close: () => sqlite.close(),
  };
}

/** Case-insensitive form of a text, for substring search; SQLite's own lower() knows ASCII only. */
export const fold = (text: string): string => text.normalize('NFC').toLowerCase();

function storageFault(error: unknown): Fault | undefined {
  const code = (error as { code?: string }).code ?? '';
  if (code === 'SQLITE_FULL' || code === 'ENOSPC')
    return new Fault('insufficient_storage', 'The disk is full. Nothing was changed; free some space and try again.', {
      cause: error,
    });
  if (code.startsWith('SQLITE_READONLY') || code.startsWith('SQLITE_IOERR') || code === 'SQLITE_CORRUPT')
    return new Fault('unavailable', 'The store cannot be written at the moment.', { cause: error });
  return undefined;
}

/** The schema of this database is newer than this program. */
export class NewerSchema extends Error {}

function migrate(sqlite: Database.Database, folder: string) {
  const files = readdirSync(folder)
    .filter((name) => /^\d{4}-.*\.sql$/.test(name))
    .sort();
  const version = sqlite.pragma('user_version', { simple: true }) as number;
  if (version > files.length)
    throw new NewerSchema(
      `The data was written by a newer agentctl (schema ${version}, this one knows ${files.length}).`,
    );
  for (const [index, file] of files.entries()) {
    if (index < version) continue;
    sqlite.transaction(() => {
      sqlite.exec(readFileSync(join(folder, file), 'utf8'));
      sqlite.pragma(`user_version = ${index + 1}`);
    })();
  }
}

/** An operating-system lock that one process holds until it ends, however it ends. Undefined: somebody else has it. */
export function takeLock(path: string): { release(): void } | undefined {
  const sqlite = new Database(path, { timeout: 0 });
  try {
    chmodSync(path, 0o600);
    sqlite.pragma('locking_mode = EXCLUSIVE');
    sqlite.exec('BEGIN EXCLUSIVE');
    return { release: () => sqlite.close() };
  } catch (error) {
    sqlite.close();
    if ((error as { code?: string }).code?.startsWith('SQLITE_BUSY')) return undefined;
    throw error;
  }
}
