import { scopes as allScopes, type Scope } from '../../src/api/endpoint.ts';
import { confirmed } from '../ask.ts';
import type { Context } from '../context.ts';
import { exit, Stop } from '../exit.ts';
import { idOf } from '../ids.ts';
import { pageOf } from '../listing.ts';
import { ago, shortId } from '../words.ts';

/** `agentctl keys ls`. */
export async function ls(context: Context, { limit }: { limit: number }): Promise<void> {
  const client = await context.client();
  const now = Date.now();
  await context.out.list(await pageOf(client, 'listApiKeys', {}, limit), {
    id: ({ id }) => id,
    name: ({ name }) => name,
    empty: 'No API keys yet. agentctl keys new NAME --scope runs:read makes one.',
    columns: [
      { title: 'KEY', value: ({ id }) => shortId(id) },
      { title: 'NAME', value: ({ name }) => name, flex: true },
      {
        title: 'STATUS',
        value: ({ revoked_at, expires_at }) =>
          revoked_at ? 'revoked' : expires_at && Date.parse(expires_at) <= now ? 'expired' : 'good',
        style: ({ revoked_at }) => (revoked_at ? 'dim' : 'green'),
      },
      { title: 'VALUE', value: ({ prefix, last4 }) => `${prefix}…${last4}` },
      { title: 'USED', value: ({ last_used_at }) => ago(last_used_at, now) },
      { title: 'EXPIRES', value: ({ expires_at }) => ago(expires_at, now) },
      { title: 'SCOPES', value: ({ scopes }) => scopes.join(' '), flex: true },
      { title: 'CREATED', value: ({ created_at }) => ago(created_at, now), wide: true },
    ],
  });
}

/** `agentctl keys new NAME --scope …`: the key itself is all that standard output gets. */
export async function create(
  context: Context,
  { scope, expires }: { scope: string; expires?: number },
  name: string,
): Promise<void> {
  const wanted = scope === 'all' ? [...allScopes] : scope.split(/[ ,]+/).filter((one) => one !== '');
  const unknown = wanted.find((one) => !(allScopes as readonly string[]).includes(one));
  if (unknown !== undefined || wanted.length === 0)
    throw new Stop(exit.usage, `There is no scope “${unknown ?? ''}”.`, `the scopes are: ${allScopes.join(' ')}`);
  const client = await context.client();
  const expires_at = expires === undefined ? null : new Date(Date.now() + expires * 1000).toISOString();
  const key = await client.insist('createApiKey', {
    body: { name, scopes: [...new Set(wanted)] as Scope[], expires_at },
  });
  const { out } = context;
  if (out.isJson) return out.json(key);
  out.print(key.key ?? '');
  const until = key.expires_at ? `, until ${key.expires_at}` : '';
  out.note(`This is the only time it is shown. ${key.name}: ${key.scopes.join(' ')}${until}.`);
}

/** `agentctl keys revoke KEY`. */
export async function revoke(context: Context, _: object, text: string): Promise<void> {
  const client = await context.client();
  const key_id = await idOf(client, 'key', text);
  await confirmed(context, `Revoke the key ${shortId(key_id)}? Whoever uses it is refused at once.`);
  await client.insist('revokeApiKey', { path: { key_id } });
  context.out.note('Revoked.');
}
