import type { Readable, Writable } from 'node:stream';
import type { AnyMessage, Stream } from '@agentclientprotocol/sdk/unstable';

/** Bytes of one line, at most: what is longer is no message. */
export const longestLine = 32 * 1_048_576;

/** What a wire tells besides the messages. */
export interface WireOptions {
  /** Sees each message first, in order; true keeps it from the connection. */
  tap: (message: Record<string, unknown>) => boolean;
  /** A line that is no JSON object. */
  noise: (line: string) => void;
  /** A line longer than 32 MiB: nothing after it can be trusted. */
  overflow: () => void;
  /** So many bytes came in. */
  counted: (bytes: number) => void;
}

/**
 * Newline-delimited JSON over a process' standard streams. Unlike the SDK's own stream it bears lines that are not JSON, and
 * hands out notifications in the order of the lines, before anything that came after them is answered.
 */
export function wire(input: Writable, output: Readable, options: WireOptions): Stream {
  let parts: Buffer[] = [];
  let length = 0;
  let broken = false;

  const line = (bytes: Buffer, controller: ReadableStreamDefaultController<AnyMessage>): void => {
    const text = bytes.toString('utf8').trim();
    if (text === '') return;
    let message: unknown;
    try {
      message = JSON.parse(text);
    } catch {
      return options.noise(text);
    }
    if (typeof message !== 'object' || message === null || Array.isArray(message)) return options.noise(text);
    if (!options.tap(message as Record<string, unknown>)) controller.enqueue(message as AnyMessage);
  };

  const readable = new ReadableStream<AnyMessage>({
    start(controller) {
      output.on('data', (bytes: Buffer) => {
        options.counted(bytes.length);
        for (let from = 0; from < bytes.length && !broken;) {
          const end = bytes.indexOf(10, from);
          const part = bytes.subarray(from, end < 0 ? bytes.length : end);
          length += part.length;
          if (length > longestLine) {
            broken = true;
            parts = [];
            return options.overflow();
          }
          parts.push(part);
          if (end < 0) return;
          const whole = parts.length === 1 ? part : Buffer.concat(parts);
          parts = [];
          length = 0;
          from = end + 1;
          line(whole, controller);
        }
      });
      const close = (): void => {
        try {
          controller.close();
        } catch {
          // Closed before.
        }
      };
      output.once('end', () => {
        if (parts.length > 0 && !broken) line(Buffer.concat(parts), controller);
        close();
      });
      output.once('close', close);
      output.on('error', close);
    },
  });
  input.on('error', () => {});
  const writable = new WritableStream<AnyMessage>({
    write: (message) =>
      new Promise((resolve, reject) => {
        if (input.destroyed || !input.writable) return reject(new Error('The agent takes no more input.'));
        input.write(`${JSON.stringify(message)}\n`, (error) => (error ? reject(error) : resolve()));
      }),
  });
  return { readable, writable };
}
