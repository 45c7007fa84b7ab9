import Database from 'better-sqlite3';
import { join } from 'node:path';
import { runFiles } from '../../src/runner/protocol.ts';
import { readSpool } from '../../src/runner/spool.ts';
import { now } from '../measure.ts';

/**
 * The floor of P1: bare better-sqlite3, WAL, FULL, the same texts as the product stores, in transactions of 100. `node insert.ts
 * <database> <folder of runs> <session> <run id> …` answers the milliseconds that it took; reading the spools is not counted.
 */
const [path = '', folder = '', session = '', ...ids] = process.argv.slice(2);
const sqlite = new Database(path);
sqlite.pragma('journal_mode = WAL');
sqlite.pragma('synchronous = FULL');
sqlite.exec(`
  CREATE TABLE events (key INTEGER PRIMARY KEY AUTOINCREMENT, run INTEGER NOT NULL, sequence INTEGER NOT NULL, type TEXT NOT NULL,
                       body TEXT NOT NULL) STRICT;
  CREATE UNIQUE INDEX events_of_run ON events (run, sequence);`);
const insert = sqlite.prepare('INSERT INTO events (run, sequence, type, body) VALUES (?, ?, ?, ?)');
const store = sqlite.transaction((rows: [number, number, string, string][]) => {
  for (const row of rows) insert.run(row);
});

const runs = ids.map((id, run) =>
  readSpool(join(folder, id, runFiles.spool), 0, Number.MAX_SAFE_INTEGER).map(
    ({ text }, index): [number, number, string, string] => {
      const sequence = index + 1;
      const head = `{"id":"${sequence}","sequence":${sequence},"run_id":"${id}","session_id":"${session}",`;
      return [run, sequence, text.slice(9, text.indexOf('"', 9)), head + text.slice(1)];
    },
  ),
);

const began = now();
for (let at = 0, more = true; more; at += 100) {
  more = false;
  for (const rows of runs) {
    const batch = rows.slice(at, at + 100);
    if (batch.length === 0) continue;
    more = true;
    store(batch);
  }
}
const ms = now() - began;
process.send!({ ms }, () => process.exit(0));
