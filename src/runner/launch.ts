import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve, sep } from 'node:path';
import type { ProviderKind } from '../providers/access.ts';
import type { RunSpec } from './protocol.ts';

type Fill = (template: string) => string;

/** Inside JSON and TOML texts a value must not end its string. */
const quotable = (template: string, name = ''): boolean =>
  /^\s*[{[]/.test(template) || /\.(json|jsonc|toml)$/.test(name);

const sdks: Record<ProviderKind, string> = {
  anthropic: '@ai-sdk/anthropic',
  openai: '@ai-sdk/openai',
  google: '@ai-sdk/google',
  openai_compatible: '@ai-sdk/openai-compatible',
};

/** How a run's harness is started: its row with the templates filled in. `gateway` is where it finds the run's gateway, if it has one. */
export class Launch {
  readonly #spec: RunSpec;
  readonly #values: Record<string, string>;
  readonly #model: string | null;

  private constructor(spec: RunSpec, gateway: string | null) {
    this.#spec = spec;
    this.#model = spec.gateway ? spec.gateway.model : spec.model;
    this.#values = { model: this.#model ?? '', home: spec.session_folder, workspace: spec.workspace.path };
    if (!spec.gateway || gateway === null) return;
    const { key, provider } = spec.gateway;
    Object.assign(this.#values, {
      gateway,
      gateway_api: `${gateway}/${provider.kind === 'google' ? 'v1beta' : 'v1'}`,
      gateway_key: key,
      kind: provider.kind,
      ai_sdk: sdks[provider.kind],
    });
  }

  /** Writes the row's files and answers how to start it. Throws for a file that would stand outside of the session's folder. */
  static prepare(spec: RunSpec, gateway: string | null): Launch {
    const launch = new Launch(spec, gateway);
    launch.#writeFiles();
    return launch;
  }

  #fill(name?: string): Fill {
    return (template) => {
      const quoted = quotable(template, name);
      return template.replaceAll(/\{\{(\w+)\}\}/g, (whole, key: string) => {
        const value = this.#values[key] ?? whole;
        return quoted ? JSON.stringify(value).slice(1, -1) : value;
      });
    };
  }

  /** Unknown names stay as they are. An entry that is nothing but `{{model}}`, or the provider's, is left out when there is no model. */
  environment(): Record<string, string> {
    const { harness, gateway, env } = this.#spec;
    const all = { ...harness.env, ...(gateway && harness.managed?.env) };
    const isUseless = (value: string): boolean =>
      this.#model === null && /^(\{\{kind\}\}\/)?\{\{model\}\}$/.test(value);
    const filled = Object.fromEntries(
      Object.entries(all)
        .filter(([, value]) => !isUseless(value))
        .map(([name, value]) => [name, this.#fill()(value)]),
    );
    // With a home of its own, git would not know who the user is.
    const names = join(env.HOME ?? '/', '.gitconfig');
    const isAway = filled.HOME !== undefined && filled.HOME !== env.HOME;
    return isAway && existsSync(names) ? { GIT_CONFIG_GLOBAL: names, ...filled } : filled;
  }

  /** The command line. */
  command(): string[] {
    return this.#spec.harness.command.map(this.#fill());
  }

  /** What to call with `authenticate`; null for nothing. */
  get authMethod(): string | null {
    const { harness, gateway } = this.#spec;
    return (gateway && harness.managed?.auth_method) ?? harness.auth_method;
  }

  /**
   * Writes the files below the session's private folder, mode 0600. A line of a TOML file that needs a model is left out when
   * there is none.
   */
  #writeFiles(): void {
    const { harness, gateway, session_folder } = this.#spec;
    for (const [name, text] of Object.entries({ ...harness.files, ...(gateway && harness.managed?.files) })) {
      const path = resolve(session_folder, this.#fill()(name));
      if (!path.startsWith(session_folder + sep))
        throw new Error(`The file ${name} would stand outside of the session's folder.`);
      const lines = text.split('\n');
      const isKept = (line: string) => this.#model !== null || !name.endsWith('.toml') || !line.includes('{{model}}');
      mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
      writeFileSync(path, this.#fill(name)(lines.filter(isKept).join('\n')), { mode: 0o600 });
    }
  }
}
