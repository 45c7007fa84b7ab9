import type { PromptRequest } from '@agentclientprotocol/sdk/unstable';
import type { Clock } from '../base/clock.ts';
import { list, type Loose, record, text } from '../harness/loose.ts';
import { failure } from './acp-error.ts';
import type { Outcome } from './half.ts';
import type { RunSpec } from './protocol.ts';

/** How a conversation was taken up: where it was before, where it was replayed, and whether it knows its instructions. */
export interface Begun {
  session: Loose;
  resumed: boolean;
  loaded: boolean;
  told: boolean;
}

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
export const promptFor = ({ output_schema }: RunSpec, sessionId: string, words: string[]): PromptRequest => ({
  sessionId,
  prompt: words.map((text) => ({ type: 'text', text })),
  ...(output_schema === null ? {} : { _meta: { agentctl: { output_schema } } }),
});

/** The prompt with the conversation before it, for an agent that does not know it. */
function withTranscript(prompt: string, transcript: { role: 'user' | 'assistant'; text: string }[]): string {
  if (transcript.length === 0) return prompt;
  const said = transcript.map(({ role, text: words }) => `<${role}>\n${words}\n</${role}>`).join('\n');
  return `This is what was said in our conversation so far:\n\n<conversation>\n${said}\n</conversation>\n\nNow:\n\n${prompt}`;
}

/** The first prompt that an agent gets of a conversation; `told` is whether it has been told its instructions in their own place. */
export function withBeginning(prompt: string, { transcript, instructions }: RunSpec, told: boolean): string {
  const said = withTranscript(prompt, transcript);
  if (instructions === null || told) return said;
  return `These instructions are for the whole of our conversation:\n\n<instructions>\n${instructions}\n</instructions>\n\n${said}`;
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

/** A session that was loaded is replayed, by some after the answer: the prompt waits for so much silence, and no longer than that. */
const silence = 300;
const replayWithin = 10_000;

/** Waits until a loaded session's replay is through: what comes before the prompt is the past. `last` is when something came. */
export async function untilQuiet(clock: Clock, last: () => number): Promise<void> {
  const since = clock.monotonic();
  for (;;) {
    const now = clock.monotonic();
    const due = last() + silence - now;
    if (due <= 0 || now - since > replayWithin) return;
    await new Promise<void>((resolve) => clock.timer(due, resolve));
  }
}
