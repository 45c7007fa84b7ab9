import { execFile } from 'node:child_process';
import { accessSync, constants, existsSync, statfsSync, statSync } from 'node:fs';
import { createServer } from 'node:net';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import { health, running, sessionToken } from '../running.ts';
import type { Context } from '../context.ts';
import { exit } from '../exit.ts';
import { cleanLine } from '../text.ts';

interface Check {
  name: string;
  ok: boolean | 'warn';
  found: string;
  remedy: string | null;
}

/** `agentctl doctor`: everything that agentctl needs, each with its remedy. Exit code 1 when something is missing. */
export async function doctor(context: Context): Promise<number> {
  const { out } = context;
  const checks: Check[] = [];
  for (const check of [node, port, tokenFile, daemon, sandbox, git, harnesses, disk])
    checks.push(...(await check(context)));
  const failed = checks.some(({ ok }) => ok === false);
  if (out.isJson) out.json({ ok: !failed, checks });
  else {
    const width = Math.max(...checks.map(({ name }) => name.length));
    for (const { name, ok, found, remedy } of checks) {
      const [symbol, colour] =
        ok === true ? (['✓', 'green'] as const) : ok === 'warn' ? (['!', 'yellow'] as const) : (['✗', 'red'] as const);
      out.print(`${out.paint(colour, symbol, 'stdout')} ${name.padEnd(width)}  ${cleanLine(found)}`);
      if (remedy && ok !== true)
        out.print(`  ${' '.repeat(width)}  ${out.paint('dim', `→ ${cleanLine(remedy)}`, 'stdout')}`);
    }
  }
  return failed ? exit.failed : exit.good;
}

const check = (name: string, ok: Check['ok'], found: string, remedy: string | null = null): Check[] => [
  { name, ok, found, remedy },
];

function node(): Check[] {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const fits = major > 22 || (major === 22 && minor >= 22);
  return check('node', fits, process.versions.node, 'install Node.js 22.22 or newer');
}

async function port({ env, home }: Context): Promise<Check[]> {
  if (await running(home)) return check('port', true, 'held by the daemon');
  const wanted = Number(env.AGENTCTL_PORT ?? 4788);
  if (wanted === 0) return check('port', true, 'any free one');
  const free = await new Promise<boolean>((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false)).listen(wanted, '127.0.0.1', () => server.close(() => resolve(true)));
  });
  return check(
    'port',
    free,
    free ? `${wanted} is free` : `${wanted} is taken by another program`,
    'set AGENTCTL_PORT to another port, or to 0 for any',
  );
}

function tokenFile({ home }: Context): Check[] {
  if (!sessionToken(home)) return check('token', 'warn', 'none yet', 'the first `agentctl up` writes it');
  const mode = statSync(home.token).mode & 0o777;
  const folder = statSync(dirname(home.token)).mode & 0o777;
  const closed = (mode & 0o077) === 0 && (folder & 0o077) === 0;
  const remedy = `chmod 600 ${home.token} && chmod 700 ${dirname(home.token)}`;
  return check('token', closed, `${home.token} has mode ${mode.toString(8)}, its folder ${folder.toString(8)}`, remedy);
}

async function daemon({ home, version }: Context): Promise<Check[]> {
  const info = await running(home);
  if (!info) return check('daemon', 'warn', 'does not run', 'it starts with the first command, or with `agentctl up`');
  const answer = await health(info);
  if (answer?.version !== version)
    return check('daemon', false, `is ${answer?.version}, this is ${version}`, 'agentctl restart');
  return check('daemon', true, `${version} at ${info.url}, pid ${info.pid}`);
}

async function sandbox(context: Context): Promise<Check[]> {
  try {
    const client = await context.client({ start: 'no' });
    const { available, level, reason, remedy } = (await client.call('getMe', {})).server.sandbox;
    return check('sandbox', available ? true : 'warn', available ? `${level} works` : (reason ?? 'none'), remedy);
  } catch {
    return check('sandbox', 'warn', 'not known without the daemon', 'agentctl up, then once more');
  }
}

async function git(): Promise<Check[]> {
  try {
    const { stdout } = await promisify(execFile)('git', ['--version']);
    return check('git', true, stdout.trim());
  } catch {
    return check('git', false, 'not found', 'install git: worktrees and changes of a run need it');
  }
}

async function harnesses(context: Context): Promise<Check[]> {
  try {
    const client = await context.client({ start: 'no' });
    const { data } = await client.call('listHarnesses', { query: { limit: 200 } });
    const agents = data.filter(({ id }) => id !== 'shell');
    const found = agents.filter(({ installed }) => installed);
    const broken = found
      .filter(({ status }) => status === 'broken')
      .flatMap(({ name }) => check('harness', 'warn', `${name} does not work`, 'install it again'));
    const names = found.map(({ name, version }) => (version ? `${name} ${version}` : name)).join(', ');
    const hint = agents.find(({ install_hint }) => install_hint)?.install_hint ?? null;
    return [
      ...check('harnesses', found.length > 0 ? true : 'warn', names || 'no coding agent is installed', hint),
      ...broken,
    ];
  } catch {
    return check('harnesses', 'warn', 'not known without the daemon', 'agentctl up, then once more');
  }
}

function disk({ home }: Context): Check[] {
  let folder = home.data;
  while (!existsSync(folder)) folder = dirname(folder);
  try {
    accessSync(folder, constants.W_OK);
  } catch {
    return check(
      'disk',
      false,
      `${folder} cannot be written`,
      'change its owner, or set AGENTCTL_HOME to another folder',
    );
  }
  const { bavail, bsize } = statfsSync(folder);
  const gib = (bavail * bsize) / 2 ** 30;
  return check(
    'disk',
    gib > 1 ? true : gib > 0.2 ? 'warn' : false,
    `${gib.toFixed(1)} GiB free at ${folder}`,
    'make room: runs stop when the disk is full',
  );
}
