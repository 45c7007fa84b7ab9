import type { Context } from '../context.ts';
import { exit, Stop } from '../exit.ts';
import { settled } from '../place.ts';
import { cleanLine } from '../text.ts';
import { plural, shortId, size } from '../words.ts';

/** `agentctl df`: where the room on the disk goes. */
export async function df(context: Context): Promise<void> {
  const { out } = context;
  const client = await context.client();
  const storage = await client.call('getStorage');
  if (out.isJson) return out.json(storage);
  const { data, projects, workspaces, disk, total_bytes } = storage;
  const say = (name: string, bytes: number, more = '') =>
    out.print(`${size(bytes).padStart(10)}  ${cleanLine(name)}${more && out.paint('dim', `  ${more}`, 'stdout')}`);
  for (const { kind, bytes, files } of data) if (bytes > 0) say(kind, bytes, plural(files, 'file'));
  say('in all', total_bytes, `${size(disk.free_bytes)} free of ${size(disk.capacity_bytes)}`);
  if (projects.length > 0) out.print('\nProjects, checkpoints and workspaces:');
  for (const { project_id, name, checkpoint_bytes, workspace_bytes } of projects)
    say(
      name ?? shortId(project_id),
      checkpoint_bytes + workspace_bytes,
      `${size(checkpoint_bytes)} checkpoints, ${size(workspace_bytes)} workspaces`,
    );
  if (workspaces.length > 0) out.print('\nWorkspaces of the daemon’s own:');
  for (const { workspace_id, name, bytes } of workspaces) say(name, bytes, shortId(workspace_id));
  out.note('To make room: agentctl gc, agentctl checkpoints rm, agentctl workspaces rm.');
}

/** What a collection did, as its operation says it. */
interface Collection {
  checkpoints: number;
  objects: number;
  bytes: number;
  failed: { project_id: string; message: string }[];
}

/** `agentctl gc`: removes what no checkpoint needs any more. */
export async function gc(context: Context, { dryRun = false }: { dryRun?: boolean }): Promise<number> {
  const { out } = context;
  const client = await context.client();
  const operation = await settled(client, await client.insist('collectGarbage', { body: { dry_run: dryRun } }));
  if (operation.error) throw new Stop(exit.failed, operation.error.message);
  const { checkpoints, objects, bytes, failed } = operation.result as unknown as Collection;
  if (out.isJson) out.json(operation);
  else {
    const [verb, expired] = [dryRun ? 'Would free' : 'Freed', plural(checkpoints, 'expired checkpoint')];
    out.print(`${verb} about ${size(bytes)}: ${plural(objects, 'object')}, ${expired}.`);
    for (const { project_id, message } of failed)
      out.note(`Nothing could be removed for the project ${shortId(project_id)}: ${message}`);
  }
  return failed.length > 0 ? exit.failed : exit.good;
}
