import { existsSync, mkdirSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Agents } from '../agents/agents.ts';
import type { InputAnswer } from '../api/inputs.ts';
import { isTerminal, noIsolation, type RunErrorCode } from '../api/runs.ts';
import { type Clock, iso } from '../base/clock.ts';
import type { Config } from '../base/config.ts';
import { crashPoint } from '../base/crash.ts';
import type { Db } from '../base/db.ts';
import type { Logger } from '../base/log.ts';
import { createLoop } from '../base/loop.ts';
import type { Registry } from '../harness/registry.ts';
import type { Inputs } from '../inputs/inputs.ts';
import type { Executor, Link } from '../runner/local.ts';
import type { Grants } from '../grants/grants.ts';
import type { HarnessLaunch } from '../harness/row.ts';
import { protocolVersion, runFiles, type RunSpec } from '../runner/protocol.ts';
import type { Sessions } from '../sessions/sessions.ts';
import type { Workspaces } from '../workspaces/workspaces.ts';
import { transcriptOf } from './conversations.ts';
import type { Enclosing } from './enclosing.ts';
import type { Gathering } from './gathering.ts';
import type { Billing } from './billing.ts';
import type { Ingest } from './ingest.ts';
import type { Runs } from './runs.ts';
import type { Snapshots } from './snapshots.ts';
import type { RunRow, RunStore } from './store.ts';

interface Needs {
  db: Db;
  clock: Clock;
  log: Logger;
  config: Config;
  store: RunStore;
  runs: Runs;
  registry: Registry;
  agents: Agents;
  grants: Grants;
  workspaces: Workspaces;
  sessions: Sessions;
  inputs: Inputs;
  executor: Executor;
  ingest: Ingest;
  snapshots: Snapshots;
  billing: Billing;
  gathering: Gathering;
  enclosing: Pick<Enclosing, 'of'>;
  folderOf(run: string): string;
  sessionFolderOf(session: string): string;
  /** Ends every process that a run left behind. */
  sweep(run: string): Promise<void>;
}

/** A harness that never began is tried again this often, after a daemon that died while starting it. */
const maxAttempts = 3;
const turnsOfTranscript = 20;

/**
 * Sees to it that what has been accepted runs: starts the waiting, attaches to the working (also to those that an earlier
 * daemon started), passes on what they must be told, and ends those whose process has vanished.
 */
