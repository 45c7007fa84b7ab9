import { mkdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createAccess } from './access/access.ts';
import { openSessionToken } from './access/session-token.ts';
import { createAgents } from './agents/agents.ts';
import type { Home } from './api/home.ts';
import { createArtifacts } from './artifacts/artifacts.ts';
import type { Clock } from './base/clock.ts';
import { type Config, ConfigError, harnessEnvironment } from './base/config.ts';
import { openDb } from './base/db.ts';
import { createIdempotency } from './base/idempotency.ts';
import type { Logger } from './base/log.ts';
import { createPrivateUrls } from './base/private-url.ts';
import { packageRoot } from './base/root.ts';
import { openSecrets } from './base/secrets.ts';
import { type Checkpoints, createCheckpoints } from './checkpoints/checkpoints.ts';
import { createCredits } from './credits/credits.ts';
import { createEvents } from './events/events.ts';
import { createFiles } from './files/files.ts';
import { listModels } from './providers/models.ts';
import { createProviders, speaks } from './providers/providers.ts';
import { createUsage } from './usage/usage.ts';
import { createRegistry } from './harness/registry.ts';
import { createGrants } from './grants/grants.ts';
import { createInputs } from './inputs/inputs.ts';
import { createOperations } from './operations/operations.ts';
import { createProjects } from './projects/projects.ts';
import { createLocalExecutor } from './runner/local.ts';
import { createSandbox, findBubblewrap, findRelay } from './runner/sandbox/sandbox.ts';
import { createEngine, type Engine } from './runs/engine.ts';
import { createSessions } from './sessions/sessions.ts';
import { createStorage } from './storage/storage.ts';
import type { Resolve } from './webhooks/destinations.ts';
import { createWebhooks } from './webhooks/webhooks.ts';
import { createWorkspaces } from './workspaces/workspaces.ts';

interface Needs {
  home: Home;
  config: Config;
  clock: Clock;
  log: Logger;
  env: Record<string, string | undefined>;
  /** argv of a runner. */
  runner: [string, ...string[]];
  /** Where names lead; the system's answer when absent. */
  resolve?: Resolve;
  /** Where bubblewrap is; null when it is not. */
  bubblewrap?: () => string | null;
}

/** Makes a folder that only the user may enter; one that others may enter, or that is somebody else's, is refused. */
export function privateFolder(path: string): void {
  mkdirSync(path, { recursive: true, mode: 0o700 });
  const { mode, uid } = statSync(path);
  if (process.getuid && uid !== process.getuid()) throw new ConfigError(`${path} belongs to another user.`);
  if (mode & 0o077) throw new ConfigError(`${path} can be entered by others. Close it with: chmod 700 ${path}`);
}

