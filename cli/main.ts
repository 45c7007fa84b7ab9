import { resolve } from 'node:path';

const version = process.env.AGENTCTL_VERSION ?? (await import('./running.ts')).packageVersion();

// The commonest question of scripts is answered before anything else is loaded.
if (process.argv.length === 3 && (process.argv[2] === '--version' || process.argv[2] === '-V')) {
  process.stdout.write(`${version}\n`);
} else {
  // A reader that went away (`agentctl ps | head`) is no failure.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1));
  process.stderr.on('error', () => {});
  const { run } = await import('./program.ts');
  const env = { ...process.env };
  // Made absolute, for the daemon works elsewhere.
  if (env.AGENTCTL_HOME) env.AGENTCTL_HOME = resolve(env.AGENTCTL_HOME);
  const streams = { stdout: process.stdout, stderr: process.stderr };
  process.exitCode = await run(process.argv.slice(2), { env, version, streams, stdin: process.stdin });
}