export function createSupervisor(needs: Needs) {
  const { db, clock, log, config, store, runs, registry, workspaces, sessions, inputs, executor, ingest, snapshots } =
    needs;
  const { agents, grants, folderOf, sessionFolderOf, sweep, gathering, enclosing } = needs;
  const links = new Map<string, { link: Link; told: Set<string>; grants?: string }>();
  const endings = new Set<Promise<void>>();
  /** Waiting runs whose tree is being kept, and those for which that has been tried. */
  const preparing = new Set<string>();
  const prepared = new Set<string>();
  /** Runs whose process is gone, while they are brought to their end. */
  const leaving = new Set<string>();
  let draining = false;

  const fail = (row: RunRow, stop_reason: RunRow['stop_reason'], code: RunErrorCode, message: string, details = {}) =>
    db.write((tx) => {
      const current = store.find(row.id);
      if (!current || isTerminal(current.status)) return;
      const error = { code, message, retryable: code === 'harness_lost', details };
      runs.end(tx, runs.open(current), { status: 'failed', stop_reason, error });
      tx.after(() => cleanUp(row.id));
    });

  /** After a run's end: the link is closed, and what only the run needed is removed. */
  const cleanUp = (id: string): void => {
    crashPoint('end', 'committed');
    links.get(id)?.link.close();
    links.delete(id);
    const folder = folderOf(id);
    const removal = Promise.all(
      [runFiles.spool, runFiles.socket, runFiles.identity, runFiles.harness, runFiles.placed, 'script'].map((name) =>
        rm(join(folder, name), { force: true }),
      ),
    ).then(
      () => {},
      (error: unknown) => log.warn({ run: id, err: error }, 'The files of an ended run could not be removed.'),
    );
    keep(removal);
  };

  const keep = (work: Promise<void>): void => {
    const kept = work
      .catch((error: unknown) => log.error({ err: error }, 'The end of a run could not be completed.'))
      .finally(() => endings.delete(kept));
    endings.add(kept);
  };

  /** The run's process has ended: what it left is stored, and if that is no end, the run is lost. */
  const gone = (id: string): void => {
    leaving.add(id);
    keep(conclude(id).finally(() => leaving.delete(id)));
  };

  const conclude = async (id: string): Promise<void> => {
    try {
      await ingest.drain(id);
    } catch (error) {
      log.error({ run: id, err: error }, 'The last events of a run could not be stored yet.');
      clock.timer(1_000, () => gone(id));
      return;
    }
    const row = store.find(id);
    if (!row || isTerminal(row.status)) return;
    links.delete(id);
    const folder = folderOf(id);
    if (row.status === 'queued' && !existsSync(join(folder, runFiles.identity)) && row.attempt < maxAttempts) {
      db.write((tx) => {
        store.update(id, { runner: null });
        workspaces.release(tx, row.workspace_id, id);
        tx.after(loop.wake);
      });
      return;
    }
    crashPoint('lost', 'found');
    await sweep(id);
    crashPoint('lost', 'swept');
    await snapshots.keep(id, 'after');
    await gathering.keep(id);
    fail(
      row,
      'harness_lost',
      'harness_lost',
      'The process that ran this vanished. What it had done until then is kept.',
    );
  };

  const attach = (row: RunRow): void => {
    if (row.runner === null || links.has(row.id) || leaving.has(row.id)) return;
    const { id, runner } = row;
    const link = executor.attach(runner, folderOf(id), {
      grown: () => ingest.grown(id),
      gone: () => gone(id),
    });
    links.set(id, { link, told: new Set() });
  };

  /** Says to a runner what it may not have heard: after a restart of the daemon all of it, otherwise what is new. */
  const tellAll = (row: RunRow): void => {
    const entry = links.get(row.id);
    if (!entry) return;
    if (row.cancel_requested_at !== null && !entry.told.has('cancel')) {
      entry.told.add('cancel');
      entry.link.send({ command: 'cancel' });
    }
    const allowed = grants.for(row.project_id, row.harness);
    const sign = `grants ${allowed.map(({ id }) => id).join()}`;
    if (entry.grants !== sign) {
      entry.grants = sign;
      entry.link.send({ command: 'grants', grants: allowed });
    }
    for (const { request_id, answer } of inputs.answers(row.id)) {
      if (entry.told.has(request_id)) continue;
      entry.told.add(request_id);
      entry.link.send({ command: 'answer', request_id, answer });
    }
  };

  /** Keeps the tree before the run begins; until it does, nobody else may write. */
  const prepare = (id: string): void => {
    const { workspace_id } = store.find(id)!;
    const writer = { kind: 'run' as const, id, since: iso(clock.now()) };
    const isOurs = workspaces.find(workspace_id)?.writer?.id === id;
    if (!isOurs && !db.write((tx) => workspaces.claim(tx, workspace_id, writer))) return;
    preparing.add(id);
    keep(
      snapshots.keep(id, 'before').finally(() => {
        preparing.delete(id);
        if (store.find(id)?.status === 'queued') prepared.add(id);
        loop.wake();
      }),
    );
  };

  /** Whether the tree is still to be kept. Where the harness is missing there is nothing to keep it for. */
  const mustPrepare = (id: string, path: string): boolean => {
    const row = store.find(id)!;
    return !prepared.has(id) && snapshots.wants(row, 'before') && registry.launch(row.harness, path) !== undefined;
  };

  const start = (id: string): void => {
    prepared.delete(id);
    const queued = store.find(id)!;
    const launch = registry.launch(queued.harness, workspaces.find(queued.workspace_id)!.path);
    if (!launch) {
      const hint = registry.hint(queued.harness);
      const message = `The harness "${queued.harness}" is not installed here.${hint ? ` Install it with: ${hint}` : ''}`;
      fail(queued, 'harness_failed', 'harness_not_found', message, { harness: queued.harness });
      return;
    }
    const folder = folderOf(id);
    const session_folder = sessionFolderOf(queued.session_id);
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    mkdirSync(session_folder, { recursive: true, mode: 0o700 });
    mkdirSync(join(folder, runFiles.artifacts), { recursive: true, mode: 0o700 });
    crashPoint('start', 'begin');
    const enclosed = enclosing.of(queued, launch);
    if (enclosed === undefined) {
      const message = 'This run needs a sandbox, and this machine has none any more.';
      fail(queued, 'harness_failed', 'internal_error', message, { reason: 'sandbox_unavailable' });
      return;
    }
    const gateway = needs.billing.gatewayOf(queued);
    if (gateway === undefined) {
      const message = 'This run is to be paid by a key of ours, and there is none for its provider any more.';
      fail(queued, 'provider_error', 'provider_auth', message);
      return;
    }
    const waiting = executor.take();
    crashPoint('start', 'taken');
    const nonce = clock.random(16).toString('base64url');
    // From this commit on the run belongs to that process; a daemon that dies here finds out which one it was.
    const row = db.write((tx) => {
      const current = store.find(id);
      const writer = { kind: 'run' as const, id, since: iso(clock.now()) };
      if (current?.status !== 'queued' || current.runner !== null) return undefined;
      const isOurs = workspaces.find(current.workspace_id)?.writer?.id === id;
      if (!isOurs && !workspaces.claim(tx, current.workspace_id, writer)) return undefined;
      store.update(id, {
        runner: { ...waiting.identity, nonce },
        attempt: current.attempt + 1,
        isolation: enclosed?.isolation ?? noIsolation,
      });
      return store.find(id);
    });
    if (!row) {
      waiting.discard();
      return;
    }
    crashPoint('start', 'committed');
    waiting.begin({ ...specOf(row, launch, nonce, folder, session_folder), sandbox: enclosed, gateway });
    crashPoint('start', 'begun');
    attach(row);
    crashPoint('start', 'attached');
  };

  const specOf = (
    row: RunRow,
    harness: HarnessLaunch,
    nonce: string,
    folder: string,
    session_folder: string,
  ): Omit<RunSpec, 'sandbox' | 'gateway'> => {
    const { path, revision } = workspaces.find(row.workspace_id)!;
    const native = sessions.native(row.session_id);
    return {
      version: protocolVersion,
      run_id: row.id,
      nonce,
      folder,
      session_folder,
      artifacts_folder: join(folder, runFiles.artifacts),
      workspace: { path, revision },
      attempt: row.attempt,
      harness,
      model: row.model,
      prompt: row.prompt,
      instructions:
        row.agent_id === null
          ? null
          : agents.get(row.organization_id, row.agent_id, row.agent_revision ?? undefined).instructions,
      native_session_id: native,
      transcript: transcriptOf(needs, row, turnsOfTranscript),
      env: registry.environment(row.harness, row.billing_mode === 'managed'),
      limits: {
        timeout_seconds: row.limits.timeout_seconds ?? config.runs.timeout_seconds,
        max_cost_micro_usd: row.limits.max_cost_micro_usd ?? null,
        max_turns: row.limits.max_turns ?? null,
      },
      permission_mode: row.permission_mode,
      on_input: row.on_input,
      input_timeout_seconds: row.input_timeout_seconds,
      grants: grants.for(row.project_id, row.harness),
      output_schema: row.output_schema,
      max_output_bytes: config.runs.max_output_bytes,
      grace_seconds: config.runs.grace_seconds,
      vigil: config.runs,
    };
  };

  const loop = createLoop({
    name: 'supervisor',
    clock,
    log,
    step() {
      const working = store.working();
      for (const { id } of working) {
        const row = store.find(id)!;
        attach(row);
        tellAll(row);
      }
      if (draining) return null;
      let free = config.runs.max_parallel - working.length;
      const busy = new Set<string>();
      for (let after = 0; free > 0;) {
        const waiting = store.waiting(after, 100);
        for (const { id, workspace_id } of waiting) {
          if (free <= 0) break;
          if (busy.has(workspace_id)) continue;
          const workspace = workspaces.find(workspace_id);
          if (!workspace || ['failed', 'deleting', 'deleted'].includes(workspace.status)) {
            const why = workspace?.error?.message ?? `It is ${workspace?.status ?? 'gone'}.`;
            fail(store.find(id)!, 'harness_failed', 'workspace_failed', `The workspace cannot be used. ${why}`);
            continue;
          }
          busy.add(workspace_id);
          if (workspace.status !== 'ready' || (workspace.writer !== null && workspace.writer.id !== id)) continue;
          free -= 1;
          if (preparing.has(id)) continue;
          if (mustPrepare(id, workspace.path)) prepare(id);
          else start(id);
        }
        const last = waiting.at(-1);
        if (!last || waiting.length < 100) break;
        after = last.key;
      }
      return null;
    },
  });

  return {
    loop,

    /** A person's answer for a run at work. */
    tell(run: string, request_id: string, answer: InputAnswer): void {
      const entry = links.get(run);
      if (!entry) return;
      entry.told.add(request_id);
      entry.link.send({ command: 'answer', request_id, answer });
    },

    ended: cleanUp,

    /** A run whose record is damaged can be followed no further: it is ended and failed. */
    damaged(id: string, error: Error): void {
      const row = store.find(id);
      if (!row || isTerminal(row.status)) return;
      log.error({ run: id, err: error }, 'The spool of a run is damaged.');
      keep(
        (async () => {
          links.get(id)?.link.close();
          links.delete(id);
          if (row.runner && executor.isAlive(row.runner)) executor.kill(row.runner);
          await sweep(id);
          await gathering.keep(id);
          fail(
            row,
            'harness_lost',
            'internal_error',
            'The record of this run is damaged from here on; the run was ended.',
          );
        })(),
      );
    },

    /** No waiting run is started from now on. */
    drain(): void {
      draining = true;
    },

    draining: (): boolean => draining,

    /** How many runs have a process. */
    working: (): number => store.working().length,

    /** Resolves when no run is being brought to its end. */
    async settle(): Promise<void> {
      while (endings.size > 0) await Promise.all(endings);
    },

    /** Lets go of all runners; they go on by themselves. */
    close(): void {
      for (const { link } of links.values()) link.close();
      links.clear();
      executor.close();
    },
  };
}
export type Supervisor = ReturnType<typeof createSupervisor>;
