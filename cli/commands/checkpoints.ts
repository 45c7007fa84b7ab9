import { type Client, failureOf, type ReplyOf } from '../../src/api/client.ts';
import { confirmed } from '../ask.ts';
import type { Context } from '../context.ts';
import { exit, Stop } from '../exit.ts';
import { idOf } from '../ids.ts';
import { pageOf } from '../listing.ts';
import { settled, workspaceHere } from '../place.ts';
import { clean, cleanLine } from '../text.ts';
import { ago, plural, shortId, size } from '../words.ts';

type Checkpoint = ReplyOf<'getCheckpoint'>;

interface Where {
  workspace?: string;
}

/** What a restore does, as its operation says it. */
interface Plan {
  added: string[];
  changed: string[];
  removed: string[];
  before_restore_checkpoint_id: string | null;
}

/** Lines of a plan that are shown before the rest is only counted. */
const mostLines = 40;

const workspaceOf = (client: Client, { workspace }: Where): Promise<string> =>
  workspace ? idOf(client, 'workspace', workspace) : workspaceHere(client, process.cwd());

/** The checkpoint that `text` names: a whole id needs no workspace. */
async function checkpointOf(client: Client, where: Where, text: string): Promise<Checkpoint> {
  const isWhole = /^[0-9a-f-]{36}$/i.test(text) && !where.workspace;
  const within = isWhole ? {} : { workspace_id: await workspaceOf(client, where) };
  const checkpoint_id = await idOf(client, 'checkpoint', text, within);
  return client.call('getCheckpoint', { path: { checkpoint_id } });
}

/** An operation's result. Throws what stands in it as an error. */
async function resultOf(client: Client, operation: ReplyOf<'getOperation'>): Promise<Record<string, unknown>> {
  const { result, error } = await settled(client, operation);
  if (error) throw new Stop(error.code === 'workspace_busy' ? exit.conflict : exit.failed, error.message);
  return result ?? {};
}

/** `agentctl checkpoint [-m NAME]`. */
export async function create(context: Context, options: Where & { message?: string }): Promise<void> {
  const client = await context.client();
  const workspace_id = await workspaceOf(client, options);
  const body = options.message ? { name: options.message } : {};
  const operation = await client.insist('createCheckpoint', { path: { workspace_id }, body });
  await resultOf(client, operation);
  print(context, await client.call('getCheckpoint', { path: { checkpoint_id: operation.resource!.id } }));
}

/** `agentctl checkpoints ls`. */
export async function ls(context: Context, options: Where & { limit: number }): Promise<void> {
  const client = await context.client();
  const workspace_id = await workspaceOf(client, options);
  const bytes = (n: number | null) => (n === null ? '–' : size(n));
  await context.out.list(await pageOf(client, 'listCheckpoints', { path: { workspace_id } }, options.limit), {
    id: ({ id }: Checkpoint) => id,
    name: ({ id, name }: Checkpoint) => name ?? id,
    empty: 'No checkpoints yet. agentctl checkpoint makes one, and so does every run.',
    columns: [
      { title: 'CHECKPOINT', value: ({ id }) => shortId(id) },
      { title: 'MADE', value: ({ created_at }) => ago(created_at, Date.now()) },
      { title: 'BY', value: ({ trigger }) => trigger.replace('_', ' ') },
      { title: 'RUN', value: ({ run_id }) => (run_id ? shortId(run_id) : '–') },
      { title: 'STATUS', value: ({ status }) => status },
      { title: 'FILES', value: ({ file_count }) => (file_count === null ? '–' : String(file_count)), right: true },
      { title: 'SIZE', value: ({ size_bytes }) => bytes(size_bytes), right: true },
      { title: 'STORED', value: ({ stored_bytes }) => bytes(stored_bytes), right: true, wide: true },
      { title: 'NAME', value: ({ name }) => name ?? '–', flex: true },
    ],
  });
}

