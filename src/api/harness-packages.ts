/** A harness that npm can install: the package, the version that was tried, and about how large it is on the disk. */
export interface HarnessPackage {
  package: string;
  version: string;
  program: string;
  megabytes: number;
  /** A script of the package that must be run once; no other script of any package is run. */
  setup?: string;
}

/** The harnesses that `agentctl harnesses install` knows, by id. They go into `<data>/harnesses/<id>/<version>`. */
export const harnessPackages: Readonly<Record<string, HarnessPackage>> = {
  claude: {
    package: '@agentclientprotocol/claude-agent-acp',
    version: '0.100.0',
    program: 'claude-agent-acp',
    megabytes: 391,
  },
  codex: { package: '@agentclientprotocol/codex-acp', version: '2.6.0', program: 'codex-acp', megabytes: 457 },
  gemini: { package: '@google/gemini-cli', version: '0.61.0', program: 'gemini', megabytes: 100 },
  opencode: {
    package: 'opencode-ai',
    version: '1.18.33',
    program: 'opencode',
    megabytes: 177,
    setup: 'postinstall.mjs',
  },
};
