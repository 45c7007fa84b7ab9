import type { Client, ReplyOf } from '../../src/api/client.ts';
import { Fault } from '../../src/api/error.ts';
import { alwaysMeans } from '../always.ts';
import { confirmed } from '../ask.ts';
import type { Context } from '../context.ts';
import { exit, Stop } from '../exit.ts';
import { idOf } from '../ids.ts';
import { pageOf } from '../listing.ts';
import { bare, question } from '../lines.ts';
import { ago, shortId } from '../words.ts';

type Request = ReplyOf<'listInputRequests'>['data'][number];

/** `agentctl inbox`: what waits for a person, over all runs. */
export async function inbox(context: Context, { limit }: { limit: number }): Promise<void> {
  const client = await context.client();
  const now = Date.now();
  await context.out.list(await pageOf(client, 'listInputRequests', { query: { status: 'pending' } }, limit), {
    id: ({ id }) => id,
    empty: 'Nothing waits for you.',
    columns: [
      { title: 'REQUEST', value: ({ id }) => shortId(id) },
      { title: 'KIND', value: ({ kind }) => kind },
      {
        title: 'QUESTION',
        value: ({ title, message }) =>
          message && message !== bare(title) ? `${bare(title)}: ${message}` : bare(title),
        flex: true,
      },
      { title: 'RUN', value: ({ run_id }) => shortId(run_id) },
      { title: 'ASKED', value: ({ created_at }) => ago(created_at, now) },
      { title: 'EXPIRES', value: ({ expires_at }) => ago(expires_at, now) },
    ],
  });
}

/** The options of `agentctl answer`. */
export interface AnswerOptions {
  allow?: boolean;
  always?: boolean;
  reject?: boolean;
  option?: string;
  text?: string;
}

/** `agentctl answer REQ`: exactly one form of answer; REQ may be the run that asks. */
export async function answer(context: Context, options: AnswerOptions, text: string): Promise<void> {
  const client = await context.client();
  const { out } = context;
  const request = await requestOf(client, text);
  const given = Object.values(options).filter((value) => value !== undefined && value !== false);
  if (given.length !== 1) {
    if (request) out.note(question(request));
    throw new Stop(exit.usage, 'Say how to answer.', 'one of --allow, --always, --reject, --option ID, --text T');
  }
  const body = { request_id: request.id, ...answerOf(request, options) };
  if (options.always) await agreed(context, request);
  const run = await client.insist('submitRunInput', { path: { run_id: request.run_id }, body });
  if (out.isJson) out.json(run);
  else out.note(`Answered. agentctl attach ${run.id}`);
}

/** Says what exactly is allowed for good, and asks whether it shall be where somebody can be asked. */
async function agreed(context: Context, request: Request): Promise<void> {
  for (const sentence of alwaysMeans(request)) context.out.note(`  ${sentence}`);
  if (context.canAsk) await confirmed(context, 'Allow it from now on?');
}

function answerOf(
  request: Request,
  { allow, always, reject, option, text }: AnswerOptions,
): { option_id: string } | { text: string } {
  if (text !== undefined) return { text };
  if (option !== undefined) return { option_id: option };
  const kinds = allow ? ['allow_once'] : always ? ['allow_always'] : reject ? ['reject_once', 'reject_always'] : [];
  const found = kinds.flatMap((kind) => request.options.filter((item) => item.kind === kind))[0];
  if (found) return { option_id: found.id };
  throw new Stop(
    exit.usage,
    `This question does not offer that.\n${question(request)}`,
    'answer with --option ID or --text T',
  );
}

/** The request of this id; or, given a run, the one that it waits with. */
async function requestOf(client: Client, text: string): Promise<Request> {
  let pending: Request[] = [];
  for await (const request of client.each('listInputRequests', { query: { status: 'pending', limit: 200 } }))
    pending.push(request);
  const start = text.toLowerCase();
  if (text === '@last') pending = pending.slice(0, 1);
  else
    pending = pending.filter(
      ({ id, run_id }) => text.length >= 4 && (id.startsWith(start) || run_id.startsWith(start)),
    );
  const [only] = pending;
  if (only && pending.length === 1) return only;
  if (only) {
    const shown = pending.map(({ id, title }) => `\n  ${id}  ${title}`).join('');
    throw new Stop(exit.usage, `“${text}” could be any of ${pending.length}:${shown}`, 'give the id of the question');
  }
  // Not pending: say what became of it, where it can be found.
  const id = await idOf(client, 'input', text);
  for await (const request of client.each('listInputRequests', { query: { limit: 200 } })) {
    if (request.id !== id) continue;
    throw new Fault(
      'input_already_resolved',
      `This question is ${request.status}${request.answered_by ? ` by ${request.answered_by}` : ''}.`,
    );
  }
  throw new Stop(exit.notFound, `There is no question ${text}.`, '`agentctl inbox` lists them');
}
