import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { DaemonInfo } from '../../src/api/home.ts';
import { health, packageFolder, readInfo, running } from '../running.ts';
import type { Context } from '../context.ts';
import { exit, Stop } from '../exit.ts';
import { plural } from '../words.ts';
import { pageOf } from '../listing.ts';

const active = 'queued,running,awaiting_input,cancelling';

function print({ out }: Context, info: DaemonInfo): void {
  if (out.isJson)
    return out.json({ url: info.url, socket: info.socket, pid: info.pid, version: info.version, home: info.home });
  if (out.quiet) return out.print(String(info.pid));
  out.print(`agentctl ${info.version} at ${info.url} (pid ${info.pid})`);
}

/** `agentctl up`: the daemon runs afterwards, whoever started it. */
export async function up(context: Context): Promise<void> {
  const { info } = await context.connection();
  if (!info) throw new Stop(exit.usage, 'With --url or AGENTCTL_URL there is no daemon of this machine to start.');
  print(context, info);
}

/** `agentctl down`: stops the daemon; with --drain after the runs have ended. Runs that still go on do so without it. */
export async function down(context: Context, options: { drain?: number }): Promise<number> {
  const { out, home } = context;
  local(context);
  const info = await running(home);
  if (!info) {
    const last = readInfo(home);
    out.note(last ? `The daemon does not run (the last one was pid ${last.pid}).` : 'The daemon does not run.');
    return exit.good;
  }
  if (options.drain !== undefined) await drain(context, info, options.drain);
  const left = await activeRuns(context);
  await end(info);
  if (out.isJson) out.json({ stopped: true, pid: info.pid, runs: left });
  else
    out.note(
      left
        ? `Stopped. ${plural(left, 'run')} ${left === 1 ? 'goes' : 'go'} on without it; agentctl up follows them again.`
        : 'Stopped.',
    );
  return exit.good;
}

/** `agentctl restart`. */
export async function restart(context: Context): Promise<void> {
  const { home, out } = context;
  local(context);
  const info = await running(home);
  if (info) {
    out.note(out.paint('dim', `Stopping agentctl ${info.version} (pid ${info.pid}) …`));
    await end(info);
  }
  await up(context);
}

function local({ flags, env }: Context): void {
  if (flags.url ?? env.AGENTCTL_URL)
    throw new Stop(exit.usage, 'This works on the machine of the daemon only: leave out --url and AGENTCTL_URL.');
}

async function drain(context: Context, info: DaemonInfo, patience: number): Promise<void> {
  const { out } = context;
  process.kill(info.pid, 'SIGUSR2');
  const until = Date.now() + patience * 1000;
  let said = -1;
  for (;;) {
    const left = await activeRuns(context);
    if (!left) return;
    if (left !== said) out.note(out.paint('dim', `Waiting for ${plural(left, 'run')} …`));
    said = left;
    if (Date.now() >= until) return;
    await sleep(Math.min(500, Math.max(10, until - Date.now())));
  }
}

/** How many runs are not over; null when the daemon does not tell. */
async function activeRuns(context: Context): Promise<number | null> {
  try {
    const client = await context.client({ start: 'no', anyVersion: true });
    return (await pageOf(client, 'listRuns', { query: { status: active } }, 1000)).data.length;
  } catch {
    return null;
  }
}

/** Asks the daemon to end and waits until it is gone. `info` must be of a daemon that has just answered with its pid. */
async function end(info: DaemonInfo): Promise<void> {
  process.kill(info.pid, 'SIGTERM');
  const until = Date.now() + 30_000;
  while (alive(info.pid)) {
    if (Date.now() > until)
      throw new Stop(
        exit.failed,
        `The daemon (pid ${info.pid}) is still stopping after 30 s.`,
        `see \`agentctl logs\``,
      );
    await sleep(25);
  }
}

function alive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    // Where nobody reaps (a container without an init), a process that has ended stays as a zombie.
    return !/^\d+ \(.*\) Z/s.test(procStat(pid));
  } catch {
    return false;
  }
}

function procStat(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    return '';
  }
}

/** `agentctl status`: exit code 0 when the daemon runs and is ready, 8 otherwise. */
export async function status(context: Context): Promise<number> {
  const { out, home, version } = context;
  const found = await connection(context);
  if (!found) {
    if (out.isJson) out.json({ running: false, url: null, pid: null, version: null, home: home.home });
    else out.print('The daemon does not run. Start it: agentctl up');
    return exit.daemon;
  }
  const { client, info, target } = found;
  const answer = await health(target);
  const ready = (await client.raw('GET', '/readyz').catch(() => ({ status: 0 }))).status === 200;
  const counts = { running: 0, queued: 0, awaiting_input: 0, cancelling: 0 };
  const page = await pageOf(client, 'listRuns', { query: { status: active } }, 1000).catch(() => ({ data: [] }));
  for (const { status: is } of page.data) counts[is as keyof typeof counts]++;
  const body = {
    running: answer !== null,
    ready,
    url: target.url,
    socket: info?.socket ?? null,
    pid: info?.pid ?? answer?.pid ?? null,
  };
  if (out.isJson) out.json({ ...body, version: answer?.version ?? null, home: info?.home ?? null, runs: counts });
  else {
    out.one(body, String(body.pid), [
      ['daemon', `${ready ? '✓ ready' : '! not ready'} · agentctl ${answer?.version ?? '?'} · pid ${body.pid ?? '?'}`],
      ['address', target.url],
      ['socket', body.socket],
      ['home', info?.home ?? null],
      [
        'runs',
        Object.entries(counts)
          .filter(([, n]) => n > 0)
          .map(([name, n]) => `${n} ${name.replace('_', ' ')}`)
          .join(', ') || 'none active',
      ],
      ['needs you', counts.awaiting_input ? `${counts.awaiting_input} (agentctl inbox)` : null],
    ]);
  }
  if (answer && answer.version !== version)
    out.note(`This is agentctl ${version}; agentctl restart brings the daemon to it.`);
  return ready ? exit.good : exit.daemon;
}

async function connection(context: Context) {
  try {
    return await context.connection({ start: 'no', anyVersion: true });
  } catch (error) {
    if (error instanceof Stop && error.code === exit.daemon) return null;
    throw error;
  }
}

/** `agentctl version`: of this program and of the daemon, where one runs. */
export async function version(context: Context): Promise<void> {
  const { out, version: own } = context;
  const found = await connection(context).catch(() => null);
  const answer = found && (await health(found.target));
  if (out.isJson) return out.json({ client: own, daemon: answer?.version ?? null, node: process.versions.node });
  out.print(`agentctl ${own} (Node ${process.versions.node})`);
  out.print(answer ? `daemon   ${answer.version}` : 'daemon   not running');
}

/** `agentctl serve` from the source; the installed launcher hands it to the daemon's program itself. */
export async function serve({ env }: Context): Promise<number> {
  const child = spawn(process.execPath, [join(packageFolder(), 'bin', 'agentctl.js'), 'serve'], {
    stdio: 'inherit',
    env: env as NodeJS.ProcessEnv,
  });
  for (const signal of ['SIGTERM', 'SIGHUP', 'SIGUSR2'] as const) process.on(signal, () => child.kill(signal));
  process.on('SIGINT', () => {});
  return new Promise((resolve) => child.on('exit', (code) => resolve(code ?? exit.failed)));
}
