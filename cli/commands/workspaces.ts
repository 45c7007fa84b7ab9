import { realpathSync } from 'node:fs';
import type { ReplyOf } from '../../src/api/client.ts';
import { confirmed } from '../ask.ts';
import type { Context } from '../context.ts';
import { exit, Stop } from '../exit.ts';
import { idOf } from '../ids.ts';
import { pageOf } from '../listing.ts';
import { createWorkspace, rootOf } from '../place.ts';
import { ago, shortId } from '../words.ts';

type Workspace = ReplyOf<'getWorkspace'>;

const sourceOf = ({ source }: Workspace): string =>
  source.type === 'directory' ? source.mode.replace('_', ' ') : source.type;

/** `agentctl workspaces ls [PROJECT]`. */
export async function ls(context: Context, { limit }: { limit: number }, text?: string): Promise<void> {
  const client = await context.client();
  const view = {
    id: ({ id }: Workspace) => id,
    name: ({ name }: Workspace) => name,
    empty: 'No workspaces yet. agentctl run "…" in a directory makes one, and so does agentctl workspaces new PROJECT.',
    columns: [
      { title: 'WORKSPACE', value: ({ id }: Workspace) => shortId(id) },
      { title: 'NAME', value: ({ name }: Workspace) => name },
      { title: 'STATUS', value: ({ status, writer }: Workspace) => (writer ? `${status}, ${writer.kind}` : status) },
      { title: 'SOURCE', value: sourceOf },
      { title: 'BRANCH', value: ({ git }: Workspace) => git?.branch ?? '–' },
      { title: 'PATH', value: ({ path }: Workspace) => path, flex: true },
      { title: 'REVISION', value: ({ revision }: Workspace) => String(revision), wide: true, right: true },
      { title: 'CREATED', value: ({ created_at }: Workspace) => ago(created_at, Date.now()), wide: true },
    ],
  };
  if (text) {
    const project_id = await idOf(client, 'project', text);
    return context.out.list(await pageOf(client, 'listWorkspaces', { path: { project_id } }, limit), view);
  }
  // The API lists workspaces by project: over all of them this page is put together here.
  const data: Workspace[] = [];
  for await (const { id } of client.each('listProjects', { query: { archived: false, limit: 200 } })) {
    for await (const workspace of client.each('listWorkspaces', { path: { project_id: id } })) {
      if (workspace.status !== 'deleted') data.push(workspace);
    }
  }
  data.sort((a, b) => (a.created_at < b.created_at ? 1 : -1));
  await context.out.list({ data: data.slice(0, limit), next_cursor: null }, view);
}

const print = ({ out }: Context, workspace: Workspace): void =>
  out.one(workspace, workspace.id, [
    ['workspace', workspace.id],
    ['name', workspace.name],
    ['project', workspace.project_id],
    ['status', workspace.status],
    ['error', workspace.error?.message ?? null],
    ['source', sourceOf(workspace)],
    ['path', workspace.path],
    ['branch', workspace.git?.branch ?? null],
    ['writer', workspace.writer && `${workspace.writer.kind} ${workspace.writer.id}`],
    ['revision', String(workspace.revision)],
    ['created', ago(workspace.created_at, Date.now())],
    ['removed', workspace.delete_after && ago(workspace.delete_after, Date.now())],
  ]);

/** `agentctl workspaces new PROJECT [NAME]`. */
export async function create(
  context: Context,
  { directory, worktree }: { directory?: string; worktree?: boolean },
  text: string,
  name?: string,
): Promise<void> {
  const client = await context.client();
  const project_id = await idOf(client, 'project', text);
  const path = directory ? existing(directory) : worktree ? rootOf(process.cwd()) : undefined;
  const mode = worktree ? 'worktree' : 'in_place';
  const workspace_id = await createWorkspace(client, project_id, {
    ...(name ? { name } : {}),
    ...(path ? { path, mode } : {}),
  });
  print(context, await client.call('getWorkspace', { path: { workspace_id } }));
}

function existing(directory: string): string {
  try {
    return realpathSync(directory);
  } catch {
    throw new Stop(exit.notFound, `There is no directory ${directory}.`);
  }
}

/** `agentctl workspaces show WORKSPACE`. */
export async function show(context: Context, _: object, text: string): Promise<void> {
  const client = await context.client();
  print(context, await client.call('getWorkspace', { path: { workspace_id: await idOf(client, 'workspace', text) } }));
}

/** `agentctl workspaces rename WORKSPACE NAME`: the resource, never the directory. */
export async function rename(context: Context, _: object, text: string, name: string): Promise<void> {
  const client = await context.client();
  const workspace_id = await idOf(client, 'workspace', text);
  const workspace = await client.insist('updateWorkspace', { path: { workspace_id }, body: { name } });
  if (context.out.isJson) context.out.json(workspace);
  else context.out.note(`${shortId(workspace_id)} is called ${workspace.name} now.`);
}

/** `agentctl workspaces path WORKSPACE`: for `cd "$(agentctl workspaces path …)"`. */
export async function path(context: Context, _: object, text: string): Promise<void> {
  const client = await context.client();
  const workspace = await client.call('getWorkspace', {
    path: { workspace_id: await idOf(client, 'workspace', text) },
  });
  context.out.print(workspace.path);
}

/** `agentctl workspaces rm WORKSPACE`. */
export async function remove(context: Context, { after }: { after?: number }, text: string): Promise<void> {
  const client = await context.client();
  const workspace_id = await idOf(client, 'workspace', text);
  const before = await client.call('getWorkspace', { path: { workspace_id } });
  const own = before.source.type === 'directory' && before.source.mode === 'in_place';
  await confirmed(
    context,
    `Remove workspace ${before.name}${own ? ' (your own directory stays as it is)' : ` and its files at ${before.path}`}?`,
  );
  const query = after === undefined ? {} : { after_seconds: after };
  const operation = await client.insist('deleteWorkspace', { path: { workspace_id }, query });
  if (context.out.isJson) return context.out.json(operation);
  const { delete_after } = await client.call('getWorkspace', { path: { workspace_id } });
  const when = delete_after ? ` ${ago(delete_after, Date.now())}` : '';
  context.out.note(`Removed${when}. To change your mind: agentctl api DELETE /v1/workspaces/${workspace_id}/deletion`);
}
