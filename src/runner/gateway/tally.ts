import { pushed } from '../../api/sse.ts';
import type { Dialect } from '../../api/usage.ts';
import { list, type Loose, record, text } from '../../harness/loose.ts';
import { messageIn } from './dialect.ts';

/** What an answer of a model said about itself. */
export interface Reading {
  /** The provider's figures in its own form, as a body that has them; null when it gave none. */
  body: Loose | null;
  /** The figures are final: the answer came to its end. */
  whole: boolean;
  /** An error that came in the stream of an answer that had begun well. */
  error: string | null;
  /** Characters that the model has written so far. */
  written: number;
}

/** Bytes of a whole answer (not a stream) that are kept to be read. */
const longestBody = 64 * 1_048_576;

const lengthOf = (value: unknown): number => text(value)?.length ?? 0;

/** Characters of a Gemini answer's parts. */
const partsLength = (body: Loose): number => {
  const parts = list(record(record(list(body.candidates)[0])?.content)?.parts);
  return parts.reduce<number>((sum, part) => {
    const call = record(part)?.functionCall;
    return sum + lengthOf(record(part)?.text) + (call === undefined ? 0 : JSON.stringify(call).length);
  }, 0);
};

/** Reads what a model answers while it passes by, byte by byte as it came, and never changes it. */
export class Tally {
  readonly #dialect: Dialect;
  readonly #feed: ((bytes: Uint8Array) => void) | null;
  #parts: Uint8Array[] = [];
  #length = 0;
  #usage: Loose | null = null;
  #whole = false;
  #error: string | null = null;
  #written = 0;

  /** `type` is the answer's content type. */
  constructor(dialect: Dialect, type: string) {
    this.#dialect = dialect;
    this.#feed = type.startsWith('text/event-stream') ? pushed(({ data }) => this.#event(data)) : null;
  }

  push(bytes: Uint8Array): void {
    if (this.#feed) return this.#feed(bytes);
    this.#length += bytes.length;
    if (this.#length <= longestBody) this.#parts.push(bytes);
  }

  #event(data: string): void {
    if (data === '[DONE]') return;
    let body: Loose | null;
    try {
      body = record(JSON.parse(data));
    } catch {
      return;
    }
    if (body) this.#message(body);
  }

  #merge(usage: unknown): void {
    const more = record(usage);
    if (more)
      this.#usage = { ...this.#usage, ...Object.fromEntries(Object.entries(more).filter(([, v]) => v !== null)) };
  }

  #message(body: Loose): void {
    switch (this.#dialect) {
      case 'anthropic':
        return this.#anthropic(body);
      case 'chat':
        return this.#chat(body);
      case 'responses':
        return this.#responses(body);
      case 'gemini':
        this.#written += partsLength(body);
        this.#merge(body.usageMetadata);
        if (record(list(body.candidates)[0])?.finishReason !== undefined) this.#whole = true;
        if (body.error !== undefined) this.#error = messageIn(body) ?? 'The provider failed.';
    }
  }

  #anthropic(body: Loose): void {
    const delta = record(body.delta);
    this.#written += lengthOf(delta?.text) + lengthOf(delta?.thinking) + lengthOf(delta?.partial_json);
    this.#merge(record(body.message)?.usage);
    this.#merge(body.usage);
    if (body.type === 'message_delta' && body.usage !== undefined) this.#whole = true;
    if (body.type === 'error') this.#error = messageIn(body) ?? 'The provider failed.';
  }

  #chat(body: Loose): void {
    const delta = record(record(list(body.choices)[0])?.delta);
    this.#written += lengthOf(delta?.content) + lengthOf(delta?.reasoning_content) + lengthOf(delta?.reasoning);
    for (const call of list(delta?.tool_calls)) this.#written += lengthOf(record(record(call)?.function)?.arguments);
    if (record(body.usage)) {
      this.#merge(body.usage);
      this.#whole = true;
    }
    if (record(body.error)) this.#error = messageIn(body) ?? 'The provider failed.';
  }

  #responses(body: Loose): void {
    this.#written += lengthOf(body.delta);
    const response = record(body.response);
    if (body.type === 'response.completed' || body.type === 'response.incomplete' || body.type === 'response.failed') {
      this.#merge(response?.usage);
      this.#whole = record(response?.usage) !== null;
    }
    if (body.type === 'response.failed' || body.type === 'error')
      this.#error = messageIn(response) ?? messageIn(body) ?? 'The provider failed.';
  }

  /** What the answer said; `ended` when it came to its end by itself. */
  read(ended: boolean): Reading {
    if (!this.#feed) this.#readWhole(ended);
    const usage = this.#usage;
    const body = usage && { [this.#dialect === 'gemini' ? 'usageMetadata' : 'usage']: usage };
    return { body, whole: this.#whole && usage !== null, error: this.#error, written: this.#written };
  }

  #readWhole(ended: boolean): void {
    if (!ended || this.#length > longestBody) {
      this.#written = this.#length;
      return;
    }
    let parsed: unknown;
    try {
      parsed = JSON.parse(Buffer.concat(this.#parts).toString('utf8'));
    } catch {
      this.#written = this.#length;
      return;
    }
    // Gemini streams a list when it is not asked for events.
    for (const one of Array.isArray(parsed) ? (parsed as unknown[]) : [parsed]) {
      const body = record(one);
      this.#written += body ? partsLength(body) : 0;
      this.#merge(body?.usage ?? body?.usageMetadata);
      if (record(body?.error)) this.#error = messageIn(body);
    }
    this.#whole = this.#usage !== null;
    this.#written ||= this.#length;
  }
}
