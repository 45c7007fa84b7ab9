import { type Tool, ToolError } from './tool.ts';

/** An entry of a plan, as ACP has it. */
export interface PlanEntry {
  content: string;
  priority: 'medium';
  status: 'pending' | 'in_progress' | 'completed';
}

/** The plan in a call's input. Throws ToolError when it is none. */
export function planOf(input: Record<string, unknown>): PlanEntry[] {
  if (!Array.isArray(input.items)) throw new ToolError('"items" must be a list.');
  return input.items.slice(0, 50).map((entry: unknown) => {
    const { text, status } = (entry ?? {}) as Record<string, unknown>;
    if (typeof text !== 'string' || text === '') throw new ToolError('Each item needs a "text".');
    const known = status === 'in_progress' || status === 'completed' ? status : 'pending';
    return { content: text.slice(0, 1000), priority: 'medium', status: known };
  });
}

/** `plan`: what is going to be done, for the person to see. */
export const plan: Tool = {
  name: 'plan',
  kind: 'think',
  description: 'Show the person the steps of longer work, and how far they are. Send the whole list each time.',
  schema: {
    properties: {
      items: {
        type: 'array',
        items: {
          type: 'object',
          properties: {
            text: { type: 'string' },
            status: { type: 'string', enum: ['pending', 'in_progress', 'completed'] },
          },
          required: ['text', 'status'],
          additionalProperties: false,
        },
      },
    },
    required: ['items'],
  },
  title: () => 'Plan',
  asks: false,
  async run(input) {
    planOf(input);
    return { text: 'The plan is shown.' };
  },
};