const print = ({ out }: Context, checkpoint: Checkpoint): void =>
  out.one(checkpoint, checkpoint.id, [
    ['checkpoint', checkpoint.id],
    ['name', checkpoint.name],
    ['status', checkpoint.status],
    ['error', checkpoint.error?.message ?? null],
    ['by', checkpoint.trigger.replace('_', ' ')],
    ['run', checkpoint.run_id],
    ['workspace', checkpoint.workspace_id],
    ['made', ago(checkpoint.created_at, Date.now())],
    ['files', checkpoint.file_count === null ? null : String(checkpoint.file_count)],
    ['size', checkpoint.size_bytes === null ? null : size(checkpoint.size_bytes)],
    ['stored', checkpoint.stored_bytes === null ? null : `${size(checkpoint.stored_bytes)} more than before`],
    ['commit', checkpoint.git?.head ?? null],
    ['branch', checkpoint.git?.branch ?? null],
    ['kept until', checkpoint.expires_at && `${checkpoint.expires_at.slice(0, 10)}, or as long as it is the newest`],
    ['tree', checkpoint.tree_hash],
  ]);

/** `agentctl checkpoints show CHECKPOINT`. */
export async function show(context: Context, options: Where, text: string): Promise<void> {
  print(context, await checkpointOf(await context.client(), options, text));
}

/** `agentctl checkpoints rm CHECKPOINT`. */
export async function remove(context: Context, options: Where, text: string): Promise<void> {
  const client = await context.client();
  const { id, name, created_at } = await checkpointOf(client, options, text);
  await confirmed(
    context,
    `Remove the checkpoint ${cleanLine(name ?? shortId(id))} of ${ago(created_at, Date.now())}?`,
  );
  await resultOf(client, await client.insist('deleteCheckpoint', { path: { checkpoint_id: id } }));
  context.out.note(`Removed ${shortId(id)}.`);
}

