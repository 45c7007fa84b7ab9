import type { CallInput, Client, ItemOf, Listing } from '../src/api/client.ts';

/** The first `limit` items of a listing as one page; a single page comes as the API has it. */
export async function pageOf<Id extends Listing>(
  client: Client,
  id: Id,
  input: CallInput<Id>,
  limit: number,
): Promise<{ data: ItemOf<Id>[]; next_cursor: string | null }> {
  const data: ItemOf<Id>[] = [];
  let next_cursor: string | null = null;
  do {
    const query = {
      ...(input as { query?: object }).query,
      limit: Math.min(200, Math.max(1, limit - data.length)),
      ...(next_cursor ? { cursor: next_cursor } : {}),
    };
    const page = (await client.call(id, ...([{ ...input, query }] as never))) as {
      data: ItemOf<Id>[];
      next_cursor: string | null;
    };
    data.push(...page.data);
    next_cursor = page.next_cursor;
  } while (next_cursor && data.length < limit);
  return { data, next_cursor };
}
