import type { Readable, Writable } from 'node:stream';

type Json = Record<string, unknown>;

/** A JSON-RPC error: `code` and `data` as they go over the line. */
export class RpcError extends Error {
  readonly code: number;
  readonly data: unknown;

  constructor(code: number, message: string, data?: unknown) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

/** What the other side may ask: the answer is the result; a throw becomes an error. */
export type Handle = (method: string, params: Json) => Promise<unknown>;

/** Bytes of one line, at most. */
const longestLine = 32 * 1_048_576;

/**
 * One end of ACP: JSON-RPC, a message a line. The SDK's own is not used, as loading it takes longer than everything else here
 * that happens before the first answer.
 */
export class Peer {
  readonly #output: Writable;
  readonly #asked = new Map<number, { resolve: (value: unknown) => void; reject: (error: Error) => void }>();
  #last = 0;

  constructor(output: Writable) {
    this.#output = output;
  }

  /** Reads until the input ends. `handle` answers requests, `noticed` hears notifications. */
  async listen(input: Readable, handle: Handle, noticed: (method: string, params: Json) => void): Promise<void> {
    let rest: Buffer[] = [];
    let length = 0;
    for await (const bytes of input as AsyncIterable<Buffer>) {
      for (let from = 0; from < bytes.length;) {
        const end = bytes.indexOf(10, from);
        const part = bytes.subarray(from, end < 0 ? bytes.length : end);
        rest.push(part);
        length += part.length;
        if (length > longestLine) throw new Error('A line is too long to be a message.');
        if (end < 0) break;
        from = end + 1;
        this.#line(Buffer.concat(rest).toString('utf8'), handle, noticed);
        rest = [];
        length = 0;
      }
    }
    for (const { reject } of this.#asked.values()) reject(new Error('The client is gone.'));
  }

  #line(line: string, handle: Handle, noticed: (method: string, params: Json) => void): void {
    if (line.trim() === '') return;
    let message: { id?: unknown; method?: unknown; params?: Json; result?: unknown; error?: Json };
    try {
      message = JSON.parse(line) as typeof message;
    } catch {
      return this.#send({ id: null, error: { code: -32700, message: 'This is not JSON.' } });
    }
    const { id, method, params, result, error } = message;
    if (typeof method !== 'string') {
      const waiting = this.#asked.get(id as number);
      this.#asked.delete(id as number);
      if (error) waiting?.reject(new RpcError(Number(error.code), String(error.message), error.data));
      else waiting?.resolve(result);
    } else if (id === undefined) noticed(method, params ?? {});
    else {
      handle(method, params ?? {}).then(
        (answer) => this.#send({ id, result: answer ?? {} }),
        (reason: unknown) => {
          const { code = -32603, data } = reason instanceof RpcError ? reason : {};
          const words = reason instanceof Error ? reason.message : String(reason);
          this.#send({ id, error: { code, message: words, ...(data === undefined ? {} : { data }) } });
        },
      );
    }
  }

  #send(message: Json): void {
    if (this.#output.writable) this.#output.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  }

  /** Resolves when what was sent has gone, so that a fast teller does not fill the memory of a slow reader. */
  async drained(): Promise<void> {
    if (this.#output.writableNeedDrain)
      await new Promise<void>((resolve) => {
        this.#output.once('drain', resolve);
        this.#output.once('close', resolve);
      });
  }

  notify(method: string, params: Json): void {
    this.#send({ method, params });
  }

  /** Asks the other side. Rejects with its RpcError, or when it is gone. */
  request(method: string, params: Json): Promise<unknown> {
    this.#last += 1;
    const id = this.#last;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    this.#asked.set(id, { resolve, reject });
    this.#send({ id, method, params });
    return promise;
  }
}
