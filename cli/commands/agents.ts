import { readFileSync } from 'node:fs';
import type { Client, InputOf, ReplyOf } from '../../src/api/client.ts';
import { confirmed } from '../ask.ts';
import type { Context } from '../context.ts';
import { exit, Stop } from '../exit.ts';
import { idOf } from '../ids.ts';
import { pageOf } from '../listing.ts';
import { clean } from '../text.ts';
import { ago, clock, money, shortId } from '../words.ts';

type Agent = ReplyOf<'getAgent'>;
type Definition = InputOf<'updateAgent'>['body'];

/** The options that say what an agent is. */
export interface AgentOptions {
  name?: string;
  description?: string;
  harness?: string;
  model?: string;
  instructions?: string;
  file?: string;
  maxCost?: string;
  maxTurns?: number;
  timeout?: number;
  permission?: 'ask' | 'accept-edits' | 'full';
  onInput?: Definition['on_input'];
  label?: Record<string, string>;
}

/** `agentctl agents ls`. */
export async function ls(context: Context, { all, limit }: { all?: boolean; limit: number }): Promise<void> {
  const client = await context.client();
  const now = Date.now();
  await context.out.list(await pageOf(client, 'listAgents', { query: all ? {} : { archived: false } }, limit), {
    id: ({ id }) => id,
    name: ({ name }) => name,
    empty: 'No agents yet. agentctl agents new NAME --instructions "…" makes one; agentctl run -a NAME uses it.',
    columns: [
      { title: 'AGENT', value: ({ id }) => shortId(id) },
      { title: 'NAME', value: ({ name, archived_at }) => (archived_at ? `${name} (archived)` : name), flex: true },
      { title: 'REVISION', value: ({ revision }) => String(revision), right: true },
      { title: 'HARNESS', value: ({ harness }) => harness ?? '–' },
      { title: 'MODEL', value: ({ model }) => model ?? '–' },
      { title: 'PERMISSION', value: ({ permission_mode }) => permission_mode.replace('_', ' '), wide: true },
      { title: 'DESCRIPTION', value: ({ description }) => description ?? '–', wide: true, flex: true },
      { title: 'CHANGED', value: ({ updated_at }) => ago(updated_at, now) },
    ],
  });
}

const limitsOf = ({ limits }: Agent): string | null => {
  const { timeout_seconds, max_cost_micro_usd, max_turns } = limits;
  const said = [
    timeout_seconds && clock(timeout_seconds),
    max_cost_micro_usd && money(max_cost_micro_usd),
    max_turns && `${max_turns} turns`,
  ].filter(Boolean);
  return said.length > 0 ? said.join(', ') : null;
};

const print = ({ out }: Context, agent: Agent): void =>
  out.one(agent, agent.id, [
    ['agent', agent.id],
    ['name', agent.name],
    ['description', agent.description],
    ['revision', String(agent.revision)],
    ['harness', agent.harness],
    ['model', agent.model],
    ['limits', limitsOf(agent)],
    ['permission', agent.permission_mode.replace('_', ' ')],
    ['on input', agent.on_input],
    ['archived', agent.archived_at && ago(agent.archived_at, Date.now())],
    ['changed', ago(agent.updated_at, Date.now())],
    ['instructions', agent.instructions],
    ['next', agent.archived_at ? null : `agentctl run -a ${shortId(agent.id)} "…"`],
  ]);

function definitionOf(options: AgentOptions, limits: Definition['limits'] = {}): Definition {
  const { description, harness, model, instructions, file, maxCost, maxTurns, timeout, permission, onInput } = options;
  if (file && instructions)
    throw new Stop(exit.usage, 'Give the instructions either as --instructions or with --file.');
  const given = {
    ...(timeout ? { timeout_seconds: timeout } : {}),
    ...(maxCost ? { max_cost_micro_usd: maxCost } : {}),
    ...(maxTurns ? { max_turns: maxTurns } : {}),
  };
  const text = file ? textIn(file) : instructions;
  return {
    ...(options.name === undefined ? {} : { name: options.name }),
    ...(description === undefined ? {} : { description: description || null }),
    ...(harness === undefined ? {} : { harness: harness || null }),
    ...(model === undefined ? {} : { model: model || null }),
    ...(text === undefined ? {} : { instructions: text || null }),
    ...(Object.keys(given).length > 0 ? { limits: { ...limits, ...given } } : {}),
    ...(permission ? { permission_mode: permission === 'accept-edits' ? 'accept_edits' : permission } : {}),
    ...(onInput ? { on_input: onInput } : {}),
    ...(options.label ? { metadata: options.label } : {}),
  };
}

