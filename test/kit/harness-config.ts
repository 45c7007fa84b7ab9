import type { HarnessSettings } from '../../src/harness/registry.ts';

const table = (name: string, entries: Record<string, string> = {}): string[] => [
  `[${name}]`,
  ...Object.entries(entries).map(([key, value]) => `${JSON.stringify(key)} = ${JSON.stringify(value)}`),
];

/** The rows of config.toml that make an agent known, or change one that is. A row with a command reports its cost. */
export const harnessConfig = (id: string, { command, env, files, auth_method }: HarnessSettings): string =>
  [
    `[harnesses.${id}]`,
    ...(command ? [`command = ${JSON.stringify(command)}`, 'reports_cost = true'] : []),
    ...(auth_method ? [`auth_method = ${JSON.stringify(auth_method)}`] : []),
    ...table(`harnesses.${id}.env`, env),
    ...table(`harnesses.${id}.files`, files),
    '',
  ].join('\n');
