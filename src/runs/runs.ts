import type { Page } from '../api/common.ts';
import { Fault } from '../api/error.ts';
import { draftText } from '../api/draft.ts';
import type { EventData, EventSource, EventType } from '../api/events.ts';
import type { InputAnswer, RunInput } from '../api/inputs.ts';
import {
  isTerminal,
  type Run,
  type RunAccepted,
  type RunCreate,
  type RunResult,
  type RunStatus,
  type TerminalStatus,
} from '../api/runs.ts';
import { noUsage } from '../api/figures.ts';
import { type Clock, iso } from '../base/clock.ts';
import type { Config } from '../base/config.ts';
import { crashPoint } from '../base/crash.ts';
import type { Tx } from '../base/db.ts';
import { assertMove } from '../base/machine.ts';
import { type Paging, toPage } from '../base/page.ts';
import type { Events } from '../events/events.ts';
import type { Registry } from '../harness/registry.ts';
import type { Grants } from '../grants/grants.ts';
import type { Inputs } from '../inputs/inputs.ts';
import type { Artifacts } from '../artifacts/artifacts.ts';
import type { Checkpoints } from '../checkpoints/checkpoints.ts';
import type { Projects } from '../projects/projects.ts';
import type { Sessions } from '../sessions/sessions.ts';
import type { Workspaces } from '../workspaces/workspaces.ts';
import type { CreditsRoom } from '../credits/credits.ts';
import type { UsageLedger } from '../usage/usage.ts';
import { noChanges } from './changes.ts';
import type { Billing } from './billing.ts';
import type { Resolving } from './resolving.ts';
import { assertGlobs } from './globs.ts';
import { assertSchema } from './output-schema.ts';
import type { Enclosing } from './enclosing.ts';
import { pathToEnd, runStates } from './state.ts';
import type { Caller, RunFilter, RunRow, RunStore } from './store.ts';

/** What an end of a run says. */
export type Ending = Pick<RunRow, 'stop_reason' | 'error'> & { status: TerminalStatus };

interface Needs {
  clock: Clock;
  config: Config;
  store: RunStore;
  events: Events;
  registry: Registry;
  projects: Projects;
  workspaces: Workspaces;
  sessions: Sessions;
  inputs: Inputs;
  grants: Grants;
  checkpoints: Checkpoints;
  resolve: Resolving;
  artifacts: Pick<Artifacts, 'idsOf'>;
  enclosing: Pick<Enclosing, 'admit'>;
  billing: Billing;
  usage: UsageLedger;
  credits: CreditsRoom;
  /** After a commit: a run may be started, one that works must be told something, or somebody waited for an end. */
  changed(): void;
  tell(run: string, request: string, answer: InputAnswer): void;
}

/** What is written of a run in one transaction: its events keep their order, its row is updated once. */
export interface Entry {
  row: RunRow;
  texts: string[];
  fields: Partial<RunRow>;
}

/** A run's oldest events are trimmed once in so many. */
const trimEvery = 100;

