import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import closeWithGrace from 'close-with-grace';
import { type DaemonInfo, locate, socketIn } from '../src/api/home.ts';
import { createApp, privateFolder } from '../src/app.ts';
import { systemClock } from '../src/base/clock.ts';
import { ConfigError, readConfig } from '../src/base/config.ts';
import { armCrash, crashPoint } from '../src/base/crash.ts';
import { takeLock } from '../src/base/db.ts';
import { packageRoot, version } from '../src/base/root.ts';
import { listen } from './listen.ts';
import { openLog } from './log.ts';
import { createServer } from './server.ts';

/** A start that cannot be; the message is for a person. */
class StartError extends Error {
  readonly exitCode: number;
  constructor(message: string, exitCode: number) {
    super(message);
    this.exitCode = exitCode;
  }
}

/**
 * `agentctl serve`: takes the data directory's lock, opens everything, listens, and prints one line of JSON (DaemonInfo) on
 * standard output. SIGTERM and SIGINT stop it and leave runs running; SIGUSR2 stops it from starting runs.
 */
async function serve(): Promise<void> {
  const { env } = process;
  const { values } = parseArgs({ args: process.argv.slice(3), options: { port: { type: 'string' } } });
  const home = locate(env);
  armCrash(env.AGENTCTL_CRASH_AT);
  process.umask(0o077);
  for (const folder of [home.data, home.state, home.runtime]) privateFolder(folder);
  const config = readConfig(home.config);
  const port = readPort(values.port ?? env.AGENTCTL_PORT, config.server.port);

  const lock = takeLock(join(home.data, 'daemon.lock'));
  if (!lock) throw new StartError('Another agentctl daemon is already running on this data directory.', 7);
  const { log, close: closeLog } = openLog(home.log, config.log);
  crashPoint('daemon', 'locked');
  const app = createApp({
    home,
    config,
    env,
    log,
    clock: systemClock,
    runner: [process.execPath, '--max-semi-space-size=1', join(packageRoot, 'dist/runner.js')],
  });
  crashPoint('daemon', 'opened');
  const server = await createServer(app, log);
  const listening = await listen(server, port, socketIn(home.runtime)).catch(async (error: NodeJS.ErrnoException) => {
    await app.close();
    if (error.code === 'EADDRINUSE')
      throw new StartError(
        `Port ${port} on 127.0.0.1 is taken. Set AGENTCTL_PORT or server.port to another one, or to 0 for a free one.`,
        7,
      );
    throw error;
  });

  crashPoint('daemon', 'listening');
  const { url, socket } = listening;
  const info: DaemonInfo = { url, socket, pid: process.pid, version, home: home.home };
  writeFileSync(`${home.info}.new`, `${JSON.stringify(info)}\n`, { mode: 0o600 });
  renameSync(`${home.info}.new`, home.info);
  crashPoint('daemon', 'announced');
  app.open();
  log.info({ url, socket, version }, 'The daemon is ready.');
  process.stdout.on('error', () => {});
  process.stdout.write(`${JSON.stringify(info)}\n`);

  process.on('SIGUSR2', () => {
    log.info('No more runs are started.');
    app.supervisor.drain();
  });
  // What is left of a terminal or a pipe that has gone must not end the daemon.
  process.on('SIGHUP', () => {});
  process.stderr.on('error', () => {});
  closeWithGrace({ delay: 10_000, logger: false, skip: ['SIGHUP', 'SIGUSR2'] as never }, async ({ err, signal }) => {
    if (err) log.fatal({ err }, 'The daemon failed and stops.');
    else log.info({ signal, working: app.supervisor.working() }, 'The daemon stops; runs go on.');
    rmSync(home.info, { force: true });
    await listening.close();
    await app.close();
    lock.release();
    await closeLog();
    if (err) process.stderr.write(`${err.message}\n`);
  });
}

function readPort(given: string | undefined, configured: number): number {
  if (given === undefined || given === '') return configured;
  if (!/^\d{1,5}$/.test(given) || Number(given) > 65_535) throw new StartError(`"${given}" is no port.`, 2);
  return Number(given);
}

try {
  await serve();
} catch (error) {
  const known = error instanceof StartError || error instanceof ConfigError;
  process.stderr.write(`agentctl: ${known ? (error as Error).message : ((error as Error).stack ?? String(error))}\n`);
  process.exit(error instanceof StartError ? error.exitCode : error instanceof ConfigError ? 2 : 1);
}
