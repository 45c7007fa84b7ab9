/** The config.toml rows that make an ACP agent known as a harness. */
export const harnessConfig = (id: string, { command, env }: { command: string[]; env: Record<string, string> }): string =>
  [
    `[harnesses.${id}]`,
    `command = ${JSON.stringify(command)}`,
    'reports_cost = true',
    `[harnesses.${id}.env]`,
    ...Object.entries(env).map(([name, value]) => `${name} = ${JSON.stringify(value)}`),
    '',
  ].join('\n');