/** `agentctl restore CHECKPOINT [PATH…]`. */
export async function restore(
  context: Context,
  options: Where & { dryRun?: boolean },
  text: string,
  paths: string[] = [],
): Promise<void> {
  const client = await context.client();
  const checkpoint = await checkpointOf(client, options, text);
  const named = paths.map((path) => path.replace(/^\.\//, '').replace(/\/+$/, ''));
  await carryOut(context, client, checkpoint, named.length > 0 ? named : null, options.dryRun ?? false);
}

/** Shows what would be done, asks, does it and says how to take it back. */
async function carryOut(
  context: Context,
  client: Client,
  { id: checkpoint_id, workspace_id }: Checkpoint,
  paths: string[] | null,
  dryRun: boolean,
): Promise<void> {
  const { out, flags } = context;
  const request = async (dry_run: boolean) => {
    const body = { checkpoint_id, paths, dry_run };
    const operation = await client.insist('restoreWorkspace', { path: { workspace_id }, body });
    return { plan: (await resultOf(client, operation)) as unknown as Plan, id: operation.id };
  };
  const { plan, id } = await request(true);
  const count = plan.added.length + plan.changed.length + plan.removed.length;
  if (dryRun && out.isJson) return out.json(await client.call('getOperation', { path: { operation_id: id } }));
  const lines = [
    ...plan.removed.map((path) => `- ${cleanLine(path)}`),
    ...plan.changed.map((path) => `~ ${cleanLine(path)}`),
    ...plan.added.map((path) => `+ ${cleanLine(path)}`),
  ];
  const say = dryRun ? (line: string) => out.print(line) : (line: string) => out.note(line);
  for (const line of lines.slice(0, dryRun ? undefined : mostLines)) say(line);
  if (!dryRun && lines.length > mostLines) out.note(`… and ${lines.length - mostLines} more`);
  if (dryRun) return;
  if (count === 0) return out.note('Everything is as it was then.');
  if (!flags.yes && context.canAsk) await confirmed(context, `Do this to ${plural(count, 'path')}?`);
  const done = await request(false);
  if (out.isJson) return out.json(await client.call('getOperation', { path: { operation_id: done.id } }));
  const before = done.plan.before_restore_checkpoint_id;
  out.note(`Restored ${plural(count, 'path')}. To take it back: agentctl restore ${before}`);
}

/** The run that `text` names, or the latest of the workspace that has left the tree behind. */
async function runOf(client: Client, where: Where, text?: string): Promise<ReplyOf<'getRun'>> {
  if (text) return client.call('getRun', { path: { run_id: await idOf(client, 'run', text) } });
  const workspace_id = await workspaceOf(client, where);
  for await (const run of client.each('listRuns', { query: { workspace_id, limit: 10 } }))
    if (run.started_at !== null) return run;
  throw new Stop(exit.notFound, 'No run has worked here yet.', 'see `agentctl ps -a`, and name a run');
}

/** `agentctl undo [RUN]`. */
export async function undo(context: Context, options: Where & { dryRun?: boolean }, text?: string): Promise<void> {
  const client = await context.client();
  const run = await runOf(client, options, text);
  const checkpoint_id = run.checkpoint_ids.before;
  if (checkpoint_id === null)
    throw new Stop(
      exit.conflict,
      `The files were not kept before the run ${shortId(run.id)}.`,
      '`agentctl checkpoints ls` lists what there is; then agentctl restore CHECKPOINT',
    );
  context.out.note(`Back to before ${shortId(run.id)}: ${cleanLine(run.prompt).slice(0, 60)}`);
  const checkpoint = await client.call('getCheckpoint', { path: { checkpoint_id } });
  await carryOut(context, client, checkpoint, null, options.dryRun ?? false);
}

/** `agentctl diff [RUN]`: bytes as they are into a pipe, coloured and cleaned on a terminal. */
export async function diff(context: Context, options: Where, text?: string): Promise<void> {
  const client = await context.client();
  const { id } = await runOf(client, options, text);
  await printPatch(context, client, `/v1/runs/${id}/diff`, 'No file was changed.');
}

/** `agentctl checkpoints diff CHECKPOINT [OTHER]`: what came after it, up to another one or to now. */
export async function compare(context: Context, options: Where, text: string, other?: string): Promise<void> {
  const client = await context.client();
  const { id: checkpoint_id, workspace_id } = await checkpointOf(client, options, text);
  const against =
    other === undefined ? 'workspace' : (await checkpointOf(client, { workspace: workspace_id }, other)).id;
  const path = { checkpoint_id };
  if (context.out.isJson)
    return context.out.json(await client.call('getCheckpointDiff', { path, query: { against }, headers: {} }));
  await printPatch(
    context,
    client,
    `/v1/checkpoints/${checkpoint_id}/diff?against=${against}`,
    other === undefined ? 'Everything is as it was then.' : 'They are equal.',
  );
}

async function printPatch({ out }: Context, client: Client, path: string, ifEmpty: string): Promise<void> {
  const answer = await client.raw('GET', path, { headers: { accept: 'text/x-diff' } });
  if (answer.status !== 200) throw failureOf(answer);
  if (answer.text === '') return out.note(ifEmpty);
  if (!out.streams.stdout.isTTY) return void out.streams.stdout.write(answer.text);
  for (const line of answer.text.trimEnd().split('\n')) out.print(paintLine(out, line));
}

function paintLine(out: Context['out'], line: string): string {
  const shown = clean(line);
  if (/^(diff |\+\+\+ |--- )/.test(line)) return out.paint('bold', shown, 'stdout');
  if (line.startsWith('@@')) return out.paint('cyan', shown, 'stdout');
  if (line.startsWith('+')) return out.paint('green', shown, 'stdout');
  return line.startsWith('-') ? out.paint('red', shown, 'stdout') : shown;
}
