import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Client, Fault } from '../src/api/client.ts';
import type { Home } from '../src/api/home.ts';
import { exit, Stop } from './exit.ts';
import { cleanLine } from './text.ts';

/** Which organization commands shall act in, in the user's words: by flag, environment or, on this machine, by choice. */
export const wanted = (
  { org, env }: { org?: string | undefined; env: Record<string, string | undefined> },
  home?: Home,
): string | null => org ?? (env.AGENTCTL_ORG || null) ?? (home ? chosen(home) : null);

/** An organization that the user is a member of. */
export interface Membership {
  organization_id: string;
  name: string;
}

const file = (home: Home): string => join(home.state, 'organization');

/** The organization that `agentctl orgs use` chose on this machine; null when none was. */
export function chosen(home: Home): string | null {
  try {
    return readFileSync(file(home), 'utf8').trim() || null;
  } catch {
    return null;
  }
}

/** Remembers which organization commands act in; null forgets it. */
export function choose(home: Home, organization: string | null): void {
  if (organization === null) rmSync(file(home), { force: true });
  else {
    mkdirSync(home.state, { recursive: true, mode: 0o700 });
    writeFileSync(file(home), `${organization}\n`, { mode: 0o600 });
  }
}

/** The organizations of whoever calls, also before one of several was chosen. */
export async function memberships(client: Client): Promise<Membership[]> {
  try {
    return (await client.call('getMe')).memberships;
  } catch (error) {
    if (error instanceof Fault && error.code === 'organization_required')
      return error.details.memberships as Membership[];
    throw error;
  }
}

/** The one that is called `text`, or whose id begins with it. Throws Stop when there is none or more than one. */
export function pick(all: Membership[], text: string): Membership {
  const named = all.filter(({ name }) => name === text);
  const found =
    named.length > 0
      ? named
      : all.filter(({ organization_id }) => text.length >= 4 && organization_id.startsWith(text.toLowerCase()));
  if (found.length === 1) return found[0]!;
  const what = found.length === 0 ? 'You are in no organization' : 'You are in several organizations';
  throw new Stop(
    found.length === 0 ? exit.notFound : exit.usage,
    `${what} called “${cleanLine(text)}”.`,
    '`agentctl orgs ls` lists them',
  );
}

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** The id of the organization that `text` names, asked of `client` unless it is one already. */
export const idIn = async (client: Client, text: string): Promise<string> =>
  uuid.test(text) ? text.toLowerCase() : pick(await memberships(client), text).organization_id;
