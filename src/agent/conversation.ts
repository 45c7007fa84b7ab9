import { appendFileSync, existsSync, mkdirSync, readFileSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import type { ModelMessage } from 'ai';

/** A line of the file. The latest `begin` is where the conversation starts for the model. */
type Line = { line: 'message'; provider: string; message: ModelMessage } | { line: 'begin'; messages: ModelMessage[] };

/** What a call that was never answered is said to have answered. */
const interrupted = '[This was interrupted; whether it took effect is not known.]';

/**
 * A conversation on disk: each message is there before the next thing is done, so that a process that is killed loses at most
 * what it was about to say.
 */
export class Conversation {
  readonly id: string;
  readonly #path: string;
  #messages: { provider: string | null; message: ModelMessage }[] = [];

  private constructor(folder: string, id: string) {
    this.id = id;
    this.#path = join(folder, `${id}.jsonl`);
  }

  /** A new one. */
  static begin(folder: string, id: string): Conversation {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    return new Conversation(folder, id);
  }

  /** One that was begun before; null when there is none of this id. */
  static find(folder: string, id: string): Conversation | null {
    if (!/^[\w-]{1,100}$/.test(id)) return null;
    const found = new Conversation(folder, id);
    if (!existsSync(found.#path)) return null;
    found.#read();
    return found;
  }

  #read(): void {
    const text = readFileSync(this.#path, 'utf8');
    // A line that was not finished is not there.
    const whole = text.slice(0, text.lastIndexOf('\n') + 1);
    if (whole.length < text.length) truncateSync(this.#path, Buffer.byteLength(whole));
    for (const line of whole.split('\n')) {
      if (line === '') continue;
      const entry = JSON.parse(line) as Line;
      if (entry.line === 'begin') this.#messages = entry.messages.map((message) => ({ provider: null, message }));
      else this.#messages.push(entry);
    }
    this.#answerOpenCalls();
  }

  /** A model does not take calls without answers; a process that was killed left some. */
  #answerOpenCalls(): void {
    const last = this.#messages.at(-1);
    const answered = last?.message.role === 'tool' ? last.message.content : [];
    const asked = last?.message.role === 'tool' ? this.#messages.at(-2) : last;
    if (!last || asked?.message.role !== 'assistant' || typeof asked.message.content === 'string') return;
    const done = new Set(answered.map((part) => (part.type === 'tool-result' ? part.toolCallId : '')));
    const open = asked.message.content.filter((part) => part.type === 'tool-call' && !done.has(part.toolCallId));
    if (open.length === 0) return;
    const content = open.flatMap((part) =>
      part.type === 'tool-call'
        ? [
            {
              type: 'tool-result' as const,
              toolCallId: part.toolCallId,
              toolName: part.toolName,
              output: { type: 'error-text' as const, value: interrupted },
            },
          ]
        : [],
    );
    this.add(asked.provider ?? '', { role: 'tool', content });
  }

  #append(line: Line): void {
    appendFileSync(this.#path, `${JSON.stringify(line)}\n`, { mode: 0o600 });
  }

  /** Adds a message that came from, or goes to, this provider. */
  add(provider: string, message: ModelMessage): void {
    this.#append({ line: 'message', provider, message });
    const last = this.#messages.at(-1);
    // Answers to calls of one turn are one message.
    if (message.role === 'tool' && last?.message.role === 'tool') {
      last.message = { role: 'tool', content: [...last.message.content, ...message.content] };
    } else this.#messages.push({ provider, message });
  }

  /** From here on these messages are the conversation. */
  restart(messages: ModelMessage[]): void {
    this.#append({ line: 'begin', messages });
    this.#messages = messages.map((message) => ({ provider: null, message }));
  }

  /** All messages for a model of this provider: what only another one understands, its thoughts and marks, is left out. */
  messages(provider: string): ModelMessage[] {
    return this.#messages.map((entry) => (entry.provider === provider ? entry.message : plain(entry.message)));
  }

  /** What was said in words, oldest first. */
  said(): { role: 'user' | 'assistant'; text: string }[] {
    return this.#messages.flatMap(({ message }) => {
      if (message.role !== 'user' && message.role !== 'assistant') return [];
      const { content } = message;
      const text =
        typeof content === 'string' ? content : content.map((part) => (part.type === 'text' ? part.text : '')).join('');
      return text === '' ? [] : [{ role: message.role, text }];
    });
  }
}

/** A message without a provider's own marks and thoughts. */
function plain(message: ModelMessage): ModelMessage {
  const { providerOptions: _marks, ...rest } = message;
  if (typeof rest.content === 'string' || rest.role === 'system') return rest as ModelMessage;
  const content = (rest.content as { type: string; providerOptions?: unknown }[])
    .filter(({ type }) => type !== 'reasoning' && type !== 'reasoning-file')
    .map(({ providerOptions: _own, ...part }) => part);
  return { ...rest, content } as unknown as ModelMessage;
}
