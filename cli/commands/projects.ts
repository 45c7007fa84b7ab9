import type { ReplyOf } from '../../src/api/client.ts';
import { confirmed } from '../ask.ts';
import type { Context } from '../context.ts';
import { idOf } from '../ids.ts';
import { pageOf } from '../listing.ts';
import { settled } from '../place.ts';
import { exit, Stop } from '../exit.ts';
import { ago, shortId } from '../words.ts';

type Project = ReplyOf<'getProject'>;

/** `agentctl projects ls`. */
export async function ls(context: Context, { all, limit }: { all?: boolean; limit: number }): Promise<void> {
  const client = await context.client();
  const now = Date.now();
  await context.out.list(await pageOf(client, 'listProjects', { query: all ? {} : { archived: false } }, limit), {
    id: ({ id }) => id,
    name: ({ name }) => name,
    empty: 'No projects yet. agentctl run "…" in a directory makes one, and so does agentctl projects new NAME.',
    columns: [
      { title: 'PROJECT', value: ({ id }) => shortId(id) },
      { title: 'NAME', value: ({ name }) => name, flex: true },
      { title: 'STATUS', value: ({ status }) => status },
      { title: 'KEPT', value: ({ persistence }) => persistence, wide: true },
      { title: 'DESCRIPTION', value: ({ description }) => description ?? '–', wide: true, flex: true },
      { title: 'CREATED', value: ({ created_at }) => ago(created_at, now) },
    ],
  });
}

const print = ({ out }: Context, project: Project): void =>
  out.one(project, project.id, [
    ['project', project.id],
    ['name', project.name],
    ['description', project.description],
    ['status', project.status],
    ['kept', project.persistence],
    ['created', ago(project.created_at, Date.now())],
    ['removed', project.delete_after && ago(project.delete_after, Date.now())],
  ]);

/** `agentctl projects new NAME`. */
export async function create(context: Context, { description }: { description?: string }, name: string): Promise<void> {
  const client = await context.client();
  print(context, await client.insist('createProject', { body: { name, ...(description ? { description } : {}) } }));
}

/** `agentctl projects show PROJECT`. */
export async function show(context: Context, _: object, text: string): Promise<void> {
  const client = await context.client();
  print(context, await client.call('getProject', { path: { project_id: await idOf(client, 'project', text) } }));
}

/** `agentctl projects rename PROJECT NAME`. */
export async function rename(context: Context, _: object, text: string, name: string): Promise<void> {
  const client = await context.client();
  const project_id = await idOf(client, 'project', text);
  const project = await client.insist('updateProject', { path: { project_id }, body: { name } });
  if (context.out.isJson) context.out.json(project);
  else context.out.note(`${shortId(project_id)} is called ${project.name} now.`);
}

/** `agentctl projects archive PROJECT`: done once its runs have ended. */
export async function archive(context: Context, _: object, text: string): Promise<void> {
  const client = await context.client();
  const project_id = await idOf(client, 'project', text);
  const operation = await client.insist('deleteProject', { path: { project_id } });
  if (context.out.isJson) context.out.json(operation);
  else context.out.note('Archived once its runs have ended. Files and history stay.');
}

/** `agentctl projects rm PROJECT`: archives it and schedules its removal. */
export async function remove(context: Context, { after }: { after?: number }, text: string): Promise<void> {
  const client = await context.client();
  const { out } = context;
  const project_id = await idOf(client, 'project', text);
  const project = await client.call('getProject', { path: { project_id } });
  await confirmed(context, `Remove project ${project.name} with its workspaces and history?`);
  if (!project.archived) {
    const done = await settled(client, await client.insist('deleteProject', { path: { project_id } }));
    if (done.status !== 'succeeded')
      throw new Stop(exit.conflict, done.error?.message ?? `The archiving is ${done.status}.`);
  }
  const body = after === undefined ? {} : { after_seconds: after };
  const operation = await client.insist('scheduleProjectDeletion', { path: { project_id }, body });
  if (out.isJson) return out.json(operation);
  const { delete_after } = await client.call('getProject', { path: { project_id } });
  const when = delete_after ? ` ${ago(delete_after, Date.now())}` : '';
  out.note(`Removed for good${when}. To change your mind: agentctl api DELETE /v1/projects/${project_id}/deletion`);
}
