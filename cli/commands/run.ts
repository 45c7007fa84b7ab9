import { readFileSync, writeFileSync } from 'node:fs';
import type { Client, InputOf, ReplyOf } from '../../src/api/client.ts';
import { Fault } from '../../src/api/error.ts';
import type { Context } from '../context.ts';
import { exit, exitOfRun, Stop } from '../exit.ts';
import type { Ending } from '../follow.ts';
import { idOf } from '../ids.ts';
import { cleanLine } from '../text.ts';
import { shortId } from '../words.ts';
import { type Place, placeHere, worktreeHere } from '../place.ts';

type Body = InputOf<'createRun'>['body'];

/** The options of `agentctl run`. */
export interface RunOptions {
  project?: string;
  workspace?: string;
  session?: string;
  agent?: string;
  continue?: boolean;
  model?: string;
  harness?: string;
  worktree?: boolean;
  file?: string;
  maxCost?: string;
  timeout?: number;
  detach?: boolean;
  permission?: 'ask' | 'accept-edits' | 'full';
  onInput?: Body['on_input'];
  sandbox?: Body['sandbox'];
  billing?: Body['billing_mode'];
  network?: 'allow' | 'deny';
  allowHost?: string[];
  artifact?: string[];
  outputSchema?: string;
  output?: string;
  idempotencyKey?: string;
  webhook?: string[];
  label?: Record<string, string>;
}

/** `agentctl run`: starts a run where the person stands and follows it. */
export async function runCommand(context: Context, options: RunOptions, given?: string): Promise<number> {
  const prompt = await promptOf(context, options, given);
  const client = await context.client();
  const where = await placeOf(context, client, options);
  const body: Body = {
    ...where,
    prompt,
    ...(options.agent ? { agent_id: await idOf(client, 'agent', options.agent) } : {}),
    ...(options.harness ? { harness: options.harness } : {}),
    ...(options.model ? { model: options.model } : {}),
    ...(options.maxCost || options.timeout
      ? {
          limits: {
            ...(options.maxCost ? { max_cost_micro_usd: options.maxCost } : {}),
            ...(options.timeout ? { timeout_seconds: options.timeout } : {}),
          },
        }
      : {}),
    ...(options.permission
      ? { permission_mode: options.permission === 'accept-edits' ? 'accept_edits' : options.permission }
      : {}),
    ...(options.onInput ? { on_input: options.onInput } : {}),
    ...(options.sandbox ? { sandbox: options.sandbox } : {}),
    ...(options.billing ? { billing_mode: options.billing } : {}),
    ...networkOf(options),
    ...(options.artifact ? { artifacts: options.artifact } : {}),
    ...(options.outputSchema ? { output_schema: schemaIn(options.outputSchema) } : {}),
    ...(options.webhook
      ? { webhook_endpoint_ids: await Promise.all(options.webhook.map((text) => idOf(client, 'webhook', text))) }
      : {}),
    ...(options.label ? { metadata: options.label } : {}),
  };
  return startAndFollow(context, client, body, options);
}

function networkOf({ network, allowHost }: RunOptions): Pick<Body, 'network'> {
  if (network !== undefined && allowHost !== undefined)
    throw new Stop(exit.usage, 'Give --network or --allow-host, not both.');
  if (allowHost !== undefined) return { network: { allowed_hosts: allowHost } };
  return network === undefined ? {} : { network };
}

/** `agentctl retry`: the same run once more; one that was a follow-up is the next message of its conversation. */
export async function retry(context: Context, options: { detach?: boolean }, text: string): Promise<number> {
  const client = await context.client();
  const run = await client.call('getRun', { path: { run_id: await idOf(client, 'run', text) } });
  const { session_id, workspace_id, agent_id, agent_revision } = run;
  const { run_count, status } = await client.call('getSession', { path: { session_id } });
  const place = run_count > 1 && status !== 'archived' ? { session_id } : { workspace_id };
  const {
    harness,
    model,
    prompt,
    billing_mode,
    limits,
    permission_mode,
    on_input,
    input_timeout_seconds,
    sandbox,
    network,
    checkpoint,
    artifacts,
    output_schema,
    webhook_endpoint_ids,
    metadata,
  } = run;
  const body: Body = {
    ...place,
    ...(agent_id && agent_revision ? { agent_id, agent_revision } : {}),
    harness,
    ...(model ? { model } : {}),
    prompt,
    billing_mode,
    limits,
    permission_mode,
    on_input,
    input_timeout_seconds,
    sandbox,
    ...(sandbox === 'none' ? {} : { network }),
    checkpoint,
    artifacts,
    ...(output_schema ? { output_schema } : {}),
    ...(webhook_endpoint_ids ? { webhook_endpoint_ids } : {}),
    metadata,
  };
  return startAndFollow(context, client, body, options);
}

