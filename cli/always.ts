import type { InputRequest } from '../src/api/inputs.ts';
import { clean, cleanLine } from './text.ts';

/** What the answer “always” would allow, exactly, a sentence each; none where it is not offered. */
export function alwaysMeans({ options, grant }: Pick<InputRequest, 'options' | 'grant'>): string[] {
  const option = options.find(({ kind }) => kind === 'allow_always');
  if (!option) return [];
  const own = option.id.startsWith('agentctl:');
  return [
    ...(own ? [] : [`always, for this conversation, as the agent has it: ${cleanLine(option.label)}`]),
    ...(grant ? [`always, in this project, just this: ${cleanLine(grant.tool)}: ${clean(grant.pattern)}`] : []),
  ];
}
