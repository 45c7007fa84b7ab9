import { systemClock } from '../base/clock.ts';
import { protocolVersion, type RunSpec } from './protocol.ts';
import { Run } from './run.ts';

/**
 * The program of one run. Started warm: it reads one line of JSON, a RunSpec, on its standard input, and carries it out. When
 * the input ends without one, it was not needed and ends with 0. It writes nothing to its standard streams but what kills it.
 */

/** A transcript may be long; more than this is a mistake. */
const longestSpec = 256 * 1_048_576;

let run: Run | null = null;
let cancelled = false;

// Its terminal, its daemon and its pipes may go: the run goes on.
for (const name of ['SIGHUP', 'SIGPIPE', 'SIGINT', 'SIGQUIT', 'SIGUSR2'] as const) process.on(name, () => {});
process.on('SIGTERM', () => {
  cancelled = true;
  if (run) run.stop({ kind: 'cancel' });
  else process.exit(0);
});
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});

const fail = (error: unknown): void => {
  if (!run) {
    process.stderr.write(`${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
    process.exit(1);
  }
  run.stop({ kind: 'internal', message: error instanceof Error ? error.message : String(error) });
};
process.on('uncaughtException', fail);
process.on('unhandledRejection', fail);

async function execute(line: string): Promise<void> {
  const spec = JSON.parse(line) as RunSpec;
  if (spec.version !== protocolVersion)
    throw new Error(`This runner speaks version ${String(protocolVersion)}, not ${String(spec.version)}.`);
  const started = new Run(spec, systemClock);
  run = started;
  if (cancelled) started.stop({ kind: 'cancel' });
  await started.execute();
  process.exit(0);
}

let parts: Buffer[] = [];
let length = 0;
const input = process.stdin;
input.on('data', (bytes: Buffer) => {
  const end = bytes.indexOf(10);
  parts.push(end < 0 ? bytes : bytes.subarray(0, end));
  length += bytes.length;
  if (end < 0) {
    if (length > longestSpec) fail(new Error('The spec is too long.'));
    return;
  }
  input.removeAllListeners('data').removeAllListeners('end');
  const line = Buffer.concat(parts).toString('utf8');
  parts = [];
  input.destroy();
  execute(line).catch((error: unknown) => {
    run = null;
    fail(error);
  });
});
// While it waits it can load what most runs need; the ACP half is dear, and loaded when it is wanted.
setImmediate(() => void import('./shell.ts'));
input.on('end', () => process.exit(0));
input.on('error', () => process.exit(0));