function schemaIn(file: string): Record<string, unknown> {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>;
  } catch (error) {
    throw new Stop(exit.usage, `The schema cannot be read: ${(error as Error).message}`);
  }
}

async function startAndFollow(context: Context, client: Client, body: Body, options: RunOptions): Promise<number> {
  const accepted = await start(context, client, body, options.idempotencyKey);
  const { harness, billing_mode } = await client.call('getRun', { path: { run_id: accepted.run_id } });
  if (billing_mode === 'external' && body.billing_mode === undefined)
    context.out.note(
      context.out.paint(
        'dim',
        `${harness} calls its models with its own login (billing external): what it says that costs is recorded and not charged`,
      ),
    );
  return followAccepted(context, client, accepted, options, body.harness ?? harness);
}

/** Follows a run that was just accepted, or with `detach` prints its id; the exit code tells how it ended. */
export async function followAccepted(
  context: Context,
  client: Client,
  accepted: ReplyOf<'createRun'>,
  options: Pick<RunOptions, 'detach' | 'output'>,
  known?: string,
): Promise<number> {
  const { out } = context;
  const { run_id } = accepted;
  if (options.detach) {
    if (out.isJson) out.json(accepted);
    else out.print(run_id);
    return exit.good;
  }
  const harness = known ?? (await client.call('getRun', { path: { run_id } })).harness;
  const { watchRun } = await import('../watch.ts');
  const { ending, cancelledByUs } = await watchRun(
    { context, client, runId: run_id, harness, interrupt: 'cancel' },
    { lines: options.output !== undefined, ...(options.output ? { result: into(options.output) } : {}) },
  );
  return codeOf(context, run_id, ending, cancelledByUs);
}

/** The exit code of a followed run, said with what goes on when it was left. */
export function codeOf({ out }: Context, runId: string, ending: Ending, byUs: boolean): number {
  if (ending.kind === 'ended') return exitOfRun(ending, byUs);
  if (ending.kind === 'waiting') {
    out.note(
      `The run waits for an answer: agentctl inbox, agentctl answer. It goes on waiting; agentctl cancel ${runId} ends it.`,
    );
    return exit.waiting;
  }
  out.note(`Left. ${ending.cancelling ? 'The run is being cancelled.' : `The run goes on: agentctl attach ${runId}`}`);
  return ending.cancelling ? exit.interrupted : exit.good;
}

/** Appends what comes to a file, which is made empty first. */
function into(file: string): (text: string) => void {
  try {
    writeFileSync(file, '');
  } catch (error) {
    throw new Stop(exit.failed, `The result cannot be written: ${(error as Error).message}`);
  }
  return (text) => writeFileSync(file, text, { flag: 'a' });
}

/** Starts the run; a server without a default harness is told the best one, and a machine without a sandbox is asked about. */
async function start(context: Context, client: Client, body: Body, key?: string): Promise<ReplyOf<'createRun'>> {
  const idempotencyKey = key ?? crypto.randomUUID();
  try {
    return await client.insist('createRun', { body }, { idempotencyKey });
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    if (!body.harness && error.code === 'invalid_request' && error.param === 'harness') {
      body.harness = await bestHarness(context, client);
      return start(context, client, body, idempotencyKey);
    }
    const mayAsk = error.code === 'sandbox_unavailable' && context.canAsk && error.details.sandbox !== 'required';
    if (!mayAsk || !(await consents(context, error))) throw error;
    return start(context, client, { ...body, sandbox: 'none' }, idempotencyKey);
  }
}

async function consents({ out, stdin }: Context, fault: Fault): Promise<boolean> {
  const { wrapped } = await import('../width.ts');
  const width = Math.min(100, out.streams.stderr.columns ?? 80);
  out.note(out.paint('yellow', wrapped(`! ${fault.message}`, width, '  ')));
  if (typeof fault.details.remedy === 'string') out.note(wrapped(`  ${fault.details.remedy}`, width, '  '));
  const means =
    'Without a sandbox the agent works as you: it and every command it starts can read and change everything your account can, including your SSH keys, browser data and agentctl’s own keys, and use the network.';
  out.note(wrapped(`  ${means}`, width, '  '));
  const { createInterface } = await import('node:readline/promises');
  const reader = createInterface({ input: stdin, output: process.stderr });
  try {
    return /^y(es)?$/i.test((await reader.question('  Run it without a sandbox this once? [y/N] ')).trim());
  } finally {
    reader.close();
  }
}

