import type { Client, Listing } from '../src/api/client.ts';
import { exit, Stop } from './exit.ts';
import { cleanLine } from './text.ts';

/** What people may name on the command line. */
export type Noun =
  | 'run'
  | 'session'
  | 'project'
  | 'workspace'
  | 'input'
  | 'checkpoint'
  | 'key'
  | 'agent'
  | 'grant'
  | 'webhook'
  | 'delivery';

/** Where to look: checkpoints are listed by workspace. */
interface Within {
  project_id?: string | undefined;
  workspace_id?: string | undefined;
}

interface Candidate {
  id: string;
  name: string | null;
}

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const prefix = /^[0-9a-f][0-9a-f-]{3,35}$/i;
const lists: Record<Noun, string> = {
  run: 'agentctl ps -a',
  session: 'agentctl sessions ls',
  project: 'agentctl projects ls',
  workspace: 'agentctl workspaces ls',
  input: 'agentctl inbox',
  checkpoint: 'agentctl checkpoints ls',
  key: 'agentctl keys ls',
  webhook: 'agentctl webhooks ls',
  delivery: 'agentctl deliveries ls',
  agent: 'agentctl agents ls',
  grant: 'agentctl grants ls',
};

/** The full id of what `text` names: an id, a unique prefix of 4 characters or more, a name, or `@last` (the newest). */
export async function idOf(client: Client, noun: Noun, text: string, within: Within = {}): Promise<string> {
  if (uuid.test(text)) return text.toLowerCase();
  const named: Candidate[] = [];
  const begun: Candidate[] = [];
  const start = text.toLowerCase();
  for await (const candidate of candidates(client, noun, start, within)) {
    if (text === '@last') return candidate.id;
    if (candidate.name === text) named.push(candidate);
    if (prefix.test(text) && candidate.id.startsWith(start)) begun.push(candidate);
  }
  const found = named.length > 0 ? named : begun;
  const [only] = found;
  if (only && found.length === 1) return only.id;
  const remedy = `\`${lists[noun]}\` lists them`;
  if (!only) {
    if (text === '@last')
      throw new Stop(
        exit.notFound,
        `There is no ${noun} yet.`,
        noun === 'run' ? 'start one: agentctl run "…"' : remedy,
      );
    const short = /^[0-9a-f-]{1,3}$/i.test(text) ? ' An id needs at least 4 characters.' : '';
    throw new Stop(exit.notFound, `There is no ${noun} “${cleanLine(text)}”.${short}`, remedy);
  }
  const shown = found.slice(0, 10).map(({ id, name }) => `\n  ${id}${name ? `  ${cleanLine(name).slice(0, 60)}` : ''}`);
  const more = found.length > shown.length ? `\n  and ${found.length - shown.length} more` : '';
  throw new Stop(
    exit.usage,
    `“${cleanLine(text)}” could be any of ${found.length}:${shown.join('')}${more}`,
    'give more characters of the id',
  );
}

async function* candidates(client: Client, noun: Noun, start: string, within: Within): AsyncGenerator<Candidate> {
  const query = { limit: start === '@last' ? 1 : 200 };
  switch (noun) {
    case 'run': {
      const found = prefix.test(start) ? { ...query, ...madeAround(start) } : query;
      for await (const { id, prompt } of client.each('listRuns', { query: found }))
        yield { id, name: prompt.slice(0, 80) };
      return;
    }
    case 'agent':
      for await (const { id, name } of client.each('listAgents', { query: { ...query, archived: false } }))
        yield { id, name };
      return;
    case 'grant':
      for await (const { id, pattern } of client.each('listGrants', { query })) yield { id, name: pattern };
      return;
    case 'session':
      for await (const { id, title } of client.each('listSessions', { query })) yield { id, name: title };
      return;
    case 'project':
      for await (const { id, name } of client.each('listProjects', { query })) yield { id, name };
      return;
    case 'workspace': {
      const projects = within.project_id ? [within.project_id] : await all(client, 'listProjects');
      const found: Candidate[] = [];
      for (const project_id of projects) {
        for await (const { id, name } of client.each('listWorkspaces', { path: { project_id }, query }))
          found.push({ id, name });
      }
      yield* found.sort((a, b) => (a.id < b.id ? 1 : -1));
      return;
    }
    case 'checkpoint': {
      const workspaces: string[] = within.workspace_id ? [within.workspace_id] : [];
      if (!within.workspace_id)
        for await (const { id } of candidates(client, 'workspace', '', within)) workspaces.push(id);
      for (const workspace_id of workspaces)
        for await (const { id, name } of client.each('listCheckpoints', { path: { workspace_id }, query }))
          yield { id, name };
      return;
    }
    case 'key':
      for await (const { id, name } of client.each('listApiKeys', { query })) yield { id, name };
      return;
    case 'webhook':
      for await (const { id, url } of client.each('listWebhookEndpoints', { query })) yield { id, name: url };
      return;
    case 'delivery':
      for await (const { id } of client.each('listWebhookDeliveries', { query })) yield { id, name: null };
      return;
    case 'input':
      for await (const { id, title } of client.each('listInputRequests', { query })) yield { id, name: title };
  }
}

async function all(client: Client, id: Extract<Listing, 'listProjects'>): Promise<string[]> {
  const ids: string[] = [];
  for await (const item of client.each(id, { query: { limit: 200 } })) ids.push(item.id);
  return ids;
}

/** The time range that ids with this beginning were made in: a UUIDv7 starts with its millisecond. */
function madeAround(start: string): { from: string; to: string } {
  const digits = start.replaceAll('-', '').slice(0, 12);
  const from = Number.parseInt(digits.padEnd(12, '0'), 16);
  const to = Number.parseInt(digits.padEnd(12, 'f'), 16);
  // Beyond the year 9999 there is no such time on the wire, and no such run.
  const latest = Date.UTC(9999, 11, 31);
  const time = (ms: number) => new Date(Math.min(latest, Math.max(0, ms))).toISOString();
  return { from: time(from - 60_000), to: time(to + 60_000) };
}