function textIn(file: string): string {
  try {
    return readFileSync(file === '-' ? 0 : file, 'utf8');
  } catch (error) {
    throw new Stop(exit.usage, `The file cannot be read: ${(error as Error).message}`);
  }
}

/** `agentctl agents new NAME`. */
export async function create(context: Context, options: AgentOptions, name: string): Promise<void> {
  const client = await context.client();
  print(context, await client.insist('createAgent', { body: { ...definitionOf(options), name } }));
}

const agentOf = async (client: Client, text: string, revision?: number): Promise<Agent> => {
  const path = { agent_id: await idOf(client, 'agent', text) };
  return client.call('getAgent', { path, query: revision === undefined ? {} : { revision } });
};

/** `agentctl agents show AGENT`. */
export async function show(context: Context, { revision }: { revision?: number }, text: string): Promise<void> {
  print(context, await agentOf(await context.client(), text, revision));
}

/** Makes the next revision, if nobody else has made one meanwhile. */
const revise = (client: Client, agent: Agent, body: Definition): Promise<Agent> =>
  client.insist('updateAgent', {
    path: { agent_id: agent.id },
    body,
    headers: { 'if-match': `"${agent.revision}"` },
  });

/** `agentctl agents edit AGENT`: what the options say; without any the instructions, in $EDITOR. */
export async function edit(context: Context, options: AgentOptions, text: string): Promise<void> {
  const client = await context.client();
  const agent = await agentOf(client, text);
  const said = definitionOf(options, agent.limits);
  if (Object.keys(said).length > 0) return print(context, await revise(client, agent, said));
  const { editCopy } = await import('../editor.ts');
  const before = agent.instructions ?? '';
  const edited = await editCopy(context.env, 'instructions.md', Buffer.from(before));
  const instructions = edited.bytes.toString('utf8');
  if (instructions.trimEnd() === before.trimEnd()) {
    edited.remove();
    return context.out.note('Nothing was changed.');
  }
  try {
    const changed = await revise(client, agent, { instructions: instructions.trim() === '' ? null : instructions });
    edited.remove();
    print(context, changed);
  } catch (error) {
    context.out.note(`What you wrote is still in ${edited.path}`);
    throw error;
  }
}

/** `agentctl agents revisions AGENT`. */
export async function revisions(context: Context, { limit }: { limit: number }, text: string): Promise<void> {
  const client = await context.client();
  const path = { agent_id: await idOf(client, 'agent', text) };
  const now = Date.now();
  const page = await pageOf(client, 'listAgentRevisions', { path }, limit + 1);
  const before = new Map(page.data.map((agent) => [agent.revision + 1, agent]));
  const shown = { ...page, data: page.data.slice(0, limit) };
  await context.out.list(shown, {
    id: ({ revision }) => String(revision),
    empty: 'No revisions.',
    columns: [
      { title: 'REVISION', value: ({ revision }) => String(revision), right: true },
      { title: 'MADE', value: ({ updated_at }) => ago(updated_at, now) },
      {
        title: 'CHANGED',
        value: (agent) => {
          const older = before.get(agent.revision);
          if (!older) return agent.revision === 1 ? '–' : '…';
          return changesOf(older, agent).join(', ') || 'nothing';
        },
        flex: true,
      },
    ],
  });
}

const fields = [
  'name',
  'description',
  'harness',
  'model',
  'limits',
  'permission_mode',
  'on_input',
  'metadata',
  'instructions',
] as const;

const changesOf = (from: Agent, to: Agent): (typeof fields)[number][] =>
  fields.filter((name) => JSON.stringify(from[name]) !== JSON.stringify(to[name]));