/** Runs as resources: accepted, listed, stopped, answered. The supervisor and the ingest make them move. */
export function createRuns(needs: Needs) {
  const {
    clock,
    config,
    store,
    events,
    registry,
    projects,
    workspaces,
    sessions,
    inputs,
    grants,
    checkpoints,
    resolve,
    artifacts,
    enclosing,
    billing,
    usage: ledger,
    credits,
    changed,
    tell,
  } = needs;
  const now = () => iso(clock.now());

  const find = (organization: string, id: string): RunRow => {
    const row = store.find(id);
    if (!row || row.organization_id !== organization) throw new Fault('not_found', `There is no run ${id}.`);
    return row;
  };

  const toRun = (row: RunRow): Run => {
    const { key: _k, text: _t, changes: _c, structured_output: _o, ...more } = row;
    const { spool_offset: _s, runner: _r, cancel_requested_at: _q, api_key_id: _a, is_local: _l, ...run } = more;
    return { ...run, run_id: row.id, pending_input: row.status === 'awaiting_input' ? inputs.pending(row.id) : [] };
  };

  const open = (row: RunRow): Entry => ({ row, texts: [], fields: {} });

  const say = <T extends EventType>(
    entry: Entry,
    type: T,
    source: EventSource,
    data: EventData[T],
    at = now(),
  ): void => {
    entry.texts.push(draftText({ type, source, created_at: at, data } as never));
  };

  /** Writes an entry: the events get their place, the row its new fields. */
  const close = (tx: Tx, { row, texts, fields }: Entry): void => {
    const last_sequence = events.append(tx, row, texts);
    store.update(row.id, { ...fields, last_sequence, updated_at: now() });
    const surplus = last_sequence - config.events.max_per_run;
    // Now and then, and a little more than came in between, so that even a lowered setting is reached in small steps.
    if (surplus > 0 && Math.floor(row.last_sequence / trimEvery) < Math.floor(last_sequence / trimEvery))
      events.trim(row.key, surplus + 1, 2 * Math.max(trimEvery, last_sequence - row.last_sequence));
  };

  /** Changes the status, and says so where no other event does. */
  const move = (entry: Entry, to: RunStatus, source: EventSource, reason: string): void => {
    const from = entry.fields.status ?? entry.row.status;
    assertMove(runStates, 'run', from, to);
    entry.fields.status = to;
    if (from !== 'queued' && !isTerminal(to)) say(entry, 'run.status_changed', source, { from, to, reason });
  };

  /** Brings a run to its end: status, last event, session, workspace and project in one transaction. */
  const end = (tx: Tx, entry: Entry, ending: Ending, source: EventSource = 'daemon'): void => {
    const { row } = entry;
    const path = pathToEnd(entry.fields.status ?? row.status, ending.status);
    const status = path.at(-1) as TerminalStatus;
    const stopped = status === 'cancelled';
    const stop_reason = stopped ? 'cancelled' : ending.stop_reason!;
    const error = stopped ? null : ending.error;
    for (const request of inputs.pending(row.id))
      if (inputs.close(tx, request.id, 'cancelled'))
        say(entry, 'input.resolved', 'daemon', { request_id: request.id, status: 'cancelled', answered_by: null });
    for (const step of path) move(entry, step, source, stop_reason);
    const usage = entry.fields.usage ?? row.usage;
    crashPoint(`run.${status}`, 'before_commit');
    if (row.started_at !== null && registry.kind(row.harness) === 'acp' && !billing.isMetered(row))
      ledger.report(tx, row, { usage, at: now(), model: entry.fields.model ?? row.model, failed: status === 'failed' });
    ledger.finish(tx, row.id, usage, entry.fields.model ?? row.model);
    credits.settle(tx, row.organization_id, row.id, usage.cost_micro_usd);
    say(entry, `run.${status}`, source, { stop_reason, error, usage });
    Object.assign(entry.fields, { stop_reason, error, finished_at: now(), runner: null });
    close(tx, entry);
    workspaces.release(tx, row.workspace_id, row.id);
    sessions.charge(tx, row.session_id, usage);
    sessions.mark(tx, row.session_id, store.hasOpen('session_id', row.session_id) ? 'running' : 'idle');
    projects.touch(tx, row.project_id);
    tx.after(changed);
  };

  const stop = (tx: Tx, row: RunRow, reason: string, why?: string): void => {
    if (isTerminal(row.status) || row.cancel_requested_at !== null) return;
    const entry = open(row);
    entry.fields.cancel_requested_at = now();
    if (why) say(entry, 'log', 'daemon', { level: 'info', stream: 'daemon', text: why });
    if (row.status === 'queued' && row.runner === null)
      return end(tx, entry, { status: 'cancelled', stop_reason: 'cancelled', error: null }, 'user');
    if (row.status !== 'queued') move(entry, 'cancelling', 'user', reason);
    close(tx, entry);
    tx.after(changed);
  };

  /** Stops the run of a session that has begun; those that wait before the new one keep their turn. */
  const interrupt = (tx: Tx, session: string, by: string): void => {
    const oldest = store.oldestOpen(session);
    if (!oldest || oldest.id === by) return;
    const begun = oldest.status !== 'queued' || workspaces.find(oldest.workspace_id)?.writer?.id === oldest.id;
    if (begun) stop(tx, oldest, 'interrupted', `Interrupted by the session’s next message, run ${by}.`);
  };

  return {
    find,
    toRun,
    open,
    say,
    move,
    close,
    end,

    /** A run by its id alone, for those who tell others of it; undefined when it has been removed. */
    about: (id: string): RunRow | undefined => store.find(id),

    get: (organization: string, id: string): Run => toRun(find(organization, id)),

    list(organization: string, filter: RunFilter, paging: Paging): Page<Run> {
      return toPage(store.list(organization, filter, paging.after, paging.limit + 1), paging, toRun);
    },

    /** Accepts a run; the supervisor does the rest. */
    create(tx: Tx, organization: string, body: RunCreate, caller: Caller): RunAccepted {
      const targets = (['session_id', 'workspace_id', 'project_id'] as const).filter(
        (name) => body[name] !== undefined,
      );
      if (targets.length !== 1) {
        const message = 'Give exactly one of session_id, workspace_id and project_id.';
        throw new Fault('invalid_request', message, { details: { errors: [{ path: '', message }] } });
      }
      const session = body.session_id === undefined ? undefined : sessions.get(organization, body.session_id);
      const wanted = session?.workspace_id ?? body.workspace_id;
      const existing = wanted === undefined ? undefined : workspaces.getUsable(organization, wanted);
      const project = projects.getActive(organization, existing?.project_id ?? body.project_id!);
      const resolved = resolve(organization, body, session);
      const { harness, model, agent_id, agent_revision } = resolved;
      assertSchema(body.output_schema);
      const sandbox = body.sandbox ?? 'auto';
      const network = enclosing.admit({ wanted: sandbox, network: body.network, harness, isLocal: caller.is_local });
      assertGlobs(body.artifacts ?? []);
      const billing_mode = billing.modeOf(harness, resolved.model, body.billing_mode);
      const limits = billing.limitsOf(organization, harness, billing_mode, resolved.limits);
      billing.assertKept(limits, harness, resolved.model, billing_mode);
      billing.assertBudget(billing_mode, harness, project);
      if (session?.status === 'archived')
        throw new Fault('invalid_state', 'This session is archived.', { details: { state: 'archived' } });
      if (body.on_busy === 'reject' && session && store.hasOpen('session_id', session.id))
        throw new Fault('session_busy', 'A run of this session has not ended.', {
          details: { run_id: session.latest_run_id },
        });

      const workspace = existing ?? workspaces.create(tx, project, {}, false).workspace;
      const at = now();
      const id = clock.id();
      const { id: session_id } =
        session ??
        sessions.create(tx, {
          organization_id: organization,
          project_id: project.id,
          workspace_id: workspace.id,
          agent_id,
          agent_revision,
          harness,
          model,
          title: titleOf(body.prompt),
          metadata: {},
        });
      const row: Omit<RunRow, 'key'> = {
        id,
        organization_id: organization,
        project_id: project.id,
        workspace_id: workspace.id,
        session_id,
        ...resolved,
        limits,
        prompt: body.prompt,
        billing_mode,
        input_timeout_seconds: body.input_timeout_seconds ?? 86_400,
        sandbox,
        network,
        output_schema: body.output_schema ?? null,
        checkpoint: { before: body.checkpoint?.before ?? true, after: body.checkpoint?.after ?? true },
        artifacts: body.artifacts ?? [],
        webhook_endpoint_ids: body.webhook_endpoint_ids ?? null,
        metadata: body.metadata ?? {},
        status: 'queued',
        stop_reason: null,
        error: null,
        usage: noUsage,
        isolation: null,
        checkpoint_ids: { before: null, after: null },
        last_sequence: 0,
        queued_at: at,
        started_at: null,
        finished_at: null,
        attempt: 0,
        text: null,
        structured_output: null,
        changes: noChanges,
        spool_offset: 0,
        runner: null,
        cancel_requested_at: null,
        ...caller,
        created_at: at,
        updated_at: at,
      };
      if (billing_mode === 'managed') credits.hold(tx, organization, id, limits.max_cost_micro_usd ?? null);
      ledger.begin(tx, row);
      const entry = open({ ...row, key: store.add(row) });
      const { writer } = workspace;
      say(entry, 'run.queued', 'user', { blocked_by: writer && { kind: writer.kind, id: writer.id } });
      close(tx, entry);
      sessions.begin(tx, session_id, id);
      if (body.on_busy === 'interrupt') interrupt(tx, session_id, id);
      projects.touch(tx, project.id);
      tx.after(changed);
      return { run_id: id, id, session_id, workspace_id: workspace.id, project_id: project.id, status: 'queued' };
    },

    /** Asks a run to stop. Asking again, or after the end, changes nothing. */
    cancel(tx: Tx, organization: string, id: string): Run {
      stop(tx, find(organization, id), 'cancel_requested');
      return toRun(find(organization, id));
    },

    /** Takes a person's answer to a question of the run. */
    answer(tx: Tx, organization: string, id: string, body: RunInput, by: string): Run {
      const row = find(organization, id);
      const { request, answer, always, repeated } = inputs.answer(tx, id, body, by);
      if (!repeated) {
        const entry = open(row);
        say(entry, 'input.resolved', 'user', { request_id: request.id, status: request.status, answered_by: by });
        if (row.status === 'awaiting_input' && inputs.pending(id).length === 0) {
          move(entry, 'running', 'user', 'input_resolved');
          sessions.mark(tx, row.session_id, 'running');
        }
        close(tx, entry);
        if (request.grant && always) {
          const { organization_id, project_id, harness } = row;
          const said = { run_id: id, request_id: request.id, created_by: by };
          grants.add(tx, { organization_id, project_id, harness, ...request.grant, ...said });
        }
        tx.after(() => tell(id, request.id, answer));
      }
      return toRun(find(organization, id));
    },

    /** Whether a run has not ended. */
    isOpen(id: string): boolean {
      const row = store.find(id);
      return row !== undefined && !isTerminal(row.status);
    },

    /** What a run changed as a unified diff. Throws `invalid_state` when the tree was not kept before and after it. */
    async diff(organization: string, id: string): Promise<string> {
      const { checkpoint_ids, status } = find(organization, id);
      const { before, after } = checkpoint_ids;
      if (before === null || after === null)
        throw new Fault(
          'invalid_state',
          isTerminal(status)
            ? 'There is no diff of this run: the files were not kept both before and after it.'
            : 'This run has not ended; its diff is there when it has.',
          { details: { state: status } },
        );
      return checkpoints.patch(organization, id, before, after);
    },

    /** What came of a run so far; complete when `final`. */
    result(organization: string, id: string): RunResult {
      const row = find(organization, id);
      const { status, text, structured_output, stop_reason, error, usage, changes, checkpoint_ids, last_sequence } =
        row;
      return {
        run_id: row.id,
        status,
        final: isTerminal(status),
        text,
        structured_output: structured_output?.value ?? null,
        stop_reason,
        error,
        usage,
        changes,
        artifact_ids: artifacts.idsOf(row.id),
        checkpoint_ids,
        last_sequence,
      };
    },
  };
}
export type Runs = ReturnType<typeof createRuns>;

/** The first line of a prompt, as a title. */
const titleOf = (prompt: string): string => {
  const line =
    prompt
      .split('\n')
      .find((text) => text.trim() !== '')
      ?.trim() ?? '';
  return line.length > 80 ? `${line.slice(0, 79)}…` : line;
};
