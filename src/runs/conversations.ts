import { Fault } from '../api/error.ts';
import { isTerminal, type RunAccepted } from '../api/runs.ts';
import type { MessageCreate, Session, SessionCreate, SessionFork } from '../api/sessions.ts';
import type { Tx } from '../base/db.ts';
import type { Projects } from '../projects/projects.ts';
import type { RunSpec } from '../runner/protocol.ts';
import type { Sessions } from '../sessions/sessions.ts';
import type { Workspaces } from '../workspaces/workspaces.ts';
import type { Resolving } from './resolving.ts';
import type { Runs } from './runs.ts';
import type { Caller, RunRow, RunStore } from './store.ts';

interface Needs {
  store: RunStore;
  runs: Runs;
  projects: Projects;
  workspaces: Workspaces;
  sessions: Sessions;
  resolve: Resolving;
}

/** What a follow-up cannot say for itself and takes from the run before. */
const kept = [
  'billing_mode',
  'permission_mode',
  'on_input',
  'input_timeout_seconds',
  'sandbox',
  'network',
  'checkpoint',
  'artifacts',
] as const satisfies (keyof RunRow)[];

/** Sessions as conversations: begun, gone on with and forked. */
export function createConversations({ store, runs, projects, workspaces, sessions, resolve }: Needs) {
  /** The run that a conversation has come to; of a fork without runs the one that it goes on after. */
  const latest = (session: Session): RunRow | undefined => {
    const id = session.latest_run_id ?? sessions.origin(session.id);
    return id === null ? undefined : store.find(id);
  };

  return {
    /** Begins a conversation without a run. */
    create(tx: Tx, organization_id: string, body: SessionCreate): Session {
      if ((body.workspace_id === undefined) === (body.project_id === undefined)) {
        const message = 'Give exactly one of workspace_id and project_id.';
        throw new Fault('invalid_request', message, { details: { errors: [{ path: '', message }] } });
      }
      const existing =
        body.workspace_id === undefined ? undefined : workspaces.getUsable(organization_id, body.workspace_id);
      const project = projects.getActive(organization_id, existing?.project_id ?? body.project_id!);
      const { agent_id, agent_revision, harness, model } = resolve(organization_id, body);
      const workspace = existing ?? workspaces.create(tx, project, {}, false).workspace;
      const { title = null, metadata = {} } = body;
      return sessions.create(tx, {
        organization_id,
        project_id: project.id,
        workspace_id: workspace.id,
        agent_id,
        agent_revision,
        harness,
        model,
        title,
        metadata,
      });
    },

    /** Accepts the next message of a conversation as a run. */
    send(tx: Tx, organization: string, id: string, body: MessageCreate, caller: Caller): RunAccepted {
      const before = latest(sessions.get(organization, id));
      const isOut = before?.sandbox === 'none';
      // Without a sandbox there is nothing to say of the network. That it goes without is the word of the local session alone.
      const names = kept.filter((name) => !isOut || (name !== 'network' && (name !== 'sandbox' || caller.is_local)));
      const settings = before && Object.fromEntries(names.map((name) => [name, before[name]]));
      return runs.create(tx, organization, { ...settings, ...body, session_id: id }, caller);
    },

    /** Begins a conversation that goes on, in files of its own, after a run of this one. */
    fork(tx: Tx, organization: string, id: string, body: SessionFork): Session {
      const session = sessions.get(organization, id);
      const run = body.run_id === undefined ? latest(session) : store.find(body.run_id);
      if (body.run_id !== undefined && run?.session_id !== id)
        throw new Fault('not_found', `This session has no run ${body.run_id}.`);
      const refuse = (state: string, message: string) => new Fault('invalid_state', message, { details: { state } });
      if (!run) throw refuse('empty', 'There is nothing to fork: this session has had no run yet.');
      if (!isTerminal(run.status))
        throw refuse(
          run.status,
          `The run ${run.id} has not ended. Wait for its end, or name an earlier one in run_id.`,
        );
      const checkpoint_id = run.checkpoint_ids.after;
      if (checkpoint_id === null)
        throw refuse('no_checkpoint', `The files were not kept after the run ${run.id}. Name another one in run_id.`);
      const project = projects.getActive(organization, session.project_id);
      const name = `${workspaces.get(organization, session.workspace_id).name.slice(0, 114)} fork`;
      const source = { type: 'checkpoint' as const, checkpoint_id };
      const { workspace } = workspaces.create(tx, project, { name, source }, false);
      const { organization_id, project_id, agent_id, agent_revision, harness, model } = session;
      const { title = session.title, metadata = session.metadata } = body;
      return sessions.create(
        tx,
        {
          organization_id,
          project_id,
          workspace_id: workspace.id,
          agent_id,
          agent_revision,
          harness,
          model,
          title,
          metadata,
        },
        run.id,
      );
    },
  };
}
export type Conversations = ReturnType<typeof createConversations>;

/** What was said before a run, oldest first: the last `turns` runs of its session, and of those that it was forked from. */
export function transcriptOf(
  { store, sessions }: Pick<Needs, 'store' | 'sessions'>,
  run: Pick<RunRow, 'session_id' | 'key'>,
  turns: number,
): RunSpec['transcript'] {
  const said: { prompt: string; text: string | null }[] = [];
  for (let at: { session_id: string; key: number } | undefined = run; at && said.length < turns;) {
    said.unshift(...store.transcript(at.session_id, at.key, turns - said.length));
    const origin = sessions.origin(at.session_id);
    const source: RunRow | undefined = origin === null ? undefined : store.find(origin);
    // With the run itself that the fork goes on after.
    at = source && { session_id: source.session_id, key: source.key + 1 };
  }
  return said.flatMap(({ prompt, text }) => [
    { role: 'user' as const, text: prompt },
    ...(text === null ? [] : [{ role: 'assistant' as const, text }]),
  ]);
}
