import type { Context } from '../context.ts';
import { pageOf } from '../listing.ts';
import { count, money } from '../words.ts';

/** `agentctl harnesses`. */
export async function harnesses(context: Context, { limit }: { limit: number }): Promise<void> {
  const client = await context.client();
  const looks = {
    available: '✓ available',
    needs_login: '○ needs a login',
    not_installed: '– not installed',
    broken: '✗ broken',
  } as const;
  await context.out.list(await pageOf(client, 'listHarnesses', {}, limit), {
    id: ({ id }) => id,
    empty: 'This daemon knows no harness.',
    columns: [
      { title: 'HARNESS', value: ({ id }) => id },
      { title: 'NAME', value: ({ name }) => name },
      {
        title: 'STATUS',
        value: ({ status }) => looks[status],
        style: ({ status }) => (status === 'available' ? 'green' : status === 'broken' ? 'red' : 'dim'),
      },
      { title: 'VERSION', value: ({ version }) => version ?? '–' },
      {
        title: 'WHAT IS MISSING',
        value: ({ id, status, install_hint }) => {
          if (status === 'available') return '';
          if (status !== 'needs_login') return install_hint ?? '';
          return id === 'builtin' ? 'a key of a provider, such as ANTHROPIC_API_KEY' : 'a login with its own program';
        },
        flex: true,
      },
      { title: 'PATH', value: ({ path }) => path ?? '–', wide: true },
      {
        title: 'CAN',
        value: ({ capabilities }) =>
          Object.entries(capabilities)
            .filter(([, can]) => can)
            .map(([name]) => name)
            .join(' '),
        wide: true,
      },
    ],
  });
}

/** `agentctl models`: prices are US dollars per million tokens. */
export async function models(context: Context, { limit }: { limit: number }): Promise<void> {
  const client = await context.client();
  await context.out.list(await pageOf(client, 'listModels', {}, limit), {
    id: ({ id }) => id,
    empty: 'This daemon knows no models; -m takes any name that the harness understands.',
    columns: [
      { title: 'MODEL', value: ({ id }) => id, flex: true },
      { title: 'PROVIDER', value: ({ provider }) => provider },
      { title: 'STATUS', value: ({ status }) => status.replace('_', ' ') },
      {
        title: 'CONTEXT',
        value: ({ context_window }) => (context_window === null ? '–' : count(context_window)),
        right: true,
      },
      { title: 'IN /M', value: ({ pricing }) => money(pricing?.input ?? null), right: true },
      { title: 'OUT /M', value: ({ pricing }) => money(pricing?.output ?? null), right: true },
      { title: 'HARNESSES', value: ({ harnesses: ids }) => ids.join(' '), wide: true },
    ],
  });
}
