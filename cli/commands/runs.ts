import { setTimeout as sleep } from 'node:timers/promises';
import type { Client, InputOf, ReplyOf } from '../../src/api/client.ts';
import { terminalStatuses } from '../../src/api/runs.ts';
import type { Context } from '../context.ts';
import { exit, exitOfRun, Stop } from '../exit.ts';
import { idOf } from '../ids.ts';
import { pageOf } from '../listing.ts';
import type { ListView } from '../output.ts';
import { ago, count, duration, money, runLook, shortId } from '../words.ts';

type Run = ReplyOf<'listRuns'>['data'][number];
type Query = NonNullable<InputOf<'listRuns'>['query']>;

const active = 'queued,running,awaiting_input,cancelling';

/** How long a run has been going, or took. */
const took = ({ started_at, finished_at }: Run): string =>
  started_at === null ? '–' : duration((finished_at ? Date.parse(finished_at) : Date.now()) - Date.parse(started_at));

const view = (empty: string, now = Date.now()): ListView<Run> => ({
  id: ({ id }) => id,
  empty,
  columns: [
    { title: 'RUN', value: ({ id }) => shortId(id) },
    {
      title: 'STATUS',
      value: ({ status }) => `${runLook[status].symbol} ${runLook[status].word}`,
      style: ({ status }) => runLook[status].colour,
    },
    { title: 'HARNESS', value: ({ harness }) => harness },
    { title: 'MODEL', value: ({ model }) => model ?? '–', wide: true },
    { title: 'PROMPT', value: ({ prompt }) => prompt.slice(0, 200), flex: true },
    { title: 'STARTED', value: ({ queued_at }) => ago(queued_at, now) },
    { title: 'TOOK', value: took, right: true },
    { title: 'COST', value: ({ usage }) => money(usage.cost_micro_usd), right: true },
    { title: 'TOKENS', value: ({ usage }) => count(usage.input_tokens + usage.output_tokens), wide: true, right: true },
    { title: 'WORKSPACE', value: ({ workspace_id }) => shortId(workspace_id), wide: true },
    { title: 'SESSION', value: ({ session_id }) => shortId(session_id), wide: true },
  ],
});

/** `agentctl ps`: what is active; with -a the newest runs whatever they are. */
export async function ps(
  context: Context,
  options: { all?: boolean; status?: string; watch?: boolean; limit: number },
): Promise<number> {
  const client = await context.client();
  const status = options.status ?? (options.all ? undefined : active);
  const query: Query = status ? { status } : {};
  const empty =
    options.all || options.status
      ? 'No runs yet. Start one: agentctl run "what to do"'
      : 'Nothing is running. agentctl ps -a shows finished runs.';
  const print = async () =>
    await context.out.list(await pageOf(client, 'listRuns', { query }, options.limit), view(empty));
  if (!options.watch) {
    await print();
    return exit.good;
  }
  return watch(context, print);
}

async function watch({ out }: Context, print: () => Promise<void>): Promise<number> {
  const ended = new AbortController();
  process.once('SIGINT', () => ended.abort());
  while (!ended.signal.aborted) {
    if (out.streams.stdout.isTTY) out.streams.stdout.write('\u001B[H\u001B[2J');
    await print();
    if (out.streams.stdout.isTTY) out.note(out.paint('dim', 'Every 2 s · Ctrl-C ends'));
    await sleep(2000, undefined, { signal: ended.signal }).catch(() => {});
  }
  return exit.good;
}

/** `agentctl runs ls`. */
export async function ls(
  context: Context,
  options: { status?: string; workspace?: string; project?: string; session?: string; limit: number },
): Promise<void> {
  const client = await context.client();
  const query: Query = {
    ...(options.status ? { status: options.status } : {}),
    ...(options.workspace ? { workspace_id: await idOf(client, 'workspace', options.workspace) } : {}),
    ...(options.project ? { project_id: await idOf(client, 'project', options.project) } : {}),
    ...(options.session ? { session_id: await idOf(client, 'session', options.session) } : {}),
  };
  await context.out.list(
    await pageOf(client, 'listRuns', { query }, options.limit),
    view('No such runs. Start one: agentctl run "what to do"'),
  );
}

