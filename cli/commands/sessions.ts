import type { ReplyOf } from '../../src/api/client.ts';
import type { Context } from '../context.ts';
import { idOf } from '../ids.ts';
import { exit, Stop } from '../exit.ts';
import { pageOf } from '../listing.ts';
import { placeHere } from '../place.ts';
import { followAccepted } from './run.ts';
import { ago, count, duration, money, shortId } from '../words.ts';

/** `agentctl sessions ls`. */
export async function ls(context: Context, options: { workspace?: string; limit: number }): Promise<void> {
  const client = await context.client();
  const query = options.workspace ? { workspace_id: await idOf(client, 'workspace', options.workspace) } : {};
  const now = Date.now();
  await context.out.list(await pageOf(client, 'listSessions', { query }, options.limit), {
    id: ({ id }) => id,
    name: ({ id, title }) => title ?? id,
    empty: 'No sessions yet. Each agentctl run begins one; agentctl run -c goes on with it.',
    columns: [
      { title: 'SESSION', value: ({ id }) => shortId(id) },
      { title: 'STATUS', value: ({ status }) => status.replace('_', ' ') },
      { title: 'HARNESS', value: ({ harness }) => harness },
      { title: 'TITLE', value: ({ title }) => title ?? '–', flex: true },
      { title: 'RUNS', value: ({ run_count }) => String(run_count), right: true },
      { title: 'COST', value: ({ usage }) => money(usage.cost_micro_usd), right: true },
      { title: 'UPDATED', value: ({ updated_at }) => ago(updated_at, now) },
      { title: 'WORKSPACE', value: ({ workspace_id }) => shortId(workspace_id), wide: true },
      { title: 'MODEL', value: ({ model }) => model ?? '–', wide: true },
    ],
  });
}

type Session = ReplyOf<'getSession'>;

/** `agentctl sessions show SESSION`. */
export async function show(context: Context, _: object, text: string): Promise<void> {
  const client = await context.client();
  print(context, await client.call('getSession', { path: { session_id: await idOf(client, 'session', text) } }));
}

const print = (context: Context, session: Session): void => {
  const { usage } = session;
  context.out.one(session, session.id, [
    ['session', session.id],
    ['title', session.title],
    ['status', session.status.replace('_', ' ')],
    ['agent', session.agent_id && `${session.agent_id} at revision ${session.agent_revision}`],
    ['harness', session.harness],
    ['model', session.model],
    ['workspace', session.workspace_id],
    ['project', session.project_id],
    ['runs', String(session.run_count)],
    ['latest run', session.latest_run_id],
    ['took', duration(usage.duration_ms)],
    ['cost', money(usage.cost_micro_usd)],
    ['tokens', `${count(usage.input_tokens)} in, ${count(usage.output_tokens)} out`],
    ['next', session.status === 'archived' ? null : `agentctl send ${shortId(session.id)} "…"`],
  ]);
};

/** The options of `agentctl sessions new`. */
export interface SessionOptions {
  workspace?: string;
  project?: string;
  agent?: string;
  harness?: string;
  model?: string;
}

/** `agentctl sessions new [TITLE]`: a conversation in this directory, or where the options say. */
export async function create(context: Context, options: SessionOptions, title?: string): Promise<void> {
  const client = await context.client();
  const { project, workspace, agent, harness, model } = options;
  const project_id = project && (await idOf(client, 'project', project));
  const where = workspace
    ? { workspace_id: await idOf(client, 'workspace', workspace, { project_id: project_id || undefined }) }
    : project_id
      ? { project_id }
      : { workspace_id: (await placeHere(client, process.cwd())).workspaceId };
  const body = {
    ...where,
    ...(agent ? { agent_id: await idOf(client, 'agent', agent) } : {}),
    ...(harness ? { harness } : {}),
    ...(model ? { model } : {}),
    ...(title ? { title } : {}),
  };
  print(context, await client.insist('createSession', { body }));
}

/** `agentctl sessions rename SESSION TITLE`. */
export async function rename(context: Context, _: object, text: string, title: string): Promise<void> {
  const client = await context.client();
  const session_id = await idOf(client, 'session', text);
  const session = await client.insist('updateSession', { path: { session_id }, body: { title } });
  if (context.out.isJson) context.out.json(session);
  else context.out.note(`${shortId(session_id)} is called ${title} now.`);
}

/** `agentctl sessions archive SESSION`, and back with --undo. */
export async function archive(context: Context, { undo }: { undo?: boolean }, text: string): Promise<void> {
  const client = await context.client();
  const session_id = await idOf(client, 'session', text);
  const session = await client.insist('updateSession', { path: { session_id }, body: { archived: !undo } });
  if (context.out.isJson) context.out.json(session);
  else context.out.note(undo ? 'It takes messages again.' : 'Archived: it takes no more messages.');
}

/** `agentctl sessions fork SESSION`: goes on from there in files of its own. */
export async function fork(
  context: Context,
  { run, title }: { run?: string; title?: string },
  text: string,
): Promise<void> {
  const client = await context.client();
  const session_id = await idOf(client, 'session', text);
  const run_id = run && (await idOf(client, 'run', run));
  const body = { ...(run_id ? { run_id } : {}), ...(title ? { title } : {}) };
  const session = await client.insist('forkSession', { path: { session_id }, body });
  print(context, session);
  const { path } = await client.call('getWorkspace', { path: { workspace_id: session.workspace_id } });
  context.out.note(`Its files: ${path}`);
}

/** The options of `agentctl send`. */
export interface SendOptions {
  queue?: boolean;
  interrupt?: boolean;
  reject?: boolean;
  model?: string;
  detach?: boolean;
}

/** `agentctl send SESSION TEXT`: the next message of a conversation, followed to the end of its run. */
export async function send(context: Context, options: SendOptions, text: string, prompt: string): Promise<number> {
  const ways = (['queue', 'interrupt', 'reject'] as const).filter((way) => options[way]);
  if (ways.length > 1) throw new Stop(exit.usage, `--${ways.join(' and --')} do not go together.`);
  const client = await context.client();
  const session_id = await idOf(client, 'session', text);
  const body = { prompt, on_busy: ways[0] ?? ('queue' as const), ...(options.model ? { model: options.model } : {}) };
  const accepted = await client.insist('continueSession', { path: { session_id }, body });
  return followAccepted(context, client, accepted, options);
}
