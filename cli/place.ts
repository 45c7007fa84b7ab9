import { existsSync, realpathSync } from 'node:fs';
import { homedir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import type { Client, ReplyOf } from '../src/api/client.ts';
import { Fault } from '../src/api/error.ts';
import type { WorkspaceSource } from '../src/api/workspaces.ts';
import { exit, Stop } from './exit.ts';

type Operation = ReplyOf<'getOperation'>;

/** The root of the git work tree around a folder, or the folder itself; a real path. */
export function rootOf(folder: string): string {
  const start = realpathSync(folder);
  for (let at = start; ; at = dirname(at)) {
    if (existsSync(join(at, '.git'))) return at;
    if (at === dirname(at)) return start;
  }
}

/** Where a run in a directory works. */
export interface Place {
  workspaceId: string;
  projectId: string;
  /** Whether the workspace was made just now. */
  fresh: boolean;
}

/** The workspace that is this directory, found or made. */
export async function placeHere(client: Client, folder: string): Promise<Place> {
  const root = rootOf(folder);
  refuseWide(root);
  const found = await find(client, root);
  if (found) return found;
  const project = await client.insist('createProject', { body: { name: nameOf(root) } });
  try {
    const workspaceId = await createWorkspace(client, project.id, {
      name: nameOf(root),
      source: { type: 'directory', path: root, mode: 'in_place' },
    });
    return { workspaceId, projectId: project.id, fresh: true };
  } catch (error) {
    // Somebody else made it just now: theirs is taken, and the project that nobody needs is put away.
    const other = error instanceof Fault && error.code === 'invalid_state' ? error.details.workspace_id : undefined;
    if (typeof other !== 'string') throw error;
    await client.call('deleteProject', { path: { project_id: project.id } }).catch(() => {});
    const { id, project_id } = await client.call('getWorkspace', { path: { workspace_id: other } });
    return { workspaceId: id, projectId: project_id, fresh: false };
  }
}

/** The workspace that is this directory. Throws Stop when there is none yet. */
export async function workspaceHere(client: Client, folder: string): Promise<string> {
  const root = rootOf(folder);
  const found = await find(client, root);
  if (found) return found.workspaceId;
  throw new Stop(
    exit.notFound,
    `No workspace is in ${root}.`,
    'name one with -w (`agentctl workspaces ls`), or make it: agentctl workspaces new PROJECT --directory .',
  );
}

/** A new git worktree of this directory's repository. */
export async function worktreeHere(client: Client, folder: string, projectId?: string): Promise<Place> {
  const root = rootOf(folder);
  refuseWide(root);
  const project = projectId ?? (await projectOf(client, root));
  const workspaceId = await createWorkspace(client, project, {
    source: { type: 'directory', path: root, mode: 'worktree' },
  });
  return { workspaceId, projectId: project, fresh: true };
}

async function projectOf(client: Client, root: string): Promise<string> {
  const found = await find(client, root);
  if (found) return found.projectId;
  for await (const project of client.each('listProjects', { query: { query: nameOf(root), archived: false } })) {
    if (project.name === nameOf(root)) return project.id;
  }
  return (await client.insist('createProject', { body: { name: nameOf(root) } })).id;
}

/** Looks in the projects named like the directory first, then in the others: a project may have been renamed. */
async function find(client: Client, root: string): Promise<Place | undefined> {
  const seen = new Set<string>();
  for (const query of [
    { query: nameOf(root), archived: false },
    { archived: false, limit: 200 },
  ]) {
    for await (const { id } of client.each('listProjects', { query })) {
      if (seen.has(id)) continue;
      seen.add(id);
      for await (const { id: workspaceId, source, status } of client.each('listWorkspaces', {
        path: { project_id: id },
      })) {
        const here = source.type === 'directory' && source.mode === 'in_place' && source.path === root;
        if (here && !['deleting', 'deleted', 'failed'].includes(status))
          return { workspaceId, projectId: id, fresh: false };
      }
    }
  }
  return undefined;
}

type Progress = NonNullable<Operation['progress']>;

/** Creates a workspace and waits until it is ready; gives its id. Throws Stop when it fails. */
export async function createWorkspace(
  client: Client,
  project_id: string,
  { name, source = { type: 'empty' } }: { name?: string; source?: WorkspaceSource },
  progress?: (now: Progress) => void,
): Promise<string> {
  const body = { ...(name ? { name } : {}), source };
  const accepted = await client.insist('createWorkspace', { path: { project_id }, body });
  const operation = await settled(client, accepted, progress);
  const id = operation.resource?.id;
  if (operation.status === 'succeeded' && id) return id;
  const { code, message, details } = operation.error ?? {
    code: '',
    message: `The workspace is ${operation.status}.`,
    details: {},
  };
  if (code === 'invalid_state') throw new Fault('invalid_state', message, { details });
  throw new Stop(exit.failed, message, 'see `agentctl doctor`, or take another place with -w');
}

/** An operation once it has ended. `progress` is told, about once a second, how far it has come. */
export async function settled(
  client: Client,
  operation: Operation,
  progress?: (now: Progress) => void,
): Promise<Operation> {
  let now = operation;
  while (now.status === 'queued' || now.status === 'running') {
    const query = { wait: progress ? 1 : 50 };
    now = await client.call('getOperation', { path: { operation_id: now.id }, query });
    if (now.progress) progress?.(now.progress);
  }
  return now;
}

const nameOf = (root: string): string => (basename(root) || 'root').slice(0, 120);

function refuseWide(root: string): void {
  if (root !== '/' && root !== homedir()) return;
  const what = root === '/' ? 'the whole machine' : 'your whole home folder';
  throw new Stop(
    exit.usage,
    `This would give ${what} to the agent.`,
    'go to a project’s folder first, or name a workspace with -w',
  );
}