/** `agentctl runs show`. */
export async function show(context: Context, _: object, text: string): Promise<void> {
  const client = await context.client();
  const run = await client.call('getRun', { path: { run_id: await idOf(client, 'run', text) } });
  const { symbol, word } = runLook[run.status];
  const { usage, limits, isolation } = run;
  const now = Date.now();
  context.out.one(run, run.id, [
    ['run', run.id],
    ['status', `${symbol} ${word}${run.stop_reason ? ` (${run.stop_reason})` : ''}`],
    ['error', run.error && `${run.error.code}: ${run.error.message}`],
    ['prompt', run.prompt.length > 2000 ? `${run.prompt.slice(0, 2000)} …` : run.prompt],
    ['harness', run.harness],
    ['model', run.model],
    ['sandbox', isolation && (isolation.level === 'none' ? 'none' : isolation.level)],
    ['session', run.session_id],
    ['workspace', run.workspace_id],
    ['project', run.project_id],
    ['queued', ago(run.queued_at, now)],
    ['took', took(run)],
    [
      'cost',
      `${money(usage.cost_micro_usd)}${limits.max_cost_micro_usd ? ` of ${money(limits.max_cost_micro_usd)}` : ''}`,
    ],
    [
      'tokens',
      `${count(usage.input_tokens)} in, ${count(usage.output_tokens)} out, ${count(usage.cached_input_tokens)} cached`,
    ],
    ['attempt', run.attempt > 1 ? String(run.attempt) : null],
    ['waits for', run.pending_input.map(({ id, title }) => `${title}\nagentctl answer ${id}`).join('\n') || null],
    [
      'labels',
      Object.entries(run.metadata)
        .map(([name, value]) => `${name}=${value}`)
        .join(', ') || null,
    ],
  ]);
}

/** `agentctl runs result`: the final text on standard output. */
export async function result(context: Context, _: object, text: string): Promise<number> {
  const client = await context.client();
  const found = await client.call('getRunResult', { path: { run_id: await idOf(client, 'run', text) } });
  const { out } = context;
  if (out.format !== 'table') out.one(found, found.run_id, []);
  else if (found.text) out.streams.stdout.write(found.text.endsWith('\n') ? found.text : `${found.text}\n`);
  if (!found.final) out.note(`The run is ${runLook[found.status].word}: this is not its last word.`);
  else if (found.error) out.note(`${runLook[found.status].symbol} ${found.error.message}`);
  return found.final ? exitOfRun(found) : exit.good;
}

/** `agentctl runs events`: one event a line. */
export async function events(context: Context, options: { after?: number }, text: string): Promise<void> {
  const { out } = context;
  const client = await context.client();
  const run_id = await idOf(client, 'run', text);
  const query = { limit: 1000, ...(options.after === undefined ? {} : { after: String(options.after) }) };
  for await (const event of client.each('listRunEvents', { path: { run_id }, query })) out.print(JSON.stringify(event));
}

/** `agentctl cancel RUN…`. */
export async function cancel(context: Context, _: object, texts: string[]): Promise<void> {
  const client = await context.client();
  for (const text of texts) await cancelOne(context, client, await idOf(client, 'run', text));
}

async function cancelOne({ out }: Context, client: Client, run_id: string): Promise<void> {
  const before = await client.call('getRun', { path: { run_id } });
  if ((terminalStatuses as readonly string[]).includes(before.status)) {
    throw new Stop(exit.conflict, `Run ${run_id} is ${runLook[before.status].word} already.`);
  }
  const run = await client.insist('cancelRun', { path: { run_id }, body: {} });
  if (out.isJson) out.json(run);
  else if (out.quiet) out.print(run.id);
  else out.note(`${runLook[run.status].symbol} ${runLook[run.status].word} ${run_id}`);
}
