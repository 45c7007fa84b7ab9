import { realpathSync } from 'node:fs';
import type { Client, ReplyOf } from '../../src/api/client.ts';
import type { WorkspaceSource } from '../../src/api/workspaces.ts';
import { confirmed } from '../ask.ts';
import type { Context } from '../context.ts';
import { exit, Stop } from '../exit.ts';
import { idOf } from '../ids.ts';
import { pageOf } from '../listing.ts';
import { createWorkspace, rootOf } from '../place.ts';
import { cleanLine } from '../text.ts';
import { ago, shortId } from '../words.ts';

type Workspace = ReplyOf<'getWorkspace'>;

const sourceOf = ({ source }: Workspace): string =>
  source.type === 'directory' ? source.mode.replace('_', ' ') : source.type;

/** The same with where it comes from. */
const originOf = (workspace: Workspace): string => {
  const { source } = workspace;
  switch (source.type) {
    case 'directory':
      return `${sourceOf(workspace)} of ${source.path}`.replace(/^in place of/, 'in place,');
    case 'git':
      return `git, ${source.url}${source.ref ? ` at ${source.ref}` : ''}`;
    case 'checkpoint':
      return `checkpoint ${source.checkpoint_id}`;
    case 'empty':
      return 'empty';
  }
};

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
    ['source', originOf(workspace)],
    ['path', workspace.path],
    ['branch', workspace.git?.branch ?? null],
    ['writer', workspace.writer && `${workspace.writer.kind} ${workspace.writer.id}`],
    ['revision', String(workspace.revision)],
    ['watch', [workspace.watch.mode, workspace.watch.reason].filter(Boolean).join(': ')],
    ['created', ago(workspace.created_at, Date.now())],
    ['removed', workspace.delete_after && ago(workspace.delete_after, Date.now())],
  ]);

interface New {
  directory?: string;
  copy?: boolean;
  worktree?: boolean;
  git?: string;
  depth?: number;
  fromCheckpoint?: string;
}

async function sourceFor(
  client: Client,
  { directory, copy, worktree, git, depth, fromCheckpoint }: New,
): Promise<WorkspaceSource> {
  const ways = [
    copy && '--copy',
    worktree && '--worktree',
    git !== undefined && '--git',
    fromCheckpoint && '--from-checkpoint',
  ].filter((way): way is string => typeof way === 'string');
  const [way] = ways;
  const isOwn = directory !== undefined && (way === '--git' || way === '--from-checkpoint');
  if (ways.length > 1 || isOwn)
    throw new Stop(exit.usage, `${[...(isOwn ? ['--directory'] : []), ...ways].join(' and ')} do not go together.`);
  if (depth !== undefined && git === undefined) throw new Stop(exit.usage, '--depth goes with --git.');
  if (git !== undefined) {
    const at = git.lastIndexOf('#');
    const [url, ref] = at < 0 ? [git, ''] : [git.slice(0, at), git.slice(at + 1)];
    return { type: 'git', url, ...(ref ? { ref } : {}), ...(depth === undefined ? {} : { depth }) };
  }
  if (fromCheckpoint !== undefined)
    return { type: 'checkpoint', checkpoint_id: await idOf(client, 'checkpoint', fromCheckpoint) };
  if (worktree)
    return {
      type: 'directory',
      path: directory ? existing(directory) : rootOf(process.cwd()),
      mode: 'worktree',
    };
  if (copy) return { type: 'directory', path: existing(directory ?? process.cwd()), mode: 'copy' };
  if (directory !== undefined) return { type: 'directory', path: existing(directory), mode: 'in_place' };
  return { type: 'empty' };
}

/** `agentctl workspaces new PROJECT [NAME]`. On a terminal it says how far a clone or a copy has come. */
export async function create(context: Context, options: New, text: string, name?: string): Promise<void> {
  const client = await context.client();
  const source = await sourceFor(client, options);
  const project_id = await idOf(client, 'project', text);
  const { stderr } = context.out.streams;
  let hasLine = false;
  const progress = ({ done, total, unit }: { done: number; total: number | null; unit: string }) => {
    stderr.write(`\r\x1b[K${done}${total === null ? '' : ` of ${total}`} ${unit}`);
    hasLine = true;
  };
  try {
    const body = { ...(name ? { name } : {}), source };
    const workspace_id = await createWorkspace(client, project_id, body, stderr.isTTY ? progress : undefined);
    if (hasLine) stderr.write('\r\x1b[K');
    hasLine = false;
    print(context, await client.call('getWorkspace', { path: { workspace_id } }));
  } finally {
    if (hasLine) stderr.write('\n');
  }
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

/** What goes with a workspace, as sentences. */
function lossOf(result: Record<string, unknown>): string[] {
  const count = (name: string): number => (typeof result[name] === 'number' ? result[name] : 0);
  const some = (n: number, one: string) => (n === 0 ? [] : [`${n} ${one}${n === 1 ? '' : 's'}`]);
  const goes = [
    ...some(count('uncommitted_files'), 'uncommitted file'),
    ...some(count('unpushed_commits'), 'commit').map((commits) => `${commits} that no remote has`),
  ];
  return [
    ...(goes.length === 0 ? [] : [`With it go ${goes.join(' and ')}.`]),
    ...(typeof result.checkpoint_id === 'string'
      ? [`Until then its tree is in checkpoint ${shortId(result.checkpoint_id)}.`]
      : []),
    ...(typeof result.checkpoint_error === 'string' ? [`Its tree could not be kept: ${result.checkpoint_error}`] : []),
  ];
}

/** `agentctl workspaces rm WORKSPACE`. */
export async function remove(
  context: Context,
  { after, undo }: { after?: number; undo?: boolean },
  text: string,
): Promise<void> {
  const client = await context.client();
  const workspace_id = await idOf(client, 'workspace', text);
  if (undo) {
    const workspace = await client.insist('cancelWorkspaceDeletion', { path: { workspace_id } });
    if (context.out.isJson) context.out.json(workspace);
    else context.out.note(`${workspace.name} stays.`);
    return;
  }
  const before = await client.call('getWorkspace', { path: { workspace_id } });
  const own = before.source.type === 'directory' && before.source.mode === 'in_place';
  await confirmed(
    context,
    `Remove workspace ${cleanLine(before.name)}${own ? ' (your own directory stays as it is)' : ` and its files at ${before.path}`}?`,
  );
  const query = after === undefined ? {} : { after_seconds: after };
  const operation = await client.insist('deleteWorkspace', { path: { workspace_id }, query });
  if (context.out.isJson) return context.out.json(operation);
  let now = operation;
  // What goes with it is found out first, however long one may change one's mind.
  for (let tries = 0; now.result === null && now.finished_at === null && tries < 15; tries += 1)
    now = await client.call('getOperation', { path: { operation_id: operation.id }, query: { wait: 1 } });
  const { delete_after } = await client.call('getWorkspace', { path: { workspace_id } });
  const when = delete_after ? ` ${ago(delete_after, Date.now())}` : '';
  context.out.note([`Removed${when}.`, ...lossOf(now.result ?? {})].join(' '));
  if (delete_after) context.out.note(`To change your mind: agentctl workspaces rm ${shortId(workspace_id)} --undo`);
}
