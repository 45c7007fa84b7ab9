import { existsSync, readFileSync } from 'node:fs';
import { Ajv } from 'ajv';
import { parse } from 'smol-toml';
import { Type, type Static } from 'typebox';
import { ProviderSettings } from './config-providers.ts';
import { LoginSettings, SandboxSettings } from '../api/network.ts';

/** Signatures of tokens that need no shared secret (RFC 7518, RFC 8037). */
const signatures = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
] as const;

/** Every setting of config.toml, with its default: the published JSON Schema is this object. */
export const ConfigSchema = Type.Object(
  {
    default_harness: Type.Optional(Type.String({ description: 'The harness of a run that names none.' })),
    workspace_roots: Type.Array(Type.String({ pattern: '^/' }), {
      default: [],
      description:
        'Folders below which API keys and OAuth tokens, too, may work in directories and clone repositories; elsewhere only the local session may.',
    }),
    server: Type.Object(
      {
        port: Type.Integer({ minimum: 0, maximum: 65_535, default: 4788, description: '0 takes a free one.' }),
        hosts: Type.Array(Type.String(), {
          default: [],
          description: 'Host names to answer to, besides the loopback ones.',
        }),
        origins: Type.Array(Type.String(), {
          default: [],
          description: 'Web origins that may call, with CORS headers.',
        }),
        max_streams: Type.Integer({
          minimum: 1,
          default: 2_048,
          description: 'Event streams that may be open at once.',
        }),
      },
      { additionalProperties: false, default: {} },
    ),
    limits: Type.Object(
      {
        requests_per_minute: Type.Integer({
          minimum: 0,
          default: 6_000,
          description: 'Of one API key or user of an issuer; 0 for no limit. The local session has none.',
        }),
        streams: Type.Integer({
          minimum: 1,
          default: 256,
          description: 'Event streams that one API key or user of an issuer may have open at once.',
        }),
        waiting_requests: Type.Integer({
          minimum: 1,
          default: 1_024,
          description: 'Requests at work at once; more are told to come back later.',
        }),
        delay_ms: Type.Integer({
          minimum: 100,
          default: 2_000,
          description: 'When the daemon is later than this with everything, new requests are told to come back later.',
        }),
      },
      { additionalProperties: false, default: {} },
    ),
    credits: Type.Object(
      {
        usual_limit_micro_usd: Type.Integer({
          minimum: 1,
          maximum: 1_000_000_000_000,
          default: 1_000_000,
          description: 'The cost limit of a managed run that names none, where runs are paid ahead.',
        }),
        low_micro_usd: Type.Integer({
          minimum: 0,
          maximum: 1_000_000_000_000,
          default: 1_000_000,
          description: 'With less than this available, webhooks are told `credits.low`.',
        }),
      },
      { additionalProperties: false, default: {} },
    ),
    oauth: Type.Object(
      {
        issuers: Type.Array(
          Type.Object(
            {
              issuer: Type.String({ pattern: '^https?://', description: '`iss` of the tokens, letter for letter.' }),
              audience: Type.String({ minLength: 1, description: 'What `aud` of the tokens must hold.' }),
              jwks_url: Type.Optional(
                Type.String({ pattern: '^https?://', description: 'The key set; found by discovery when left out.' }),
              ),
              algorithms: Type.Array(Type.Enum([...signatures]), { minItems: 1, default: [...signatures] }),
            },
            { additionalProperties: false },
          ),
          {
            default: [],
            description: 'Whose JWT access tokens are taken; members are added by `agentctl orgs members add`.',
          },
        ),
      },
      { additionalProperties: false, default: {} },
    ),
    runs: Type.Object(
      {
        max_parallel: Type.Integer({
          minimum: 1,
          maximum: 1_000,
          default: 16,
          description: 'Runs at work at once; more wait.',
        }),
        timeout_seconds: Type.Integer({
          minimum: 1,
          maximum: 604_800,
          default: 86_400,
          description: 'For a run that names no limit.',
        }),
        max_output_bytes: Type.Integer({
          minimum: 1_048_576,
          default: 268_435_456,
          description: 'Output after which a run is failed.',
        }),
        grace_seconds: Type.Number({
          minimum: 0,
          maximum: 600,
          default: 10,
          description: 'Between SIGTERM and SIGKILL.',
        }),
        stall_seconds: Type.Integer({
          minimum: 0,
          maximum: 604_800,
          default: 900,
          description: 'A run that shows no sign of life for so long is warned of in its log; 0 for never.',
        }),
        stall_stop: Type.Boolean({ default: false, description: 'Whether such a run is ended (harness_stalled).' }),
        repeated_calls: Type.Integer({
          minimum: 0,
          default: 10,
          description: 'So many equal tool calls in a row are warned of in the run’s log; 0 for never.',
        }),
        repeated_calls_stop: Type.Boolean({ default: false, description: 'Whether such a run is ended.' }),
        warm_runners: Type.Integer({
          minimum: 0,
          maximum: 16,
          default: 1,
          description: 'Idle processes kept ready for the next run.',
        }),
      },
      { additionalProperties: false, default: {} },
    ),
    budgets: Type.Object(
      {
        organization_month_usd: Type.Optional(
          Type.Number({
            minimum: 0,
            description: 'What managed runs of an organization may cost in a calendar month (UTC).',
          }),
        ),
        project_month_usd: Type.Optional(Type.Number({ minimum: 0, description: 'The same for each project.' })),
      },
      { additionalProperties: false, default: {} },
    ),
    events: Type.Object(
      {
        retention_days: Type.Number({
          exclusiveMinimum: 0,
          default: 30,
          description: 'How long a finished run’s detailed history stays.',
        }),
        max_per_run: Type.Integer({
          minimum: 100,
          default: 1_000_000,
          description: 'Events kept per run; the oldest go first.',
        }),
      },
      { additionalProperties: false, default: {} },
    ),
    checkpoints: Type.Object(
      {
        exclude: Type.Array(Type.String({ minLength: 1 }), {
          default: [
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
          description:
            'Folders that can be built again: no checkpoint holds them and no restore touches them. Names, or paths from the workspace’s root when there is a slash in them.',
        }),
        max_files: Type.Integer({
          minimum: 1,
          default: 1_000_000,
          description: 'A tree with more files and links is not kept.',
        }),
        max_megabytes: Type.Integer({
          minimum: 1,
          default: 10_240,
          description: 'A larger tree is not kept.',
        }),
        retention_days: Type.Number({
          exclusiveMinimum: 0,
          maximum: 36_500,
          default: 30,
          description:
            'After which checkpoints that nobody asked for are removed: those around runs, restores and removals. A workspace’s newest stays, and so does what a run changed.',
        }),
      },
      { additionalProperties: false, default: {} },
    ),
    artifacts: Type.Object(
      {
        max_files: Type.Integer({
          minimum: 0,
          maximum: 10_000,
          default: 200,
          description: 'Files that a run may leave as artifacts; more are not kept.',
        }),
        max_file_megabytes: Type.Integer({
          minimum: 1,
          default: 256,
          description: 'A larger file is not kept as an artifact.',
        }),
        max_megabytes: Type.Integer({
          minimum: 1,
          default: 1_024,
          description: 'All such files of a run together; what comes after them is not kept.',
        }),
      },
      { additionalProperties: false, default: {} },
    ),
    webhooks: Type.Object(
      {
        allow_private: Type.Array(Type.String({ minLength: 1 }), {
          default: [],
          description:
            'Where webhooks may go on this machine and in private networks: names, addresses or networks, with or without a port, such as "127.0.0.1:5678", "n8n.lan", "10.0.0.0/8".',
        }),
      },
      { additionalProperties: false, default: {} },
    ),
    log: Type.Object(
      {
        level: Type.Enum(['debug', 'info', 'warn', 'error'], { default: 'info' }),
        max_megabytes: Type.Integer({ minimum: 1, default: 10, description: 'Size at which the log file is rotated.' }),
        keep: Type.Integer({ minimum: 1, default: 5, description: 'Rotated files that are kept.' }),
      },
      { additionalProperties: false, default: {} },
    ),
    sandbox: SandboxSettings,
    providers: ProviderSettings,
    harnesses: Type.Record(
      Type.String({ pattern: '^[a-z0-9][a-z0-9_-]{0,63}$' }),
      Type.Object(
        {
          name: Type.Optional(Type.String()),
          command: Type.Optional(
            Type.Array(Type.String(), {
              minItems: 1,
              description: 'argv of a program that speaks ACP on standard input and output.',
            }),
          ),
          env: Type.Optional(Type.Record(Type.String(), Type.String())),
          pass_env: Type.Optional(
            Type.Array(Type.String(), { description: 'Variables of the daemon’s own environment to pass on.' }),
          ),
          files: Type.Optional(Type.Record(Type.String(), Type.String())),
          auth_method: Type.Optional(Type.String()),
          login: Type.Optional(LoginSettings),
          reports_cost: Type.Optional(Type.Boolean()),
          dialect: Type.Optional(
            Type.Enum(['anthropic', 'responses', 'chat', 'gemini', 'any'], {
              description: 'The model interface that it speaks.',
            }),
          ),
          managed: Type.Optional(
            Type.Object(
              {
                env: Type.Optional(Type.Record(Type.String(), Type.String())),
                files: Type.Optional(Type.Record(Type.String(), Type.String())),
                auth_method: Type.Optional(Type.String()),
              },
              {
                additionalProperties: false,
                description: 'What is added to send its calls of models to {{gateway}}, with {{gateway_key}}.',
              },
            ),
          ),
        },
        { additionalProperties: false },
      ),
      {
        default: {},
        additionalProperties: false,
        description: 'More harnesses, or changes to the ones that come along.',
      },
    ),
  },
  { additionalProperties: false, title: 'agentctl configuration' },
);
export type Config = Static<typeof ConfigSchema>;
export type ProviderConfig = Config['providers'][string];
export type HarnessConfig = Config['harnesses'][string];

/** A configuration that cannot be used; the message is for a person. */
export class ConfigError extends Error {}

/** Reads config.toml (all defaults when there is none). Throws ConfigError naming file, setting and, if unknown, the nearest known one. */
export function readConfig(path: string): Config {
  let value: unknown = {};
  if (existsSync(path)) {
    try {
      value = parse(readFileSync(path, 'utf8'));
    } catch (error) {
      throw new ConfigError(`${path}: ${(error as Error).message}`);
    }
  }
  return checkConfig(value, path);
}

/** Fills in the defaults and checks; `path` is only for the message. */
export function checkConfig(value: unknown, path = 'config.toml'): Config {
  const validate = new Ajv({ useDefaults: true, strict: false, verbose: true }).compile<Config>(ConfigSchema);
  if (validate(value)) return value;
  const [error] = validate.errors ?? [];
  const where = (error?.instancePath ?? '').slice(1).replaceAll('/', '.');
  if (error?.keyword === 'additionalProperties') {
    const unknown = String(error.params.additionalProperty);
    const known = Object.keys((error.parentSchema as { properties?: object }).properties ?? {});
    const near = nearest(unknown, known);
    throw new ConfigError(
      `${path}: there is no setting "${where ? `${where}.` : ''}${unknown}"${near ? `; did you mean "${near}"?` : '.'}`,
    );
  }
  throw new ConfigError(`${path}: "${where || 'the file'}" ${error?.message ?? 'is not valid'}.`);
}

/** The known word with the fewest edits to the unknown one, if that is near enough to be meant. */
export function nearest(word: string, known: string[]): string | undefined {
  const distance = (a: string, b: string) => {
    let row = Array.from({ length: b.length + 1 }, (_, i) => i);
    for (const [i, x] of a.split('').entries()) {
      const next = [i + 1];
      for (const [j, y] of b.split('').entries())
        next.push(Math.min(next[j]! + 1, row[j + 1]! + 1, row[j]! + (x === y ? 0 : 1)));
      row = next;
    }
    return row.at(-1)!;
  };
  const [best] = known.map((name) => ({ name, cost: distance(word, name) })).sort((a, b) => a.cost - b.cost);
  return best && best.cost <= Math.max(2, word.length / 3) ? best.name : undefined;
}

/** Variables that any harness may have; the rest of the daemon's environment stays with the daemon. */
const passedOn = ['PATH', 'HOME', 'USER', 'LOGNAME', 'SHELL', 'LANG', 'LC_ALL', 'LC_CTYPE', 'TZ', 'TMPDIR'];

/** The clean environment of a harness, before its own row's additions. */
export function harnessEnvironment(
  env: Record<string, string | undefined>,
  more: string[] = [],
): Record<string, string> {
  const clean: Record<string, string> = {};
  for (const name of [...passedOn, ...more]) if (env[name] !== undefined) clean[name] = env[name];
  return clean;
}
