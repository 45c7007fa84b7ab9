import { readFileSync } from 'node:fs';
import type { Client, ReplyOf } from '../../src/api/client.ts';
import { verify, WebhookVerificationError } from '../../src/api/signature.ts';
import { webhookEventTypes } from '../../src/api/webhooks.ts';
import { confirmed } from '../ask.ts';
import type { Context } from '../context.ts';
import { exit, Stop } from '../exit.ts';
import { idOf } from '../ids.ts';
import { pageOf } from '../listing.ts';
import { cleanLine } from '../text.ts';
import { ago, shortId } from '../words.ts';

type Webhook = ReplyOf<'getWebhookEndpoint'>;
type Types = Webhook['event_types'];

/** Event types of a comma list. Throws Stop naming the first that is none. */
export function typesOf(list: string | undefined): { event_types?: Types } {
  if (list === undefined) return {};
  const words = [...new Set(list.split(/[ ,]+/).filter((word) => word !== ''))];
  const unknown = words.find((word) => word !== '*' && !(webhookEventTypes as readonly string[]).includes(word));
  if (unknown !== undefined || words.length === 0)
    throw new Stop(
      exit.usage,
      `There is no event type “${unknown ?? ''}”.`,
      `there are: ${webhookEventTypes.join(' ')}`,
    );
  return { event_types: words as Types };
}

const endpointOf = (client: Client, text: string): Promise<string> => idOf(client, 'webhook', text);
const status = ({ status: is, disabled_reason }: Webhook): string =>
  is === 'enabled' ? is : `disabled (${disabled_reason})`;

/** `agentctl webhooks ls`. */
export async function ls(context: Context, { limit, all }: { limit: number; all?: boolean }): Promise<void> {
  const client = await context.client();
  const page = await pageOf(client, 'listWebhookEndpoints', {}, limit);
  const data = all || context.out.isJson ? page.data : page.data.filter((one) => one.disabled_reason !== 'deleted');
  await context.out.list(
    { ...page, data },
    {
      id: ({ id }) => id,
      name: ({ url }) => url,
      empty: 'No webhooks yet. agentctl webhooks add URL makes one; agentctl webhooks listen shows what would be sent.',
      columns: [
        { title: 'ENDPOINT', value: ({ id }) => shortId(id) },
        { title: 'STATUS', value: status, style: ({ status: is }) => (is === 'enabled' ? 'green' : 'dim') },
        { title: 'EVENTS', value: ({ event_types }) => event_types.join(' '), flex: true },
        { title: 'URL', value: ({ url }) => url },
        { title: 'DESCRIPTION', value: ({ description }) => description ?? '–', flex: true },
        { title: 'CREATED', value: ({ created_at }) => ago(created_at, Date.now()), wide: true },
      ],
    },
  );
}

const print = ({ out }: Context, webhook: Webhook): void =>
  out.one(webhook, webhook.id, [
    ['endpoint', webhook.id],
    ['url', webhook.url],
    ['description', webhook.description],
    ['status', status(webhook)],
    ['events', webhook.event_types.join(' ')],
    [
      'secrets',
      webhook.secrets
        .map(({ last4, expires_at }) => `…${last4}${expires_at ? `, until ${expires_at}` : ''}`)
        .join('\n'),
    ],
    ['created', ago(webhook.created_at, Date.now())],
  ]);

/** Shows what is shown once: the secret alone on standard output. */
function printSecret({ out }: Context, webhook: ReplyOf<'createWebhookEndpoint'>): void {
  if (out.isJson) return out.json(webhook);
  if (out.quiet) return out.print(webhook.id);
  out.print(webhook.secret ?? '');
  out.note(`This is the only time the secret is shown. Endpoint ${shortId(webhook.id)}: ${cleanLine(webhook.url)}`);
}

interface Wanted {
  url?: string;
  events?: string;
  description?: string;
  enable?: boolean;
  disable?: boolean;
}

/** `agentctl webhooks add URL`. */
export async function add(context: Context, { events, description }: Wanted, url: string): Promise<void> {
  const wanted = { url, ...typesOf(events), ...(description === undefined ? {} : { description }) };
  const client = await context.client();
  printSecret(context, await client.insist('createWebhookEndpoint', { body: wanted }));
}

/** `agentctl webhooks show ENDPOINT`. */
export async function show(context: Context, _: object, text: string): Promise<void> {
  const client = await context.client();
  const endpoint_id = await endpointOf(client, text);
  print(context, await client.call('getWebhookEndpoint', { path: { endpoint_id } }));
}

