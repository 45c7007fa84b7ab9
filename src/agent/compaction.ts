import type { ModelMessage } from 'ai';

/** Characters that are about one token. */
const perToken = 3.5;
/** The latest answers of tools that stay whole. */
const keptAnswers = 12;
/** Characters up to which an old answer is left as it is. */
const shortAnswer = 500;

/** How many tokens a conversation is likely to have. */
export const estimate = (messages: readonly ModelMessage[]): number =>
  Math.ceil(JSON.stringify(messages).length / perToken);

/** The same conversation with old, long answers of tools taken out, and how many that were. */
export function withoutOldAnswers(messages: readonly ModelMessage[]): { messages: ModelMessage[]; removed: number } {
  const answers = messages.flatMap((message) => (message.role === 'tool' ? message.content : []));
  const old = new Set(answers.slice(0, -keptAnswers));
  let removed = 0;
  const shorter = messages.map((message): ModelMessage => {
    if (message.role !== 'tool') return message;
    const content = message.content.map((part) => {
      if (part.type !== 'tool-result' || !old.has(part)) return part;
      const { length } = JSON.stringify(part.output);
      if (length <= shortAnswer) return part;
      removed += 1;
      const value = `[${length} characters were taken out to save room; call the tool again if they are needed]`;
      return { ...part, output: { type: 'text' as const, value } };
    });
    return { ...message, content };
  });
  return { messages: shorter, removed };
}

/** What the model is asked so that a conversation can go on from a summary. */
export const summaryPrompt = `Our conversation is about to be cut to save room; only your next message will be left of it. Write down all that is needed to go on: what I asked for, in my words where they matter; what was decided and why; which files were read, made or changed, and how; what commands and checks showed; what is still to do. No tools, no ceremony.`;

/** The beginning of the conversation that takes the old one's place. */
export const summarised = (summary: string): ModelMessage[] => [
  {
    role: 'user',
    content: `This is your own record of our conversation so far, which was cut to save room:\n\n${summary}`,
  },
  { role: 'assistant', content: 'I go on from there.' },
];

/** The conversation with its first half left out, for want of a better way: from the first message of the person after that. */
export function latterHalf(messages: readonly ModelMessage[]): ModelMessage[] {
  const starts = messages.flatMap((message, index) => (message.role === 'user' ? [index] : []));
  const from = starts.find((index) => index >= messages.length / 2) ?? starts.at(-1) ?? 0;
  return messages.slice(from);
}
