import { execFile } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { ProviderAccess } from '../../src/providers/access.ts';
import type { HarnessSettings } from '../../src/harness/registry.ts';

const root = fileURLToPath(new URL('../../node_modules/.cache/agents', import.meta.url));

/** A real agent, pinned, and how it is told to use a model server of ours. */
export interface RealAgent {
  id: string;
  package: string;
  version: string;
  program: string;
  model: string;
  /** The providers that it can be sent to through a gateway, each with a model that has a price. */
  providers: { kind: ProviderAccess['kind']; model: string }[];
  /** What the configuration row must add for the model server at `url`; `{{home}}` is private to the session. */
  settings(url: string): HarnessSettings;
}

const home = {
  HOME: '{{home}}',
  XDG_CONFIG_HOME: '{{home}}/.config',
  XDG_DATA_HOME: '{{home}}/.local/share',
  XDG_STATE_HOME: '{{home}}/.local/state',
  XDG_CACHE_HOME: '{{home}}/.cache',
};

export const realAgents: readonly RealAgent[] = [
  {
    id: 'gemini',
    package: '@google/gemini-cli',
    version: '0.61.0',
    program: 'gemini',
    model: 'gemini-2.5-flash',
    providers: [{ kind: 'google', model: 'gemini-2.5-flash' }],
    settings: (url) => ({
      env: { ...home, GEMINI_API_KEY: 'x', GOOGLE_GEMINI_BASE_URL: url, GEMINI_CLI_HOME: '{{home}}' },
      files: {
        '.gemini/settings.json': JSON.stringify({
          security: { auth: { selectedType: 'gemini-api-key' } },
          privacy: { usageStatisticsEnabled: false },
          telemetry: { enabled: false },
          general: { disableAutoUpdate: true },
          model: { name: '{{model}}' },
        }),
      },
      auth_method: 'gemini-api-key',
    }),
  },
  {
    id: 'opencode',
    package: 'opencode-ai',
    version: '1.18.33',
    program: 'opencode',
    model: 'fake/fake-model',
    providers: [
      { kind: 'openai', model: 'gpt-5.5' },
      { kind: 'anthropic', model: 'claude-sonnet-4-5' },
      { kind: 'google', model: 'gemini-2.5-flash' },
    ],
    settings: (url) => ({
      env: {
        ...home,
        OPENCODE_DISABLE_MODELS_FETCH: '1',
        OPENCODE_DISABLE_DEFAULT_PLUGINS: '1',
        OPENCODE_CONFIG_CONTENT: JSON.stringify({
          model: '{{model}}',
          small_model: '{{model}}',
          share: 'disabled',
          autoupdate: false,
          permission: { edit: 'ask', bash: 'ask' },
          provider: {
            fake: {
              npm: '@ai-sdk/openai-compatible',
              options: { baseURL: `${url}/v1`, apiKey: 'x' },
              models: { 'fake-model': { cost: { input: 3, output: 15 }, limit: { context: 200_000, output: 8192 } } },
            },
          },
        }),
      },
    }),
  },
  {
    id: 'codex',
    package: '@agentclientprotocol/codex-acp',
    version: '2.6.0',
    program: 'codex-acp',
    model: 'gpt-5.5',
    providers: [{ kind: 'openai', model: 'gpt-5.5' }],
    settings: (url) => ({
      env: { ...home, CODEX_HOME: '{{home}}/.codex', OPENAI_API_KEY: 'x', MODEL_PROVIDER: 'fake' },
      files: {
        '.codex/config.toml': [
          'model = "{{model}}"',
          'model_provider = "fake"',
          'check_for_update_on_startup = false',
          '[model_providers.fake]',
          'name = "fake"',
          `base_url = "${url}/v1"`,
          'wire_api = "responses"',
          'env_key = "OPENAI_API_KEY"',
          'request_max_retries = 1',
          'stream_max_retries = 1',
          '[features]',
          'plugins = false',
          'apps = false',
          '[analytics]',
          'enabled = false',
          '',
        ].join('\n'),
      },
    }),
  },
  {
    id: 'claude',
    package: '@agentclientprotocol/claude-agent-acp',
    version: '0.100.0',
    program: 'claude-agent-acp',
    model: 'claude-sonnet-4-5',
    providers: [{ kind: 'anthropic', model: 'claude-sonnet-4-5' }],
    settings: (url) => ({
      env: {
        ...home,
        ANTHROPIC_BASE_URL: url,
        ANTHROPIC_API_KEY: 'x',
        CLAUDE_CONFIG_DIR: '{{home}}/.claude',
        IS_SANDBOX: '1',
      },
    }),
  },
];

/** The folder with the agent's program, installed from the registry when it is not there yet; a sentence when that is refused. */
export async function installed(agent: RealAgent): Promise<{ path: string } | { missing: string }> {
  const folder = join(root, `${agent.id}-${agent.version}`);
  const path = join(folder, 'node_modules', '.bin');
  if (existsSync(join(path, agent.program))) return { path };
  mkdirSync(folder, { recursive: true });
  const args = [
    'install',
    '--prefix',
    folder,
    '--no-audit',
    '--no-fund',
    '--loglevel=error',
    `${agent.package}@${agent.version}`,
  ];
  try {
    await promisify(execFile)('npm', args, { timeout: 170_000 });
  } catch (error) {
    return { missing: `${agent.package} could not be installed: ${(error as Error).message.slice(0, 500)}` };
  }
  return existsSync(join(path, agent.program))
    ? { path }
    : { missing: `${agent.package} brought no ${agent.program}.` };
}
