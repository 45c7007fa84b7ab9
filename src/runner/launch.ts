import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, resolve, sep } from 'node:path';
import type { RunSpec } from './protocol.ts';

type Fill = (template: string) => string;

/** Inside JSON and TOML texts a value must not end its string. */
const quotable = (template: string, name = ''): boolean =>
  /^\s*[{[]/.test(template) || /\.(json|jsonc|toml)$/.test(name);

/** Fills `{{model}}`, `{{home}}` and `{{workspace}}` in; unknown names stay as they are. */
function filler(spec: RunSpec): (name?: string) => Fill {
  const values: Record<string, string> = {
    model: spec.model ?? '',
    home: spec.session_folder,
    workspace: spec.workspace.path,
  };
  return (name) => (template) => {
    const quoted = quotable(template, name);
    return template.replaceAll(/\{\{(model|home|workspace)\}\}/g, (_, key: string) => {
      const value = values[key] ?? '';
      return quoted ? JSON.stringify(value).slice(1, -1) : value;
    });
  };
}

/** The environment that the launch row adds. An entry that is nothing but `{{model}}` is left out when there is no model. */
export function launchEnvironment(spec: RunSpec): Record<string, string> {
  const fill = filler(spec)();
  const entries = Object.entries(spec.harness.env).filter(([, value]) => value !== '{{model}}' || spec.model !== null);
  return Object.fromEntries(entries.map(([name, value]) => [name, fill(value)]));
}

/** The command line with its templates filled in. */
export function launchCommand(spec: RunSpec): string[] {
  return spec.harness.command.map(filler(spec)());
}

/** Writes the files of the launch row below the session's private folder, mode 0600. Throws for a path that leads out of it. */
export function writeLaunchFiles(spec: RunSpec): void {
  const fill = filler(spec);
  for (const [name, text] of Object.entries(spec.harness.files)) {
    const path = resolve(spec.session_folder, fill()(name));
    if (!path.startsWith(spec.session_folder + sep))
      throw new Error(`The file ${name} would stand outside of the session's folder.`);
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    writeFileSync(path, fill(name)(text), { mode: 0o600 });
  }
}
