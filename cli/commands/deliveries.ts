import type { ReplyOf } from '../../src/api/client.ts';
import type { Context } from '../context.ts';
import { exit, Stop } from '../exit.ts';
import { idOf } from '../ids.ts';
import { pageOf } from '../listing.ts';
import { cleanLine } from '../text.ts';
import { ago, plural, shortId } from '../words.ts';

type Delivery = ReplyOf<'getWebhookDelivery'>;

/** What the last attempt came to. */
const outcome = ({ attempts }: Delivery): string => {
  const last = attempts.at(-1);
  if (!last) return '–';
  return last.error ? last.error.code : String(last.response_status);
};

interface Filter {
  limit: number;
  status?: string;
  endpoint?: string;
  event?: string;
}

/** `agentctl deliveries ls`. */
export async function ls(context: Context, { limit, status, endpoint, event }: Filter): Promise<void> {
  const client = await context.client();
  const now = Date.now();
  const query = {
    ...(status === undefined ? {} : { status }),
    ...(event === undefined ? {} : { event_type: event }),
    ...(endpoint === undefined ? {} : { endpoint_id: await idOf(client, 'webhook', endpoint) }),
  };
  await context.out.list(await pageOf(client, 'listWebhookDeliveries', { query }, limit), {
    id: ({ id }) => id,
    empty: 'Nothing was sent yet. agentctl webhooks test ENDPOINT sends something.',
    columns: [
      { title: 'DELIVERY', value: ({ id }) => shortId(id) },
      { title: 'EVENT', value: ({ event_type }) => event_type },
      {
        title: 'STATUS',
        value: ({ status: is }) => is,
        style: ({ status: is }) => (is === 'succeeded' ? 'green' : is === 'exhausted' ? 'red' : undefined),
      },
      { title: 'ATTEMPTS', value: ({ attempt_count }) => String(attempt_count), right: true },
      { title: 'LAST', value: outcome },
      { title: 'NEXT', value: ({ next_attempt_at }) => ago(next_attempt_at, now) },
      { title: 'ENDPOINT', value: ({ endpoint_id }) => shortId(endpoint_id) },
      { title: 'MADE', value: ({ created_at }) => ago(created_at, now) },
    ],
  });
}

/** `agentctl deliveries show DELIVERY`. */
export async function show(context: Context, _: object, text: string): Promise<void> {
  const client = await context.client();
  const delivery_id = await idOf(client, 'delivery', text);
  const delivery = await client.call('getWebhookDelivery', { path: { delivery_id } });
  const { id, event_id, event_type, status, endpoint_id, next_attempt_at, replay_of, attempts } = delivery;
  context.out.one(delivery, id, [
    ['delivery', id],
    ['event', `${event_type} ${event_id}`],
    ['endpoint', endpoint_id],
    ['status', status],
    ['replay of', replay_of],
    ['next', next_attempt_at && ago(next_attempt_at, Date.now())],
    [
      'attempts',
      attempts
        .map(({ number, at, duration_ms, response_status, response_excerpt, error }) => {
          const came = error ? `${error.code}: ${error.message}` : String(response_status);
          const said = response_excerpt ? `  ${cleanLine(response_excerpt).slice(0, 80)}` : '';
          return `${number}  ${at}  ${duration_ms} ms  ${came}${said}`;
        })
        .join('\n'),
    ],
  ]);
}

/** `agentctl deliveries replay [DELIVERY…] [--since TIME]`. */
export async function replay(
  context: Context,
  { since, endpoint }: { since?: number; endpoint?: string[] },
  given: string[] = [],
): Promise<void> {
  if ((given.length === 0) === (since === undefined))
    throw new Stop(exit.usage, 'Name deliveries, or give --since.', '`agentctl deliveries ls` lists them');
  const client = await context.client();
  const ids: string[] = [];
  for (const text of given) ids.push(await idOf(client, 'delivery', text));
  if (since !== undefined) {
    const query = {
      status: 'exhausted,cancelled',
      from: new Date(Date.now() - since * 1000).toISOString(),
      limit: 200,
    };
    const only = endpoint && (await Promise.all(endpoint.map((text) => idOf(client, 'webhook', text))));
    // An event that has been replayed is not replayed once more for its first delivery.
    const again = new Set<string>();
    for await (const delivery of client.each('listWebhookDeliveries', {
      query: { ...query, status: 'pending,retrying,succeeded,exhausted,cancelled' },
    })) {
      if (delivery.replay_of) again.add(delivery.replay_of);
      const lost = delivery.status === 'exhausted' || delivery.status === 'cancelled';
      if (lost && !again.has(delivery.id) && (!only || only.includes(delivery.endpoint_id))) ids.push(delivery.id);
    }
    if (ids.length === 0) return context.out.note('Everything of that time has arrived, or is still being tried.');
  }
  const { out } = context;
  let failed = 0;
  for (const delivery_id of ids.toReversed()) {
    try {
      const operation = await client.insist('replayWebhookDelivery', { path: { delivery_id }, body: {} });
      if (out.isJson) out.json(operation);
      else out.print(operation.resource!.id);
    } catch (error) {
      if (ids.length === 1) throw error;
      failed += 1;
      out.note(`${shortId(delivery_id)}: ${cleanLine((error as Error).message)}`);
    }
  }
  out.note(`Sent again: ${plural(ids.length - failed, 'event')}.`);
  if (failed > 0)
    throw new Stop(
      exit.failed,
      `${plural(failed, 'delivery').replace('deliverys', 'deliveries')} could not be replayed.`,
    );
}
