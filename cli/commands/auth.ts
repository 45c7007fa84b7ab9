import { spawn } from 'node:child_process';
import type { Context } from '../context.ts';
import { exit, Stop } from '../exit.ts';
import { sessionToken } from '../running.ts';

/** `agentctl auth token`. */
export function token({ home, out }: Context): Promise<void> {
  const found = sessionToken(home);
  if (!found)
    throw new Stop(
      exit.notFound,
      `There is no session token at ${home.token} yet.`,
      'start the daemon once: `agentctl up`',
    );
  out.print(found);
  return Promise.resolve();
}

/** `agentctl auth rotate`: whoever has the token that was is out, browsers too. */
export async function rotate(context: Context): Promise<void> {
  const client = await context.client();
  await client.call('rotateSession', { body: {} });
  context.out.note('The session has a new token; the old one and all browsers are out.');
}

/** `agentctl open`: the reference page in the browser, signed in. */
export async function openPage(context: Context, { print }: { print?: boolean }): Promise<void> {
  const client = await context.client();
  const made = await client.insist('createSignInCode', { body: {} });
  const { out, env } = context;
  if (out.isJson) return out.json(made);
  // Others may see it in the list of processes: it is good for one use, and a minute.
  const seen = env.DISPLAY !== undefined || env.WAYLAND_DISPLAY !== undefined || process.platform === 'darwin';
  if (!print && seen && (await launched(made.url))) out.note('Opened in your browser.');
  else out.print(made.url);
}

/** Whether the desktop took the address. */
function launched(url: string): Promise<boolean> {
  const program = process.platform === 'darwin' ? 'open' : 'xdg-open';
  return new Promise((resolve) => {
    const child = spawn(program, [url], { stdio: 'ignore', detached: true });
    child.once('error', () => resolve(false));
    child.once('exit', (code) => resolve(code === 0));
  });
}
