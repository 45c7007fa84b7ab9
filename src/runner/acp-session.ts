import type { PromptRequest } from '@agentclientprotocol/sdk/unstable';
import type { Clock } from '../base/clock.ts';
import { list, record, text } from '../harness/loose.ts';
import { failure } from './acp-error.ts';
import type { Outcome } from './half.ts';
import type { RunSpec } from './protocol.ts';

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

/** What a prompt's `stopReason` means. */
export function outcomeOf(stopReason: string): Outcome {
  switch (stopReason) {
    case 'max_turn_requests':
      return failure('The agent stopped at its own limit of turns.', { reason: 'turn_limit' }, 'turn_limit');
    case 'cancelled':
      return { status: 'cancelled' };
    default:
      return { status: 'completed' };
  }
}

/** A prompt. The form of the answer is told to an agent that can see to it by itself, beside the words that every one is told. */
export const promptFor = ({ output_schema }: RunSpec, sessionId: string, words: string): PromptRequest => ({
  sessionId,
  prompt: [{ type: 'text', text: words }],
  ...(output_schema === null ? {} : { _meta: { agentctl: { output_schema } } }),
});

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
