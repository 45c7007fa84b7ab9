import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { type HarnessPackage, harnessPackages } from '../../src/api/harness-packages.ts';
import type { Context } from '../context.ts';
import { exit, Stop } from '../exit.ts';

const partial = /^\.partial-(\d+)$/;

function packageOf(id: string): HarnessPackage {
  const found = harnessPackages[id];
  if (found) return found;
  const known = Object.keys(harnessPackages).join(', ');
  throw new Stop(exit.usage, `agentctl does not install "${id}".`, `one of ${known}; others are a row in config.toml`);
}

/** Installing is done on this machine, for this machine's daemon. */
function folderHere({ env, flags, home }: Context): string {
  if (flags.url ?? env.AGENTCTL_URL)
    throw new Stop(exit.usage, 'Harnesses are installed on the machine of the daemon; --url names another one.');
  return join(home.data, 'harnesses');
}

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
};

/** What an install that was killed left behind. */
function sweep(folder: string): void {
  for (const name of readdirSync(folder)) {
    const pid = Number(partial.exec(name)?.[1]);
    if (pid && !isAlive(pid)) rmSync(join(folder, name), { recursive: true, force: true });
  }
}

/** Runs a program there; the answer is its exit code, null when a signal ended it. */
function runThere(
  context: Context,
  folder: string,
  program: string,
  args: string[],
): Promise<{ code: number | null; said: string }> {
  const { env, out } = context;
  const shows = out.streams.stderr.isTTY && !context.flags.quiet;
  const { promise, resolve, reject } = Promise.withResolvers<{ code: number | null; said: string }>();
  const child = spawn(program, args, { cwd: folder, env, stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  child.stderr.on('data', (bytes: Buffer) => (said = (said + bytes.toString()).slice(-4000)));
  const since = Date.now();
  const timer = setInterval(() => {
    if (shows) out.streams.stderr.write(`\r  ${Math.round((Date.now() - since) / 1000)} s …`);
  }, 1000);
  const stop = (): void => void child.kill('SIGTERM');
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, stop);
  const end = (): void => {
    clearInterval(timer);
    if (shows) out.streams.stderr.write('\r\x1b[K');
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.off(signal, stop);
  };
  child.once('error', (error: NodeJS.ErrnoException) => {
    end();
    const missing = error.code === 'ENOENT' && program === 'npm';
    reject(
      missing
        ? new Stop(exit.failed, 'npm is not on your PATH, and installing needs it.', 'install Node.js with its npm')
        : error,
    );
  });
  child.once('close', (code) => {
    end();
    resolve({ code, said });
  });
  return promise;
}

/** Brings the package into an empty folder. Throws Stop when that fails. */
async function bring(context: Context, draft: string, wanted: HarnessPackage): Promise<void> {
  const { package: name, version, program, setup } = wanted;
  const done = ({ code, said }: { code: number | null; said: string }, what: string): void => {
    if (code === null) throw new Stop(exit.interrupted, 'The installation was broken off. Nothing of it is left.');
    if (code !== 0) throw new Stop(exit.failed, `${what}: ${said.trim() || `exit code ${code}`}`);
  };
  const quiet = ['--ignore-scripts', '--no-audit', '--no-fund', '--omit=dev', '--loglevel=error'];
  // In its own folder: no .npmrc of a repository says where packages come from.
  const args = ['install', '--prefix', draft, ...quiet, `${name}@${version}`];
  done(await runThere(context, draft, 'npm', args), `npm could not install ${name}`);
  const folder = join(draft, 'node_modules', name);
  if (setup) done(await runThere(context, folder, process.execPath, [setup]), `${name} could not be set up`);
  const came = (JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { version?: string }).version;
  if (came !== version || !existsSync(join(draft, 'node_modules', '.bin', program)))
    throw new Stop(exit.failed, `npm brought ${name} ${came ?? ''} without ${program}; it is not used.`);
}

/** `agentctl harnesses install`: a version that was tried, into a private folder; whole, or not at all. */
export async function installHarness(context: Context, _options: object, id: string): Promise<number> {
  const { out } = context;
  const wanted = packageOf(id);
  const { package: name, version, program, megabytes } = wanted;
  const folder = join(folderHere(context), id);
  const place = join(folder, version);
  const programIn = (root: string): string => join(root, 'node_modules', '.bin', program);
  if (existsSync(programIn(place))) {
    out.note(`${id} ${version} is installed already.`);
    return exit.good;
  }
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  sweep(folder);
  const draft = join(folder, `.partial-${process.pid}`);
  mkdirSync(draft, { mode: 0o700 });
  try {
    out.note(`Installing ${name} ${version} (about ${megabytes} MB) …`);
    await bring(context, draft, wanted);
    rmSync(place, { recursive: true, force: true });
    renameSync(draft, place);
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
  // Older versions are not needed any more; what runs of them has its files open.
  for (const other of readdirSync(folder))
    if (other !== version && !partial.test(other)) rmSync(join(folder, other), { recursive: true, force: true });
  if (out.isJson) out.json({ id, version, path: programIn(place) });
  else out.note(`${id} ${version} is installed. It is found from now on: agentctl run --harness ${id} "…"`);
  return exit.good;
}

/** `agentctl harnesses uninstall`: takes away what `install` brought, and nothing else. */
export async function uninstallHarness(context: Context, _options: object, id: string): Promise<number> {
  packageOf(id);
  const folder = join(folderHere(context), id);
  if (!existsSync(folder)) {
    context.out.note(`agentctl has not installed ${id}.`);
    return exit.notFound;
  }
  rmSync(folder, { recursive: true, force: true });
  context.out.note(`${id} is gone. One on your PATH is used from now on, if there is one.`);
  return exit.good;
}
