import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Agents } from '../agents/agents.ts';
import type { Clock } from '../base/clock.ts';
import type { Config } from '../base/config.ts';
import type { Db } from '../base/db.ts';
import type { Idempotency } from '../base/idempotency.ts';
import type { Logger } from '../base/log.ts';
import type { Events } from '../events/events.ts';
import type { Checkpoints } from '../checkpoints/checkpoints.ts';
import type { Grants } from '../grants/grants.ts';
import type { Registry } from '../harness/registry.ts';
import type { Inputs } from '../inputs/inputs.ts';
import type { Projects } from '../projects/projects.ts';
import { endRun, tracesIn } from '../runner/ending.ts';
import type { Executor } from '../runner/local.ts';
import { clearAway } from '../runner/sandbox/enclosure.ts';
import type { Sandbox } from '../runner/sandbox/sandbox.ts';
import type { Providers } from '../providers/providers.ts';
import type { CreditsRoom } from '../credits/credits.ts';
import type { UsageLedger } from '../usage/usage.ts';
import type { Sessions } from '../sessions/sessions.ts';
import type { Workspaces } from '../workspaces/workspaces.ts';
import { createConversations } from './conversations.ts';
import type { Artifacts } from '../artifacts/artifacts.ts';
import type { Root } from '../files/beneath.ts';
import { createGathering } from './gathering.ts';
import { createEnclosing } from './enclosing.ts';
import { createBilling } from './billing.ts';
import { createIngest } from './ingest.ts';
import { createRetention } from './retention.ts';
import { createResolving } from './resolving.ts';
import { createRuns } from './runs.ts';
import { createSnapshots } from './snapshots.ts';
import { createStore } from './store.ts';
import { createSupervisor, type Supervisor } from './supervisor.ts';

interface Needs {
  db: Db;
  clock: Clock;
  log: Logger;
  config: Config;
  idempotency: Idempotency;
  events: Events;
  registry: Registry;
  agents: Agents;
  grants: Grants;
  projects: Projects;
  workspaces: Workspaces;
  sessions: Sessions;
  inputs: Inputs;
  providers: Providers;
  usage: UsageLedger;
  credits: CreditsRoom;
  checkpoints: Checkpoints;
  artifacts: Artifacts;
  /** A folder as a root to stay in. */
  rootOf(folder: string): Root;
  executor: Executor;
  sandbox: Sandbox;
  /** After a commit that may let something begin: a run, or an operation that waited for one. */
  changed(): void;
  /** The daemon's data folder: the folders of runs and sessions lie below it. */
  folder: string;
}

/** The run engine: runs as resources, the supervisor that makes them run, the ingest that makes them known. */
export function createEngine(needs: Needs) {
  const { db, clock, events, artifacts, folder } = needs;
  const folderOf = (run: string) => join(folder, 'runs', run);
  const sessionFolderOf = (session: string) => join(folder, 'sessions', session);
  const store = createStore(db);
  // Each of the three sets another going, by a wake-up or a word; none is called before all are there.
  let supervisor: Supervisor | undefined;
  const resolve = createResolving(needs);
  const enclosing = createEnclosing(needs);
  const billing = createBilling(needs);
  const runs = createRuns({
    ...needs,
    store,
    resolve,
    enclosing,
    billing,
    tell: (...told) => supervisor?.tell(...told),
  });
  const snapshots = createSnapshots({ ...needs, store, runs });
  const gathering = createGathering({ ...needs, store, runs, folderOf });
  const ingest = createIngest({
    ...needs,
    store,
    runs,
    snapshots,
    gathering,
    folderOf,
    ended: (run) => supervisor?.ended(run),
    damaged: (run, error) => supervisor?.damaged(run, error),
  });
  supervisor = createSupervisor({
    ...needs,
    store,
    runs,
    ingest,
    snapshots,
    gathering,
    enclosing,
    billing,
    folderOf,
    sessionFolderOf,
    async sweep(run) {
      const ending = await endRun(tracesIn(folderOf(run), run), 0, clock);
      if (ending.left.length === 0) clearAway(folderOf(run));
    },
  });
  const retention = createRetention({ ...needs, store });

  return {
    runs,
    conversations: createConversations({ ...needs, store, runs, resolve }),
    supervisor,
    loops: [supervisor.loop, retention.loop],

    /** Whether any run of the project has not ended. */
    hasOpen: (project: string): boolean => store.hasOpen('project_id', project),

    /** Removes a project's runs with their history and folders. May be repeated. */
    async purge(project: string): Promise<void> {
      for (let some; (some = store.ofProject(project, 50)).length > 0;) {
        for (const { id, key, session_id, last_sequence } of some) {
          while (db.write(() => events.trim(key, last_sequence + 1, 5_000)) > 0) await new Promise(setImmediate);
          for (const path of [folderOf(id), sessionFolderOf(session_id)])
            await rm(path, { recursive: true, force: true });
          await artifacts.purge(id);
          db.write(() => store.remove(id));
        }
      }
    },

    /** Resolves when nothing is being brought to its end or into the log. */
    async settle(): Promise<void> {
      do {
        await supervisor.settle();
        if (!ingest.idle()) await new Promise(setImmediate);
      } while (!ingest.idle());
    },
  };
}
export type Engine = ReturnType<typeof createEngine>;