/** `agentctl agents diff AGENT [FROM] [TO]`: the newest revision and the one before, unless named. */
export async function diff(context: Context, _: object, text: string, from?: string, to?: string): Promise<void> {
  const client = await context.client();
  const { out } = context;
  const number = (value: string): number => {
    if (!/^[1-9]\d{0,8}$/.test(value)) throw new Stop(exit.usage, `“${value}” is no revision.`, 'give numbers: 1 2');
    return Number(value);
  };
  const later = await agentOf(client, text, to === undefined ? undefined : number(to));
  const earlier = await agentOf(client, later.id, from === undefined ? Math.max(1, later.revision - 1) : number(from));
  if (out.isJson) return out.json([earlier, later]);
  const lines = changesOf(earlier, later).flatMap((name) => {
    const shown = (value: unknown, sign: string) =>
      value === null || value === undefined
        ? []
        : clean(typeof value === 'string' ? value : JSON.stringify(value))
            .split('\n')
            .map((line) => `${sign} ${line}`);
    const [old, fresh] = [shown(earlier[name], '-'), shown(later[name], '+')];
    // Lines that both begin and end with are left out.
    let start = 0;
    while (start < old.length && start < fresh.length && old[start]!.slice(1) === fresh[start]!.slice(1)) start += 1;
    let end = 0;
    while (
      end < old.length - start &&
      end < fresh.length - start &&
      old.at(-1 - end)!.slice(1) === fresh.at(-1 - end)!.slice(1)
    )
      end += 1;
    const rest = (all: string[]) => all.slice(start, all.length - end);
    return [
      out.paint('bold', `${name.replace('_', ' ')}${start > 0 ? `, from line ${start + 1}` : ''}`, 'stdout'),
      ...rest(old).map((line) => out.paint('red', line, 'stdout')),
      ...rest(fresh).map((line) => out.paint('green', line, 'stdout')),
    ];
  });
  for (const line of lines) out.print(line);
  if (lines.length === 0) out.note(`Revisions ${earlier.revision} and ${later.revision} say the same.`);
}

/** `agentctl agents rm AGENT`: archives it. */
export async function remove(context: Context, _: object, text: string): Promise<void> {
  const client = await context.client();
  const agent = await agentOf(client, text);
  await confirmed(context, `Archive the agent ${agent.name}? Sessions that began with it go on.`);
  await client.insist('deleteAgent', { path: { agent_id: agent.id } });
  context.out.note(`${agent.name} is archived: no new run or session begins with it.`);
}

/** `agentctl apply -f FILE`: makes agents what the file says, by name; what is so already stays. */
export async function apply(context: Context, { file }: { file: string }): Promise<void> {
  const { out } = context;
  let found: unknown;
  try {
    found = JSON.parse(textIn(file));
  } catch (error) {
    if (error instanceof Stop) throw error;
    const message = `The file is no JSON: ${(error as Error).message}`;
    throw new Stop(exit.usage, message, 'an agent is {"name": "…", "instructions": "…"}, several are a list of these');
  }
  const client = await context.client();
  const all: Agent[] = [];
  for await (const agent of client.each('listAgents', { query: { archived: false, limit: 200 } })) all.push(agent);
  for (const wanted of (Array.isArray(found) ? found : [found]) as (Definition & { name?: string })[]) {
    if (typeof wanted?.name !== 'string') throw new Stop(exit.usage, 'An agent of the file has no name.');
    const named = all.filter(({ name }) => name === wanted.name);
    const [known] = named;
    if (named.length > 1) throw new Stop(exit.conflict, `There are ${named.length} agents called “${wanted.name}”.`);
    if (!known) {
      const made = await client.insist('createAgent', { body: { ...wanted, name: wanted.name } });
      out.note(`${made.name}: made (${made.id})`);
      continue;
    }
    const differs = Object.entries(wanted).some(
      ([name, value]) => JSON.stringify(known[name as keyof Agent]) !== JSON.stringify(value),
    );
    const now = differs ? await revise(client, known, wanted) : known;
    out.note(`${now.name}: ${differs ? `revision ${now.revision}` : 'as it was'}`);
  }
}
