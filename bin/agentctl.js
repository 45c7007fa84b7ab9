#!/usr/bin/env node
// Plain JavaScript that parses on any Node: hands over to a new enough one when this one is too old, before any import
// that would crash on it.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import module from 'node:module';
import { fileURLToPath } from 'node:url';

const [major, minor] = process.versions.node.split('.').map(Number);
if (major > 22 || (major === 22 && minor >= 22)) {
  if (module.enableCompileCache) module.enableCompileCache();
  const program = process.argv[2] === 'serve' && !process.argv.includes('--help') ? 'daemon' : 'cli';
  const entry = new URL(`../dist/${program}.js`, import.meta.url);
  if (existsSync(entry)) await import(entry.href);
  else {
    process.stderr.write('agentctl is not built yet. Run `npm ci` (or `npm run build`) in its folder first.\n');
    process.exitCode = 1;
  }
} else {
  const candidates = [
    process.env.AGENTCTL_NODE,
    fileURLToPath(new URL('../node_modules/node/bin/node', import.meta.url)),
  ];
  const node = candidates.find((path) => path && existsSync(path));
  if (node) {
    const child = spawn(node, [fileURLToPath(import.meta.url), ...process.argv.slice(2)], { stdio: 'inherit' });
    // The terminal sends its signals to the whole group, so the child has them already; only a kill aimed at us is passed on.
    for (const signal of ['SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
    process.on('SIGINT', () => {});
    child.on('exit', (code, signal) => {
      if (!signal) process.exit(code === null ? 1 : code);
      process.removeAllListeners(signal);
      process.kill(process.pid, signal);
    });
  } else {
    process.stderr.write(
      `agentctl needs Node.js 22.22 or newer and this is ${process.versions.node}. Install a newer one, or set AGENTCTL_NODE to its path.\n`,
    );
    process.exitCode = 1;
  }
}
