import { mkdirSync, statSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Home } from './api/home.ts';
import { createAccess } from './access/access.ts';
import { openSessionToken } from './access/session-token.ts';
import type { Clock } from './base/clock.ts';
import { type Config, harnessEnvironment } from './base/config.ts';
import { openDb } from './base/db.ts';
import { createIdempotency } from './base/idempotency.ts';
import type { Logger } from './base/log.ts';
import { packageRoot } from './base/root.ts';
import { createEvents } from './events/events.ts';
import { createRegistry } from './harness/registry.ts';
import { createInputs } from './inputs/inputs.ts';
import { createOperations } from './operations/operations.ts';
import { createProjects } from './projects/projects.ts';
import { endRun, tracesIn } from './runner/ending.ts';
import { createLocalExecutor } from './runner/local.ts';
import { createIngest } from './runs/ingest.ts';
import { createRetention } from './runs/retention.ts';
import { createRuns } from './runs/runs.ts';
import { createStore } from './runs/store.ts';
import { createSupervisor, type Supervisor } from './runs/supervisor.ts';
import { createSessions } from './sessions/sessions.ts';
import { createWorkspaces } from './workspaces/workspaces.ts';

interface Needs {
  home: Home;
  config: Config;
  clock: Clock;
  log: Logger;
  env: Record<string, string | undefined>;
  /** argv of a runner. */
  runner: [string, ...string[]];
}

/** Makes a folder that only the user may enter; one that others may enter, or that is somebody else's, is refused. */
export function privateFolder(path: string): void {
  mkdirSync(path, { recursive: true, mode: 0o700 });
  const { mode, uid } = statSync(path);
  if (process.getuid && uid !== process.getuid()) throw new Error(`${path} belongs to another user.`);
  if (mode & 0o077) throw new Error(`${path} can be entered by others. Close it with: chmod 700 ${path}`);
}

/** Everything that agentctl is, put together in floor order, without a socket. Call `open` to let it work. */
export function createApp({ home, config, clock, log, env, runner }: Needs) {
  for (const folder of [home.data, home.state]) privateFolder(folder);
  const db = openDb(join(home.data, 'agentctl.db'), join(packageRoot, 'src/schema'));
  const folderOf = (run: string) => join(home.data, 'runs', run);

  const idempotency = createIdempotency({ db, clock });
  const access = createAccess({ db, clock, token: openSessionToken(home.token, clock) });
  const events = createEvents({ db });
  const operations = createOperations({ db, clock, log });
  const registry = createRegistry({ rows: config.harnesses, env });
  const sessions = createSessions({ db, clock });
  const inputs = createInputs({ db, clock });
  const store = createStore(db);
  // Rooms on one floor do not know each other: what one must set going in another is handed in here.
  let supervisor: Supervisor | undefined;
  const supervise = () => {
    supervisor?.loop.wake();
    operations.loop.wake();
  };
  const workspaces = createWorkspaces({
    db,
    clock,
    operations,
    env,
    folder: home.data,
    forbidden: [home.data, home.state],
    changed: supervise,
  });
  const projects = createProjects({
    db,
    clock,
    operations,
    hasOpenRuns: (project) => store.hasOpen('project_id', project),
    async purge(project) {
      for (let runs; (runs = store.ofProject(project, 50)).length > 0;) {
        for (const { id, key, last_sequence } of runs) {
          while (db.write(() => events.trim(key, last_sequence + 1, 5_000)) > 0) await new Promise(setImmediate);
          await rm(folderOf(id), { recursive: true, force: true });
          db.write(() => store.remove(id));
        }
      }
      await workspaces.purge(project);
    },
  });
  const runs = createRuns({
    clock,
    config,
    store,
    events,
    registry,
    projects,
    workspaces,
    sessions,
    inputs,
    supervise,
    tell: (...told) => supervisor?.tell(...told),
  });
  const ingest = createIngest({
    db,
    clock,
    log,
    store,
    runs,
    workspaces,
    sessions,
    inputs,
    folderOf,
    ended: (run) => supervisor?.ended(run),
    damaged: (run, error) => supervisor?.damaged(run, error),
  });
  const executor = createLocalExecutor({
    clock,
    command: runner,
    warm: config.runs.warm_runners,
    log: join(home.state, 'runners.log'),
    env: harnessEnvironment(env),
  });
  supervisor = createSupervisor({
    db,
    clock,
    log,
    config,
    store,
    runs,
    registry,
    workspaces,
    sessions,
    inputs,
    executor,
    ingest,
    folderOf,
    sessionFolderOf: (session) => join(home.data, 'sessions', session),
    sweep: async (run, folder) => void (await endRun(tracesIn(folder, run), 0, clock)),
  });
  const retention = createRetention({ db, clock, log, config, store, events, idempotency });
  const loops = [supervisor.loop, operations.loop, retention.loop];

  return {
    db,
    clock,
    config,
    idempotency,
    access,
    events,
    operations,
    registry,
    projects,
    workspaces,
    sessions,
    inputs,
    runs,
    supervisor,

    /** Lets the loops begin: what an earlier daemon left is taken up again. */
    open(): void {
      for (const loop of loops) loop.wake();
    },

    /** Resolves when nothing is due. */
    async settle(): Promise<void> {
      for (;;) {
        await Promise.all(loops.map((loop) => loop.settle()));
        await operations.settle();
        await supervisor.settle();
        if (ingest.idle()) return;
        await new Promise(setImmediate);
      }
    },

    /** Ends the loops and lets go of the runners, which go on; closes the database. */
    async close(): Promise<void> {
      supervisor.close();
      await Promise.all(loops.map((loop) => loop.stop()));
      await operations.settle();
      await supervisor.settle();
      db.close();
    },
  };
}
export type App = ReturnType<typeof createApp>;
