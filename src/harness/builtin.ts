import type { HarnessRow } from './row.ts';

const quiet = { NO_BROWSER: '1', CI: '1', NO_COLOR: '1', TERM: 'dumb' };
const npm = (name: string): string => `npm install -g ${name}`;

/**
 * The harnesses that are known from the start. They use the login that the user has made with them, in the user's own home; a
 * row of the configuration with the same id takes a built-in one's place.
 */
export const builtinRows: readonly HarnessRow[] = [
  {
    id: 'shell',
    name: 'Shell',
    kind: 'shell',
    command: [],
    env: {},
    files: {},
    auth_method: null,
    modes: {},
    reports_cost: true,
    dialect: null,
    version_arguments: null,
    capabilities: { resume: false, input: false, mcp: false, usage: false, cost: true, models: false, sandbox: true },
    install_hint: null,
  },
  {
    id: 'claude',
    name: 'Claude Code',
    kind: 'acp',
    command: ['claude-agent-acp'],
    env: {
      ...quiet,
      ANTHROPIC_MODEL: '{{model}}',
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
      DISABLE_TELEMETRY: '1',
      DISABLE_ERROR_REPORTING: '1',
      DISABLE_AUTOUPDATER: '1',
      ENABLE_TOOL_SEARCH: 'false',
      CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION: 'false',
      CLAUDE_CODE_DISABLE_TERMINAL_TITLE: '1',
    },
    files: {},
    auth_method: null,
    modes: {},
    reports_cost: true,
    dialect: 'anthropic',
    version_arguments: ['--version'],
    capabilities: { resume: true, input: true, mcp: true, usage: true, cost: true, models: true, sandbox: true },
    install_hint: npm('@agentclientprotocol/claude-agent-acp'),
  },
  {
    id: 'codex',
    name: 'Codex',
    kind: 'acp',
    command: ['codex-acp'],
    env: { ...quiet, RUST_LOG: 'error', INITIAL_AGENT_MODE: 'agent' },
    files: {},
    auth_method: null,
    modes: { ask: 'read-only', accept_edits: 'agent', full: 'agent-full-access' },
    reports_cost: false,
    dialect: 'responses',
    version_arguments: ['--version'],
    capabilities: { resume: true, input: true, mcp: true, usage: true, cost: false, models: true, sandbox: true },
    install_hint: npm('@agentclientprotocol/codex-acp'),
  },
  {
    id: 'gemini',
    name: 'Gemini CLI',
    kind: 'acp',
    command: ['gemini', '--acp'],
    env: { ...quiet, GEMINI_MODEL: '{{model}}', GEMINI_CLI_TRUST_WORKSPACE: 'true' },
    files: {},
    auth_method: null,
    modes: {},
    reports_cost: false,
    dialect: 'gemini',
    version_arguments: ['--version'],
    // It can load a session, but not one of the same minute (gemini-cli#28775): it is told what was said instead.
    capabilities: { resume: false, input: true, mcp: true, usage: true, cost: false, models: true, sandbox: true },
    install_hint: npm('@google/gemini-cli'),
  },
  {
    id: 'opencode',
    name: 'OpenCode',
    kind: 'acp',
    command: ['opencode', 'acp'],
    env: {
      ...quiet,
      // Without this it edits and runs commands unasked, and the run's permission mode would mean nothing.
      OPENCODE_CONFIG_CONTENT: '{"share":"disabled","autoupdate":false,"permission":{"edit":"ask","bash":"ask"}}',
      OPENCODE_DISABLE_AUTOUPDATE: '1',
      OPENCODE_DISABLE_SHARE: '1',
      OPENCODE_DISABLE_LSP_DOWNLOAD: '1',
    },
    files: {},
    auth_method: null,
    modes: {},
    reports_cost: true,
    dialect: 'any',
    version_arguments: ['--version'],
    capabilities: { resume: true, input: true, mcp: true, usage: true, cost: true, models: true, sandbox: true },
    install_hint: npm('opencode-ai'),
  },
];
