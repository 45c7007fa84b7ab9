import type { Context } from '../context.ts';
import { idOf } from '../ids.ts';
import { pageOf } from '../listing.ts';
import { ago, shortId } from '../words.ts';

/** `agentctl grants ls`: what was allowed for good. */
export async function ls(context: Context, { project, limit }: { project?: string; limit: number }): Promise<void> {
  const client = await context.client();
  const query = project ? { project_id: await idOf(client, 'project', project) } : {};
  const now = Date.now();
  await context.out.list(await pageOf(client, 'listGrants', { query }, limit), {
    id: ({ id }) => id,
    empty: 'Nothing is allowed for good. agentctl answer REQ --always does that.',
    columns: [
      { title: 'GRANT', value: ({ id }) => shortId(id) },
      { title: 'HARNESS', value: ({ harness }) => harness },
      { title: 'TOOL', value: ({ tool }) => tool },
      { title: 'JUST THIS', value: ({ pattern }) => pattern, flex: true },
      { title: 'PROJECT', value: ({ project_id }) => shortId(project_id) },
      { title: 'GIVEN', value: ({ created_at }) => ago(created_at, now) },
      { title: 'IN RUN', value: ({ run_id }) => shortId(run_id), wide: true },
    ],
  });
}

/** `agentctl grants rm GRANT…`: asked about again, in runs at work too. */
export async function remove(context: Context, _: object, texts: string[]): Promise<void> {
  const client = await context.client();
  for (const text of texts) {
    const grant_id = await idOf(client, 'grant', text);
    await client.insist('deleteGrant', { path: { grant_id } });
    context.out.note(`${shortId(grant_id)} is taken back.`);
  }
}
