import { failure } from './acp-error.ts';
import type { AnswerForm, Misfit } from './answer-form.ts';
import type { Outcome } from './half.ts';

const misfit = (misfits: Misfit[]): Outcome =>
  failure('The final answer does not fit the schema that was asked for.', { reason: 'output_schema', errors: misfits });

/** The form in a schema; loaded only where one is wanted. */
const formOf = async (schema: object): Promise<AnswerForm> => {
  const { AnswerForm: Form } = await import('./answer-form.ts');
  return new Form(schema);
};

/**
 * Prompts an agent. Where the answer must have a form, it is asked for in words and checked; one that does not fit is asked for
 * once more in the same session.
 */
export async function answering(
  schema: object | null,
  prompt: string,
  agent: { ask(...words: string[]): Promise<Outcome>; text(): string | null; log(sentence: string): void },
): Promise<Outcome> {
  if (!schema) return agent.ask(prompt);
  const form = await formOf(schema);
  let words = [prompt, form.words];
  for (let attempt = 1; ; attempt++) {
    const outcome = await agent.ask(...words);
    if (outcome.status !== 'completed') return outcome;
    const read = form.read(agent.text());
    if ('value' in read) return { status: 'completed', structured_output: read };
    if (attempt === 2) return misfit(read.misfits);
    agent.log('The final answer does not fit the schema that was asked for; the agent is asked for it once more.');
    words = [form.again(read.misfits)];
  }
}

/** The outcome of a program that said this and is gone: it cannot be asked again. */
export async function answered(schema: object | null, outcome: Outcome, text: string): Promise<Outcome> {
  if (!schema || outcome.status !== 'completed') return outcome;
  const read = (await formOf(schema)).read(text);
  return 'value' in read ? { status: 'completed', structured_output: read } : misfit(read.misfits);
}
