import type { HarnessRow } from './row.ts';

/** All that a program keeps of its own stands in the session's private folder: no login, history or setting of the user. */
const home = {
  HOME: '{{home}}',
  XDG_CONFIG_HOME: '{{home}}/.config',
  XDG_DATA_HOME: '{{home}}/.local/share',
  XDG_STATE_HOME: '{{home}}/.local/state',
  XDG_CACHE_HOME: '{{home}}/.cache',
};

/** What the built-in harnesses need to send their calls through the run's gateway. */
export const managed: Record<string, NonNullable<HarnessRow['managed']>> = {
  builtin: {
    env: {
      AGENTCTL_MODEL: '{{kind}}/{{model}}',
      AGENTCTL_GATEWAY: '{{gateway}}',
      AGENTCTL_GATEWAY_KEY: '{{gateway_key}}',
    },
    files: {},
    auth_method: null,
  },
  claude: {
    env: {
      ...home,
      ANTHROPIC_BASE_URL: '{{gateway}}',
      ANTHROPIC_API_KEY: '{{gateway_key}}',
      CLAUDE_CONFIG_DIR: '{{home}}/.claude',
      // It does not work for root without being asked otherwise.
      IS_SANDBOX: '1',
    },
    files: {},
    auth_method: null,
  },
  codex: {
    env: { ...home, CODEX_HOME: '{{home}}/.codex', OPENAI_API_KEY: '{{gateway_key}}', MODEL_PROVIDER: 'gw' },
    files: {
      '.codex/config.toml': [
        'model = "{{model}}"',
        'model_provider = "gw"',
        'check_for_update_on_startup = false',
        '[model_providers.gw]',
        'name = "agentctl"',
        'base_url = "{{gateway}}/v1"',
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
    auth_method: null,
  },
  gemini: {
    env: {
      ...home,
      GEMINI_API_KEY: '{{gateway_key}}',
      GOOGLE_GEMINI_BASE_URL: '{{gateway}}',
      GEMINI_CLI_HOME: '{{home}}',
    },
    files: {
      '.gemini/settings.json': JSON.stringify({
        security: { auth: { selectedType: 'gemini-api-key' } },
        privacy: { usageStatisticsEnabled: false },
        telemetry: { enabled: false },
        general: { disableAutoUpdate: true },
      }),
    },
    auth_method: 'gemini-api-key',
  },
  opencode: {
    env: {
      ...home,
      OPENCODE_DISABLE_MODELS_FETCH: '1',
      OPENCODE_DISABLE_DEFAULT_PLUGINS: '1',
      OPENCODE_CONFIG_CONTENT: JSON.stringify({
        model: 'gw/{{model}}',
        small_model: 'gw/{{model}}',
        enabled_providers: ['gw'],
        share: 'disabled',
        autoupdate: false,
        permission: { edit: 'ask', bash: 'ask' },
        provider: {
          gw: {
            npm: '{{ai_sdk}}',
            options: { baseURL: '{{gateway_api}}', apiKey: '{{gateway_key}}' },
            models: { '{{model}}': {} },
          },
        },
      }),
    },
    files: {},
    auth_method: null,
  },
};