/** `agentctl webhooks edit ENDPOINT`. */
export async function edit(
  context: Context,
  { url, events, description, enable, disable }: Wanted,
  text: string,
): Promise<void> {
  const body = {
    ...(url === undefined ? {} : { url }),
    ...typesOf(events),
    ...(description === undefined ? {} : { description }),
    ...(enable ? { status: 'enabled' as const } : disable ? { status: 'disabled' as const } : {}),
  };
  if (Object.keys(body).length === 0 || (enable && disable))
    throw new Stop(exit.usage, 'Say what to change.', '--url, --events, --description, and --enable or --disable');
  const client = await context.client();
  const endpoint_id = await endpointOf(client, text);
  print(context, await client.insist('updateWebhookEndpoint', { path: { endpoint_id }, body }));
}

/** `agentctl webhooks rm ENDPOINT`. */
export async function remove(context: Context, _: object, text: string): Promise<void> {
  const client = await context.client();
  const endpoint_id = await endpointOf(client, text);
  await confirmed(context, `Send nothing more to ${shortId(endpoint_id)}?`);
  await client.insist('deleteWebhookEndpoint', { path: { endpoint_id } });
  context.out.note('Nothing more is sent to it.');
}

/** `agentctl webhooks rotate ENDPOINT`. */
export async function rotate(context: Context, { overlap }: { overlap?: number }, text: string): Promise<void> {
  const client = await context.client();
  const endpoint_id = await endpointOf(client, text);
  const body = overlap === undefined ? {} : { overlap_seconds: overlap };
  printSecret(context, await client.insist('rotateWebhookSecret', { path: { endpoint_id }, body }));
}

/** How often is looked whether a delivery has been attempted, in milliseconds, and for how long: longer than an attempt may take. */
const lookEvery = 100;
const lookFor = 15_000;

/** `agentctl webhooks test ENDPOINT`: 0 when it arrived at the first attempt. */
export async function test(context: Context, _: object, text: string): Promise<number> {
  const client = await context.client();
  const endpoint_id = await endpointOf(client, text);
  let delivery = await client.insist('testWebhookEndpoint', { path: { endpoint_id }, body: {} });
  for (const end = Date.now() + lookFor; delivery.status === 'pending' && Date.now() < end;) {
    await new Promise((resolve) => setTimeout(resolve, lookEvery));
    delivery = await client.call('getWebhookDelivery', { path: { delivery_id: delivery.id } });
  }
  const { out } = context;
  const good = delivery.status === 'succeeded';
  if (out.isJson) out.json(delivery);
  else {
    const [attempt] = delivery.attempts;
    const said =
      attempt?.error?.message ?? (attempt ? `It answered ${attempt.response_status}.` : 'It was not tried yet.');
    out.note(good ? `Arrived, in ${attempt?.duration_ms} ms.` : `Not arrived. ${cleanLine(said)} It is tried again.`);
  }
  return good ? exit.good : exit.failed;
}

interface Checked {
  id: string;
  timestamp: string;
  signature: string;
  secretFile?: string;
  tolerance?: number;
}

/** `agentctl webhooks verify [BODY]`: prints the event when its signature is good. */
export async function verifyDelivery(
  { env, out, stdin }: Context,
  { id, timestamp, signature, secretFile, tolerance }: Checked,
  file = '-',
): Promise<void> {
  const read = (path: string) => {
    try {
      return readFileSync(path);
    } catch (error) {
      throw new Stop(exit.usage, `${path} cannot be read: ${(error as Error).message}`);
    }
  };
  const secret = (secretFile ? read(secretFile).toString('utf8') : (env.AGENTCTL_WEBHOOK_SECRET ?? '')).trim();
  if (secret === '')
    throw new Stop(
      exit.usage,
      'There is no secret to check with.',
      'set AGENTCTL_WEBHOOK_SECRET, or name a --secret-file',
    );
  const parts: Buffer[] = [];
  if (file === '-') for await (const part of stdin) parts.push(Buffer.from(part as Buffer));
  else parts.push(read(file));
  try {
    const event = verify({
      secret,
      headers: { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signature },
      body: Buffer.concat(parts),
      ...(tolerance === undefined ? {} : { tolerance }),
    });
    out.note('The signature is good.');
    out.json(event);
  } catch (error) {
    if (error instanceof WebhookVerificationError) throw new Stop(exit.failed, error.message);
    throw error;
  }
}
