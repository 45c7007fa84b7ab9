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

/** Takes a stream's bytes as they come and calls `on` for each event that is complete. */
export function pushed(on: (event: SentEvent) => void): (bytes: Uint8Array) => void {
  const parser = createParser({
    onEvent: ({ id, event, data }) => on({ id: id ?? '', event: event ?? 'message', data }),
  });
  const text = new TextDecoder();
  return (bytes) => parser.feed(text.decode(bytes, { stream: true }));
}

/** The events of a stream of bytes, in order, as soon as each is complete. A half one at the end is dropped. */
export async function* decode(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<SentEvent, void, void> {
  let ready: SentEvent[] = [];
  const feed = pushed((event) => ready.push(event));
  for await (const chunk of bytes) {
    feed(chunk);
    if (ready.length === 0) continue;
    const batch = ready;
    ready = [];
    yield* batch;
  }
}
