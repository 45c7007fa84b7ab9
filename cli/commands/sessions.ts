import type { Context } from '../context.ts';
import { idOf } from '../ids.ts';
import { pageOf } from '../listing.ts';
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

/** `agentctl sessions show SESSION`. */
export async function show(context: Context, _: object, text: string): Promise<void> {
  const client = await context.client();
  const session = await client.call('getSession', { path: { session_id: await idOf(client, 'session', text) } });
  const { usage } = session;
  context.out.one(session, session.id, [
    ['session', session.id],
    ['title', session.title],
    ['status', session.status.replace('_', ' ')],
    ['harness', session.harness],
    ['model', session.model],
    ['workspace', session.workspace_id],
    ['project', session.project_id],
    ['runs', String(session.run_count)],
    ['latest run', session.latest_run_id],
    ['took', duration(usage.duration_ms)],
    ['cost', money(usage.cost_micro_usd)],
    ['tokens', `${count(usage.input_tokens)} in, ${count(usage.output_tokens)} out`],
    ['next', `agentctl run -s ${session.id} "…"`],
  ]);
}
