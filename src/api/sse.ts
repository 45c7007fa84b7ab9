import { createParser } from 'eventsource-parser';

/** One server-sent event; `id` is the sequence of what `data` holds. */
export interface SentEvent {
  id: string;
  event: string;
  /** JSON on one line. */
  data: string;
}

/** A comment line: it keeps the connection open and says nothing. */
export const heartbeat = ': heartbeat\n\n';

/** How soon a browser's EventSource should come back, in milliseconds. */
export const retry = (ms: number): string => `retry: ${ms}\n\n`;

/** The text of one event. `data` must be a single line, as JSON.stringify makes it. */
export const encode = ({ id, event, data }: SentEvent): string => `id: ${id}\nevent: ${event}\ndata: ${data}\n\n`;

/** The events of a stream of bytes, in order, as soon as each is complete. A half one at the end is dropped. */
export async function* decode(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<SentEvent, void, void> {
  let ready: SentEvent[] = [];
  const parser = createParser({
    onEvent: ({ id, event, data }) => ready.push({ id: id ?? '', event: event ?? 'message', data }),
  });
  const text = new TextDecoder();
  for await (const chunk of bytes) {
    parser.feed(text.decode(chunk, { stream: true }));
    if (ready.length === 0) continue;
    const batch = ready;
    ready = [];
    yield* batch;
  }
}
