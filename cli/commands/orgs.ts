import { confirmed } from '../ask.ts';
import type { Context } from '../context.ts';
import { pageOf } from '../listing.ts';
import { choose, chosen, memberships, pick, wanted } from '../organization.ts';
import { shortId } from '../words.ts';

/** `agentctl orgs ls`: the organizations of whoever calls. */
export async function ls(context: Context): Promise<void> {
  const client = await context.client();
  const all = await memberships(client);
  const { env, flags, home } = context;
  const asked = wanted({ env, org: flags.org }, home);
  const acting = asked === null ? all[0]?.organization_id : pick(all, asked).organization_id;
  await context.out.list(
    { data: all, next_cursor: null },
    {
      id: ({ organization_id }) => organization_id,
      name: ({ name }) => name,
      empty: 'You are in no organization.',
      columns: [
        { title: '', value: ({ organization_id }) => (organization_id === acting ? '●' : ' ') },
        { title: 'ORGANIZATION', value: ({ organization_id }) => shortId(organization_id) },
        { title: 'NAME', value: ({ name }) => name, flex: true },
      ],
    },
  );
}

/** `agentctl orgs new NAME`. */
export async function create(context: Context, { prepaid }: { prepaid?: boolean }, name: string): Promise<void> {
  const client = await context.client();
  const credit_policy = prepaid ? ('prepaid' as const) : ('unlimited' as const);
  const before = await memberships(client);
  const organization = await client.insist('createOrganization', { body: { name, credit_policy } });
  const { home, out } = context;
  // With a second one each request has to name its own: commands go on where they were.
  if (before.length === 1 && chosen(home) === null) choose(home, before[0]!.organization_id);
  if (out.isJson) return out.json(organization);
  out.print(organization.id);
  out.note(`To work in it: agentctl orgs use “${name}”, or --org with a command.`);
}

/** `agentctl orgs use ORGANIZATION`: what commands on this machine act in. */
export async function use(context: Context, _: object, text: string): Promise<void> {
  const { organization_id, name } = pick(await memberships(await context.client()), text);
  choose(context.home, organization_id);
  context.out.note(`Commands act in ${name} now.`);
}

/** `agentctl orgs rename ORGANIZATION NAME`. */
export async function rename(context: Context, _: object, text: string, name: string): Promise<void> {
  const client = await context.client();
  const { organization_id } = pick(await memberships(client), text);
  const organization = await client.insist('updateOrganization', { path: { organization_id }, body: { name } });
  if (context.out.isJson) return context.out.json(organization);
  context.out.note(`${shortId(organization_id)} is called ${organization.name} now.`);
}

/** `agentctl orgs members ls ORGANIZATION`. */
export async function members(context: Context, { limit }: { limit: number }, text: string): Promise<void> {
  const client = await context.client();
  const { organization_id } = pick(await memberships(client), text);
  await context.out.list(await pageOf(client, 'listMembers', { path: { organization_id } }, limit), {
    id: ({ user_id }) => user_id,
    name: ({ name }) => name,
    empty: 'Nobody is in it.',
    columns: [
      { title: 'USER', value: ({ user_id }) => user_id },
      { title: 'NAME', value: ({ name }) => name, flex: true },
      { title: 'ROLE', value: ({ role }) => role },
      { title: 'SUBJECT', value: ({ subject }) => subject ?? '–' },
      { title: 'ISSUER', value: ({ issuer }) => issuer ?? '–', wide: true },
    ],
  });
}

/** `agentctl orgs members add ORGANIZATION ISSUER SUBJECT`. */
export async function addMember(
  context: Context,
  { name }: { name?: string },
  ...[text, issuer, subject]: [string, string, string]
): Promise<void> {
  const client = await context.client();
  const { organization_id, name: called } = pick(await memberships(client), text);
  const body = { issuer, subject, ...(name === undefined ? {} : { name }) };
  const member = await client.insist('addMember', { path: { organization_id }, body });
  if (context.out.isJson) return context.out.json(member);
  context.out.note(`${member.name} may act in ${called} now, with the scopes of their tokens.`);
}

/** `agentctl orgs members rm ORGANIZATION USER`. */
export async function removeMember(context: Context, _: object, text: string, user_id: string): Promise<void> {
  const client = await context.client();
  const { organization_id, name } = pick(await memberships(client), text);
  await confirmed(context, `Take ${user_id} out of ${name}?`);
  await client.insist('removeMember', { path: { organization_id, user_id } });
  context.out.note('Taken out.');
}
