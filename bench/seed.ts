import Database from 'better-sqlite3';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Home } from '../src/api/home.ts';
import { createApp } from '../src/app.ts';
import { systemClock } from '../src/base/clock.ts';
import { checkConfig } from '../src/base/config.ts';
import { silent } from '../src/base/log.ts';

/** A database with one project, one workspace and one run that the product itself has made; the rest is copies of these. */
export interface Seed {
  organization: string;
  project: string;
  workspace: string;
  session: string;
  /** The first run's id and integer key. */
  run: string;
  key: number;
}

/** Makes the home's database with the product's own code, so that schema and rows are what they are. */
export async function seed(home: Home): Promise<Seed> {
  for (const folder of [home.data, home.state, home.runtime]) mkdirSync(folder, { recursive: true, mode: 0o700 });
  const app = createApp({
    home,
    config: checkConfig({ runs: { warm_runners: 0 } }),
    clock: systemClock,
    log: silent,
    env: {},
    runner: ['/bin/false'],
  });
  const organization = app.db.get<{ id: string }>('SELECT id FROM organizations')!.id;
  const project = app.db.write((tx) => app.projects.create(tx, organization, { name: 'bench' }));
  const { run_id, session_id, workspace_id } = app.db.write((tx) =>
    app.runs.create(
      tx,
      organization,
      { project_id: project.id, harness: 'shell', prompt: 'true', sandbox: 'none' },
      { api_key_id: null, is_local: true },
    ),
  );
  const key = app.runs.find(organization, run_id).key;
  app.db.run("UPDATE workspaces SET status = 'ready'");
  app.db.run('DELETE FROM operations');
  // In the same turn as the run was made, so that no loop has begun to work on it.
  await app.close();
  return { organization, project: project.id, workspace: workspace_id, session: session_id, run: run_id, key };
}

/** Opens a home's database to fill it: fast and not durable. The daemon must not be running. */
export function openToFill(home: Home): Database.Database {
  const sqlite = new Database(join(home.data, 'agentctl.db'));
  sqlite.pragma('journal_mode = WAL');
  sqlite.pragma('synchronous = OFF');
  sqlite.pragma('cache_size = -262144');
  return sqlite;
}

/** The id of the n-th copy: a UUID in form. */
export const copyId = (n: number): string => `00000000-0000-7000-8000-${n.toString(16).padStart(12, '0')}`;

/** Copies the run `seed` made, `count` times; ids are those of `copyId`, from `first` on. `set` is SQL by column, with `n`. */
export function copyRuns(
  sqlite: Database.Database,
  { run }: Seed,
  count: number,
  first: number,
  set: Record<string, string>,
): void {
  const columns = (sqlite.pragma('table_info(runs)') as { name: string }[])
    .map(({ name }) => name)
    .filter((name) => name !== 'key');
  const values: Record<string, string> = { id: `printf('00000000-0000-7000-8000-%012x', n)`, ...set };
  sqlite
    .prepare(
      `WITH RECURSIVE numbers (n) AS (SELECT ${first} UNION ALL SELECT n + 1 FROM numbers WHERE n < ${first + count - 1})
       INSERT INTO runs (${columns.join(', ')})
       SELECT ${columns.map((name) => values[name] ?? `runs.${name}`).join(', ')} FROM numbers, runs WHERE runs.id = ?`,
    )
    .run(run);
}

/** A time now, in SQL, as the API writes it. */
export const sqlNow = `strftime('%Y-%m-%dT%H:%M:%fZ', 'now')`;

/** Gives the run with this key `count` events of about 300 bytes, the last of them its end. */
export function fillEvents(
  sqlite: Database.Database,
  { session }: Seed,
  run: { id: string; key: number },
  count: number,
): void {
  const event = (type: string, data: string, sequence = 'n') =>
    `'{"id":"' || ${sequence} || '","sequence":' || ${sequence} || ',"run_id":"${run.id}","session_id":"${session}","type":"${type}",` +
    `"source":"harness","created_at":"2026-01-01T00:00:00.000Z","data":${data}}'`;
  const text = 'and then it says some thirty words more, as such a model does';
  sqlite.exec('BEGIN');
  sqlite.prepare('DELETE FROM events WHERE run = ?').run(run.key);
  sqlite.exec(
    `WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${count - 1})
     INSERT INTO events (run, sequence, type, body)
     SELECT ${run.key}, n, 'message.delta', ${event('message.delta', `{"message_id":"m-1","text":"${text}"}`)} FROM numbers;
     INSERT INTO events (run, sequence, type, body)
     VALUES (${run.key}, ${count}, 'run.completed',
             ${event('run.completed', '{"stop_reason":"end_turn","error":null,"usage":{}}', String(count))});`,
  );
  sqlite
    .prepare(
      `UPDATE runs SET last_sequence = ?, status = 'completed', stop_reason = 'end_turn', runner = NULL,
       started_at = ${sqlNow}, finished_at = ${sqlNow} WHERE key = ?`,
    )
    .run(count, run.key);
  sqlite.exec('COMMIT');
}
