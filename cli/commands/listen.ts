import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { hostname } from 'node:os';
import type { Client } from '../../src/api/client.ts';
import { verify, type WebhookEvent } from '../../src/api/signature.ts';
import type { Context } from '../context.ts';
import { exit, Stop } from '../exit.ts';
import { cleanLine } from '../text.ts';
import { shortId } from '../words.ts';
import { typesOf } from './webhooks.ts';

/** How an endpoint of a listener is recognised: whose it is, and which process on which machine. */
const mark = 'agentctl webhooks listen';
const nameOf = (pid: number): string => `${mark}, process ${pid} on ${hostname()}`;
const mostBytes = 1_048_576;
const forwardFor = 9_000;

/** Whether the process that a listener's endpoint names has ended. Those of other machines are left alone. */
function isLeftOver(description: string | null): boolean {
  const [, pid, host] = /^agentctl webhooks listen, process (\d+) on (.+)$/.exec(description ?? '') ?? [];
  if (pid === undefined || host !== hostname()) return false;
  try {
    process.kill(Number(pid), 0);
    return Number(pid) === process.pid;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ESRCH';
  }
}

/** Takes away what listeners that were killed could not. */
async function clear(client: Client): Promise<void> {
  for await (const { id, description, status } of client.each('listWebhookEndpoints', { query: { limit: 200 } }))
    if (status === 'enabled' && isLeftOver(description))
      await client.insist('deleteWebhookEndpoint', { path: { endpoint_id: id } });
}

/** `agentctl webhooks listen`: an endpoint that is there for as long as this runs. */
export async function listen(
  context: Context,
  { forward, events }: { forward?: string; events?: string },
): Promise<number> {
  if (forward !== undefined && !/^https?:/.test(URL.canParse(forward) ? new URL(forward).protocol : ''))
    throw new Stop(exit.usage, `${forward} is not an http or https address.`);
  const wanted = typesOf(events);
  const { out } = context;
  const { client, info } = await context.connection();
  if (info === null)
    throw new Stop(exit.usage, 'Only this machine’s own daemon can reach a listener here.', 'leave out --url');
  await clear(client);

  let secret: string | null = null;
  const server = createServer((request, response) => {
    void receive(request, response).catch(() => response.writeHead(500).end());
  });
  const receive = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const parts: Buffer[] = [];
    let size = 0;
    for await (const part of request) {
      size += (part as Buffer).length;
      if (size > mostBytes) return void response.writeHead(413).end();
      parts.push(part as Buffer);
    }
    const body = Buffer.concat(parts);
    let event: WebhookEvent;
    try {
      event = verify({ secret: secret ?? '', headers: request.headers, body });
    } catch {
      // Anybody on this machine may send something here.
      return void response.writeHead(400).end();
    }
    const answered = forward === undefined ? 200 : await pass(forward, request, body);
    if (out.isJson) out.print(JSON.stringify(event));
    else {
      const { object, id, status } = event.data;
      const passed = forward === undefined ? '' : `  → ${answered}`;
      const what = `${cleanLine(object)} ${shortId(cleanLine(id))}${typeof status === 'string' ? ` ${cleanLine(status)}` : ''}`;
      out.print(`${new Date().toLocaleTimeString('en-GB')}  ${cleanLine(event.type).padEnd(20)} ${what}${passed}`);
    }
    response.writeHead(typeof answered === 'number' ? answered : 502).end();
  };

  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
  let stop = () => {};
  const stopped = new Promise<void>((resolve) => (stop = resolve));
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
  for (const signal of signals) process.on(signal, stop);
  try {
    const { port } = server.address() as AddressInfo;
    const body = { url: `http://127.0.0.1:${port}/`, description: nameOf(process.pid), ...wanted };
    const made = await client.insist('createWebhookEndpoint', { body });
    secret = made.secret;
    try {
      out.note(
        out.paint('dim', `Listening${forward ? ` and forwarding to ${cleanLine(forward)}` : ''} · Ctrl-C ends it`),
      );
      if (forward !== undefined && secret) out.note(out.paint('dim', `Signing secret of this session: ${secret}`));
      await stopped;
    } finally {
      await client.insist('deleteWebhookEndpoint', { path: { endpoint_id: made.id } }, { patienceMs: 5_000 });
    }
  } finally {
    for (const signal of signals) process.off(signal, stop);
    server.close();
    server.closeAllConnections();
  }
  return exit.good;
}

/** Passes a delivery on as it came. Answers the status that came back, or why none did. */
async function pass(url: string, { headers }: IncomingMessage, body: Buffer): Promise<number | string> {
  const names = ['content-type', 'user-agent', ...Object.keys(headers).filter((name) => name.startsWith('webhook-'))];
  const copied = names.flatMap((name) => (typeof headers[name] === 'string' ? [[name, headers[name]]] : []));
  try {
    const answer = await fetch(url, {
      method: 'POST',
      headers: Object.fromEntries(copied) as Record<string, string>,
      body: new Uint8Array(body),
      redirect: 'manual',
      signal: AbortSignal.timeout(forwardFor),
    });
    await answer.body?.cancel();
    return answer.status;
  } catch (error) {
    const { name, cause } = error as { name: string; cause?: { code?: string } };
    return name === 'TimeoutError' ? 'no answer' : (cause?.code ?? 'not reached');
  }
}