/** Everything that agentctl is, put together in floor order, without a socket. Call `open` to let it work. */
export function createApp({ home, config, clock, log, env, runner, bubblewrap, resolve }: Needs) {
  for (const folder of [home.data, home.state]) privateFolder(folder);
  const db = openDb(join(home.data, 'agentctl.db'), join(packageRoot, 'src/schema'));

  const secrets = openSecrets({ path: join(home.data, 'secrets.key'), clock });
  const idempotency = createIdempotency({ db, clock, secrets });
  const events = createEvents({ db });
  const operations = createOperations({ db, clock, log });
  const access = createAccess({ db, clock, token: openSessionToken(home.token, clock), config: config.oauth });
  const providers = createProviders({ settings: config.providers, env });
  const registry = createRegistry({
    rows: config.harnesses,
    env,
    folder: join(home.data, 'harnesses'),
    isCallable: (dialect) => providers.list().some((provider) => provider.ready && speaks(provider.kind, dialect)),
  });
  const usage = createUsage({ db, clock });
  const credits = createCredits({
    db,
    clock,
    isPrepaid: access.isPrepaid,
    usualHold: BigInt(config.credits.usual_limit_micro_usd),
    low: BigInt(config.credits.low_micro_usd),
    announce: events.announce,
  });

  const agents = createAgents({ db, clock, harnesses: registry.ids });
  const sessions = createSessions({ db, clock });
  const inputs = createInputs({ db, clock });
  // Rooms below the engine set it going, or ask it: what they must know of it is handed in here.
  let engine: Engine | undefined;
  const changed = () => {
    engine?.supervisor.loop.wake();
    operations.loop.wake();
  };
  const findBox = bubblewrap ?? (() => findBubblewrap(env.PATH ?? '', config.sandbox.program));
  const grants = createGrants({ db, clock, changed });
  const workspaces = createWorkspaces({
    db,
    clock,
    log,
    operations,
    env,
    folder: home.data,
    forbidden: [home.data, home.state],
    exclude: config.checkpoints.exclude,
    roots: config.workspace_roots,
    trees: {
      assertUsable: (organization, checkpoint) => checkpoints.assertUsable(organization, checkpoint),
      fork: (organization, checkpoint, into) => checkpoints.fork(organization, checkpoint, into),
      keepLast: (workspace) => checkpoints.keepLast(workspace),
      forget: (workspace) => checkpoints.forget(workspace),
      explain: (error) => checkpoints.explain(error),
    },
    bubblewrap: findBox,
    changed,
  });
  const projects = createProjects({
    db,
    clock,
    operations,
    hasOpenRuns: (project) => engine?.hasOpen(project) ?? true,
    async purge(project) {
      await engine?.purge(project);
      await workspaces.purge(project);
      await checkpoints.purge(project);
    },
  });
  const places = {
    ...workspaces,
    assertOpen(workspace: { organization_id: string; project_id: string; id: string }) {
      projects.getActive(workspace.organization_id, workspace.project_id);
      workspaces.getUsable(workspace.organization_id, workspace.id);
    },
  };
  const checkpoints: Checkpoints = createCheckpoints({
    db,
    clock,
    log,
    config: config.checkpoints,
    operations,
    events,
    places,
    folder: home.data,
    isRunOpen: (run) => engine?.runs.isOpen(run) ?? true,
  });
  const urls = createPrivateUrls({ secret: access.cursorSecret, clock });
  const files = createFiles({
    db,
    clock,
    log,
    operations,
    idempotency,
    urls,
    trees: places,
    folder: home.data,
    closed: [home.data, home.state, home.runtime],
  });
  const artifacts = createArtifacts({ db, clock, urls, folder: home.data });
  const executor = createLocalExecutor({
    clock,
    command: runner,
    warm: config.runs.warm_runners,
    log: join(home.state, 'runners.log'),
    env: harnessEnvironment(env),
  });
  const sandbox = createSandbox({
    find: findBox,
    folder: home.runtime,
    relay: findRelay(),
    hidden: [home.data, home.state, home.runtime, dirname(home.config)],
  });

  engine = createEngine({
    db,
    clock,
    log,
    config,
    idempotency,
    events,
    registry,
    providers,
    usage,
    credits,
    agents,
    grants,
    projects,
    workspaces,
    sessions,
    inputs,
    checkpoints,
    artifacts,
    rootOf: files.rootAt,
    executor,
    sandbox,
    changed,
    folder: home.data,
  });
  const { runs, conversations, supervisor } = engine;
  const webhooks = createWebhooks({
    db,
    clock,
    log,
    config,
    events,
    operations,
    secrets,
    ...(resolve ? { resolve } : {}),
    runOf: runs.about,
  });
  const storage = createStorage({
    clock,
    data: home.data,
    state: home.state,
    project: projects.find,
    workspace: workspaces.find,
  });
  const loops = [...engine.loops, operations.loop, files.loop, workspaces.loop, checkpoints.loop];

  let stopWarming = () => {};

  return {
    db,
    clock,
    config,
    idempotency,
    access,
    agents,
    grants,
    events,
    operations,
    registry,
    /** The models that are known, as the API shows them. */
    models: () => listModels(providers.list(), registry.speakers()),
    projects,
    workspaces,
    files,
    checkpoints,
    artifacts,
    sessions,
    inputs,
    usage,
    credits,
    runs,
    conversations,
    storage,
    sandbox,
    supervisor,
    webhooks,

    /** Lets the loops begin: what an earlier daemon left is taken up again. */
    open(): void {
      // Not while the daemon starts; who needs it sooner has it tried at once.
      stopWarming = clock.timer(500, () => void sandbox.warm());
      for (const loop of [...loops, webhooks.loop]) loop.wake();
    },

    /** Resolves when nothing is due. */
    async settle(): Promise<void> {
      for (const work of [...loops, operations, engine, webhooks]) await work.settle();
      // What was settled last may have set the first going again.
      for (const work of [...loops, operations, engine, webhooks]) await work.settle();
    },

    /** Ends the loops and lets go of the runners, which go on; closes the database. */
    async close(): Promise<void> {
      stopWarming();
      supervisor.close();
      workspaces.close();
      await Promise.all(loops.map((loop) => loop.stop()));
      for (const work of [operations, engine]) await work.settle();
      await webhooks.close();
      await checkpoints.close();
      db.close();
    },
  };
}
export type App = ReturnType<typeof createApp>;
