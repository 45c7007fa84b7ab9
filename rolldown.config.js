import { readFileSync } from 'node:fs';

// Everything is bundled for a fast start; packages with native code, worker threads or files of their own stay outside.
const outside = [
  'better-sqlite3',
  'pino',
  'pino-roll',
  '@fastify/swagger',
  '@fastify/swagger-ui',
  'react-devtools-core',
];
const { version } = JSON.parse(readFileSync('package.json', 'utf8'));

export default {
  input: {
    cli: 'cli/main.ts',
    daemon: 'daemon/main.ts',
    runner: 'src/runner/main.ts',
    agent: 'src/agent/main.ts',
    inside: 'src/runner/sandbox/inside.ts',
    scripted: 'src/agent/scripted/main.ts',
    client: 'src/api/client.ts',
    webhooks: 'src/api/signature.ts',
    'trees-worker': 'src/trees/worker.ts',
    'workspaces-watch': 'src/workspaces/watch.ts',
  },
  platform: 'node',
  external: outside.map((name) => new RegExp(`^${name}(/|$)`)),
  transform: {
    define: { 'process.env.NODE_ENV': '"production"', 'process.env.AGENTCTL_VERSION': JSON.stringify(version) },
  },
  output: {
    dir: 'dist',
    format: 'esm',
    sourcemap: true,
    entryFileNames: '[name].js',
    chunkFileNames: 'chunks/[name]-[hash].js',
    cleanDir: true,
  },
};
