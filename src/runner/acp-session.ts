import type { Clock } from '../base/clock.ts';
import { list, type Loose, record, text } from '../harness/loose.ts';

type Options = { id: string; category: string | null; current: string | null; values: string[] }[];

/** The config options of a session as far as they matter here. */
export const optionsIn = (raw: unknown): Options =>
  list(raw).flatMap((entry) => {
    const option = record(entry);
    const id = text(option?.id);
    if (id === null) return [];
    const values = list(option?.options).flatMap((value) => {
      const one = record(value);
      const group = list(one?.options).map((inner) => text(record(inner)?.value));
      return [text(one?.value), ...group].filter((found) => found !== null);
    });
    return { id, category: text(option?.category), current: text(option?.currentValue), values };
  });

/**
 * What a session's request says of instructions (ACP's `systemPrompt`, unstable): they come after the agent's own, each time the
 * session is set up. Null where there are none, or the agent has no place for them.
 */
export function systemPrompt(capabilities: Loose, instructions: string | null): object | null {
  if (instructions === null || !record(record(capabilities.sessionCapabilities)?.systemPrompt)) return null;
  return { systemPrompt: { mode: 'append', content: [{ type: 'text', text: instructions }] } };
}

/** The first prompt of a conversation with an agent that has no place of its own for instructions. */
export function withInstructions(prompt: string, instructions: string | null): string {
  if (instructions === null) return prompt;
  return `These instructions are for the whole of our conversation:\n\n<instructions>\n${instructions}\n</instructions>\n\n${prompt}`;
}

/** The prompt with the conversation before it, for an agent that does not know it. */
export function withTranscript(prompt: string, transcript: { role: 'user' | 'assistant'; text: string }[]): string {
  if (transcript.length === 0) return prompt;
  const said = transcript.map(({ role, text: words }) => `<${role}>\n${words}\n</${role}>`).join('\n');
  return `This is what was said in our conversation so far:\n\n<conversation>\n${said}\n</conversation>\n\nNow:\n\n${prompt}`;
}

/** What is promised, or an error with this sentence after `ms`. */
export async function within<T>(clock: Clock, ms: number, promise: Promise<T>, sentence: string): Promise<T> {
  let cancel = () => {};
  const late = new Promise<never>((_, reject) => {
    cancel = clock.timer(ms, () => reject(new Error(sentence)));
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    cancel();
  }
}