async function promptOf(context: Context, { file }: RunOptions, given?: string): Promise<string> {
  if (file && given) throw new Stop(exit.usage, 'Give the prompt either as an argument or with --file.');
  let text = given;
  if (file) {
    try {
      text = readFileSync(file, 'utf8');
    } catch (error) {
      throw new Stop(exit.usage, `The prompt cannot be read: ${(error as Error).message}`);
    }
  } else if (given === '-' || (given === undefined && !context.stdin.isTTY)) text = await read(context.stdin);
  if (text === undefined || text.trim() === '') {
    throw new Stop(
      exit.usage,
      'There is no prompt.',
      'agentctl run "what to do", --file FILE, or - for standard input',
    );
  }
  return text;
}

async function read(stdin: NodeJS.ReadStream): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of stdin) chunks.push(Buffer.from(chunk as Buffer));
  return Buffer.concat(chunks).toString('utf8');
}

async function placeOf(context: Context, client: Client, options: RunOptions): Promise<Partial<Body>> {
  const { out } = context;
  const ways = [options.session && '-s', options.continue && '-c', options.worktree && '--worktree'].filter(Boolean);
  if (ways.length > 1) throw new Stop(exit.usage, `${ways.join(' and ')} do not go together.`);
  if (options.session) {
    const session_id = await idOf(client, 'session', options.session);
    out.note(out.paint('dim', await conversation(client, session_id)));
    return { session_id };
  }
  const project = options.project ? await idOf(client, 'project', options.project) : undefined;
  if (options.worktree) {
    const place = await worktreeHere(client, process.cwd(), project);
    await say(context, client, place);
    return { workspace_id: place.workspaceId };
  }
  let workspace: string;
  if (options.workspace) workspace = await idOf(client, 'workspace', options.workspace, { project_id: project });
  else if (project && !options.continue) return { project_id: project };
  else {
    const place = await placeHere(client, process.cwd());
    if (place.fresh) await say(context, client, place);
    workspace = place.workspaceId;
  }
  if (!options.continue) return { workspace_id: workspace };
  const { data } = await client.call('listSessions', { query: { workspace_id: workspace, limit: 1 } });
  const [latest] = data;
  if (!latest) throw new Stop(exit.notFound, 'There is no session here to continue.', 'leave out -c to begin one');
  out.note(out.paint('dim', await conversation(client, latest.id)));
  return { session_id: latest.id };
}

/** Which conversation it is, and with which agent. */
export async function conversation(client: Client, session_id: string): Promise<string> {
  const { title, agent_id, agent_revision } = await client.call('getSession', { path: { session_id } });
  const revision = agent_revision ?? 1;
  const agent = agent_id && (await client.call('getAgent', { path: { agent_id }, query: { revision } }));
  const who = agent ? ` with ${cleanLine(agent.name)}, revision ${revision}` : '';
  return `Conversation ${title ? `“${cleanLine(title)}”` : shortId(session_id)}${who}`;
}

async function say({ out }: Context, client: Client, { workspaceId }: Place): Promise<void> {
  const { name, path } = await client.call('getWorkspace', { path: { workspace_id: workspaceId } });
  out.note(out.paint('dim', `New workspace ${name} at ${path}`));
}

const preferred = ['claude', 'codex', 'gemini', 'opencode'];
/** The best comes first: the known agents, what the user has configured, our own. */
const rankOf = (id: string): number =>
  id === 'builtin' ? preferred.length + 1 : preferred.includes(id) ? preferred.indexOf(id) : preferred.length;

/** The best agent that can be used, said on standard error. Never `shell` or `scripted`: a prompt is no script. */
async function bestHarness({ out }: Context, client: Client): Promise<string> {
  const { data } = await client.call('listHarnesses', { query: { limit: 200 } });
  const agents = data.filter(({ id }) => id !== 'shell' && id !== 'scripted');
  const usable = agents.filter(({ status }) => status === 'available');
  const [best] = usable.sort((a, b) => rankOf(a.id) - rankOf(b.id));
  if (best) {
    out.note(out.paint('dim', `Using ${best.name}${best.version ? ` ${best.version}` : ''} (--harness takes another)`));
    return best.id;
  }
  const waiting = agents.filter(({ id, status }) => status === 'needs_login' && id !== 'builtin');
  const ways = [
    ...waiting.map(({ id, name }) => `log in with ${name}, or name it all the same: --harness ${id}`),
    'set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY where the daemon is started, for the agent that comes along',
    ...agents.flatMap(({ install_hint, status }) => (install_hint && status === 'not_installed' ? install_hint : [])),
    "agentctl run --harness shell '…', which takes the prompt as a script",
  ];
  throw new Stop(exit.failed, 'There is no coding agent here that could be used yet.', ways.join('\n       '));
}
