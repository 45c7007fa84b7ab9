import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import {
  checkConfig,
  type Config,
  ConfigError,
  harnessEnvironment,
  nearest,
  readConfig,
} from '../../../src/base/config.ts';

const defaults: Config = {
  workspace_roots: [],
  server: { port: 4788, hosts: [], origins: [], max_streams: 2_048 },
  runs: {
    max_parallel: 16,
    timeout_seconds: 86_400,
    max_output_bytes: 268_435_456,
    grace_seconds: 10,
    warm_runners: 1,
    stall_seconds: 900,
    stall_stop: false,
    repeated_calls: 10,
    repeated_calls_stop: false,
  },
  budgets: {},
  events: { retention_days: 30, max_per_run: 1_000_000 },
  checkpoints: {
    exclude: [
      'node_modules',
      '.venv',
      '__pycache__',
      '.pytest_cache',
      '.mypy_cache',
      '.ruff_cache',
      '.tox',
      '.gradle',
      '.next',
      '.nuxt',
      '.turbo',
      '.parcel-cache',
    ],
    max_files: 1_000_000,
    max_megabytes: 10_240,
    retention_days: 30,
  },
  artifacts: { max_files: 200, max_file_megabytes: 256, max_megabytes: 1_024 },
  webhooks: { allow_private: [] },
  log: { level: 'info', max_megabytes: 10, keep: 5 },
  limits: { requests_per_minute: 6_000, streams: 256, waiting_requests: 1_024, delay_ms: 2_000 },
  oauth: { issuers: [] },
  credits: { usual_limit_micro_usd: 1_000_000, low_micro_usd: 1_000_000 },
  sandbox: { network: checkConfig({}).sandbox.network, unavailable: 'refuse' },
  providers: {},
  harnesses: {},
};

const complaint = (value: unknown): string => {
  try {
    checkConfig(value, '/etc/config.toml');
  } catch (error) {
    if (error instanceof ConfigError) return error.message;
    throw error;
  }
  return 'none';
};

function withFile<T>(text: string, use: (path: string) => T): T {
  const folder = mkdtempSync(join(tmpdir(), 'agentctl-config-'));
  try {
    const path = join(folder, 'config.toml');
    writeFileSync(path, text);
    return use(path);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

test('every setting has a default', () => {
  expect(checkConfig({})).toMatchObject(defaults);
});

test('a missing file is all defaults', () => {
  expect(readConfig('/nonexistent/config.toml')).toMatchObject(defaults);
});

test('a file sets what it names and leaves the rest', () => {
  const config = withFile('[server]\nport = 0\n[harnesses.mine]\ncommand = ["mine", "--acp"]\n', readConfig);
  expect(config).toMatchObject({
    ...defaults,
    server: { ...defaults.server, port: 0 },
    harnesses: { mine: { command: ['mine', '--acp'] } },
  });
});

test('two configurations share nothing', () => {
  checkConfig({}).server.hosts.push('example.org');
  expect(checkConfig({}).server.hosts).toEqual([]);
});

test.each([
  ['a section', { servr: {} }, ['"servr"', 'did you mean "server"']],
  ['a setting of a section', { server: { prot: 1 } }, ['"server.prot"', 'did you mean "port"']],
  [
    'a setting with several typing errors',
    { runs: { max_paralel: 3 } },
    ['"runs.max_paralel"', 'did you mean "max_parallel"'],
  ],
  [
    'a setting of a harness',
    { harnesses: { mine: { comand: ['x'] } } },
    ['"harnesses.mine.comand"', 'did you mean "command"'],
  ],
  ['a setting like no other', { server: { frobnicate: 1 } }, ['"server.frobnicate"']],
])('an unknown one is an error naming the nearest known: %s', (_name, value, parts) => {
  const message = complaint(value);
  for (const part of ['/etc/config.toml', ...parts]) expect(message).toContain(part);
  expect(message.includes('did you mean')).toBe(parts.some((part) => part.startsWith('did')));
});

test.each([
  ['a port that is none', { server: { port: 65_536 } }, 'server.port'],
  ['a number in quotation marks', { server: { port: '4788' } }, 'server.port'],
  ['a level that is none', { log: { level: 'loud' } }, 'log.level'],
  ['too few events', { events: { max_per_run: 99 } }, 'events.max_per_run'],
  ['no retention at all', { events: { retention_days: 0 } }, 'events.retention_days'],
  ['an empty command', { harnesses: { mine: { command: [] } } }, 'harnesses.mine.command'],
])('a value that cannot be is an error naming the setting: %s', (_name, value, setting) => {
  expect(complaint(value)).toContain(`"${setting}"`);
});

test('a harness id that could not stand in a path or a URL is refused', () => {
  for (const id of ['Mine', '../mine', 'a b', '', '-a', 'a'.repeat(65)])
    expect(complaint({ harnesses: { [id]: {} } })).not.toBe('none');
});

test('a file that is no TOML is an error naming the file', () => {
  withFile('port 4788', (path) => {
    expect(() => readConfig(path)).toThrow(ConfigError);
    expect(() => readConfig(path)).toThrow(path);
  });
});

test('the nearest word is only named when it is near', () => {
  expect(nearest('prot', ['port', 'hosts'])).toBe('port');
  expect(nearest('port', [])).toBeUndefined();
  expect(nearest('frobnicate', ['port', 'hosts'])).toBeUndefined();
});

test('a harness gets a fixed list of variables and those that are passed on, never the rest', () => {
  const env = {
    PATH: '/bin',
    HOME: '/home/me',
    AGENTCTL_TOKEN: 'ags_x',
    AWS_SECRET_ACCESS_KEY: 'x',
    MINE: '1',
    LANG: undefined,
  };
  expect(harnessEnvironment(env)).toEqual({ PATH: '/bin', HOME: '/home/me' });
  expect(harnessEnvironment(env, ['MINE', 'NOT_SET'])).toEqual({ PATH: '/bin', HOME: '/home/me', MINE: '1' });
});
