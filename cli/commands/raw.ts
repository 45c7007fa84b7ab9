import { failureOf } from '../../src/api/client.ts';
import type { Context } from '../context.ts';
import { exit, Stop } from '../exit.ts';

/** The options of `agentctl api`. */
export interface ApiOptions {
  field?: Record<string, string>;
  body?: string;
  paginate?: boolean;
  include?: boolean;
  idempotencyKey?: string;
}

/** `agentctl api METHOD PATH`: any request; the answer's body unchanged on standard output. */
export async function api(context: Context, options: ApiOptions, method: string, path: string): Promise<number> {
  const { out } = context;
  const verb = method.toUpperCase();
  if (!/^[A-Z]+$/.test(verb) || !path.startsWith('/')) {
    throw new Stop(exit.usage, 'Give a method and a path, such as: agentctl api GET /v1/runs');
  }
  const client = await context.client();
  const reads = verb === 'GET' || verb === 'HEAD';
  const fields =
    options.field &&
    Object.fromEntries(Object.entries(options.field).map(([name, text]) => [name, reads ? text : valueOf(text)]));
  const body = options.body === '-' ? await text(context.stdin) : (options.body ?? (reads ? undefined : fields));
  const key = options.idempotencyKey ?? (reads ? undefined : crypto.randomUUID());
  const data: unknown[] = [];
  let cursor: string | undefined;
  for (;;) {
    const query = { ...(reads ? fields : {}), ...(cursor ? { cursor } : {}) };
    const answer = await client.raw(verb, path, { query, body, idempotencyKey: key });
    if (options.include) {
      out.note(String(answer.status));
      for (const [name, value] of Object.entries(answer.headers)) out.note(`${name}: ${value}`);
    }
    if (answer.status >= 400) {
      if (answer.text) out.print(answer.text);
      throw failureOf(answer);
    }
    if (!options.paginate) {
      if (answer.text) out.print(pretty(answer.text, out.streams.stdout.isTTY));
      return exit.good;
    }
    const page = JSON.parse(answer.text) as { data?: unknown[]; next_cursor?: string | null };
    if (!Array.isArray(page.data))
      throw new Stop(exit.usage, `${path} does not answer in pages.`, 'leave out --paginate');
    data.push(...page.data);
    if (!page.next_cursor) {
      out.json({ data, next_cursor: null });
      return exit.good;
    }
    cursor = page.next_cursor;
  }
}

/** `true`, `12`, `null` and JSON are what they say; anything else is text. */
function valueOf(given: string): unknown {
  try {
    return JSON.parse(given);
  } catch {
    return given;
  }
}

function pretty(body: string, isTTY: boolean | undefined): string {
  if (!isTTY) return body;
  try {
    return JSON.stringify(JSON.parse(body), null, 2);
  } catch {
    return body;
  }
}

async function text(stdin: NodeJS.ReadStream): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of stdin) chunks.push(Buffer.from(chunk as Buffer));
  return Buffer.concat(chunks).toString('utf8');
}

/** `agentctl openapi`. */
export async function openapi(context: Context): Promise<void> {
  const client = await context.client();
  const answer = await client.raw('GET', '/v1/openapi.json');
  if (answer.status >= 400) throw failureOf(answer);
  context.out.print(pretty(answer.text, context.out.streams.stdout.isTTY));
}

/** `agentctl config path`. */
export function configPath({ home, out }: Context): Promise<void> {
  if (out.isJson) out.json({ config: home.config });
  else out.print(home.config);
  return Promise.resolve();
}
