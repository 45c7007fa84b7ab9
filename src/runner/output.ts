import { closeSync, mkdirSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { TextDecoder } from 'node:util';
import type { Clock } from '../base/clock.ts';
import { cut, Joiner } from './joiner.ts';
import { runFiles } from './protocol.ts';

/** Bytes of text that a tool call may have in events. */
export const mostInEvents = 1_048_576;
/** Bytes at the end of the output that `tool.completed` repeats. */
const tailBytes = 16_384;

/** The last bytes of a stream, in one buffer of at most `bound` bytes that is written round and round. */
export class Tail {
  readonly #bound: number;
  #ring = Buffer.alloc(0);
  #at = 0;
  #size = 0;

  constructor(bound: number) {
    this.#bound = bound;
  }

  push(bytes: Buffer): void {
    const tail = bytes.length > this.#bound ? bytes.subarray(-this.#bound) : bytes;
    const needed = Math.min(this.#size + tail.length, this.#bound);
    if (this.#ring.length < needed) this.#grow(needed);
    const first = Math.min(tail.length, this.#ring.length - this.#at);
    tail.copy(this.#ring, this.#at, 0, first);
    tail.copy(this.#ring, 0, first);
    this.#at = (this.#at + tail.length) % this.#ring.length || 0;
    this.#size += bytes.length;
  }

  /** Only a ring that has never come round grows. */
  #grow(needed: number): void {
    const ring = Buffer.alloc(Math.min(this.#bound, Math.max(needed, this.#ring.length * 2, 1024)));
    this.#ring.copy(ring, 0, 0, this.#size);
    this.#ring = ring;
    this.#at = this.#size;
  }

  /** The tail as text; a character that the bound cut is left out. */
  text(): string {
    if (this.#size <= this.#ring.length) return this.#ring.toString('utf8', 0, this.#size);
    const bytes = Buffer.concat([this.#ring.subarray(this.#at), this.#ring.subarray(0, this.#at)]);
    let start = 0;
    while (start < 4 && ((bytes[start] ?? 0) & 0xc0) === 0x80) start++;
    return bytes.toString('utf8', start);
  }
}

/** A call's id as the name of a file. */
export const fileName = (id: string): string => {
  const name = id
    .replaceAll(/[^A-Za-z0-9._-]/g, '_')
    .replace(/^\.+/, '_')
    .slice(0, 120);
  return name === '' ? '_' : name;
};

type Stream = 'stdout' | 'stderr' | null;

/** What the output of a tool call needs around it. */
export interface OutputOptions {
  id: string;
  folder: string;
  clock: Clock;
  emit: (data: { tool_call_id: string; stream: Stream; text: string; truncated: boolean }) => void;
}

/**
 * The output of one tool call: joined pieces until 1 MiB went into events, the last of them `truncated`; then the whole of it
 * stands in `output/<id>` of the run's folder. The file is made only when that bound is passed. Bytes that are no UTF-8 become
 * U+FFFD in events and stay as they are in the file.
 */
export class ToolOutput {
  readonly #options: OutputOptions;
  readonly #streams = new Map<Stream, { decoder: TextDecoder; joiner: Joiner }>();
  readonly #tail = new Tail(tailBytes);
  #head: Buffer[] | null = [];
  #headLength = 0;
  #file: number | null = null;
  #shown = 0;
  #truncated = false;
  /** Bytes so far. */
  size = 0;

  constructor(options: OutputOptions) {
    this.#options = options;
  }

  #stream(stream: Stream): { decoder: TextDecoder; joiner: Joiner } {
    let found = this.#streams.get(stream);
    if (!found) {
      const joiner = new Joiner(this.#options.clock, (text) => this.#show(stream, text));
      found = { decoder: new TextDecoder('utf-8', { ignoreBOM: true }), joiner };
      this.#streams.set(stream, found);
    }
    return found;
  }

  #show(stream: Stream, text: string): void {
    if (this.#truncated) return;
    const [piece, remainder] = cut(text, Math.min(65_536, mostInEvents - this.#shown));
    this.#shown += Buffer.byteLength(piece);
    this.#truncated = remainder !== '' || this.#shown >= mostInEvents - 3;
    this.#options.emit({ tool_call_id: this.#options.id, stream, text: piece, truncated: this.#truncated });
  }

  push(stream: Stream, bytes: Buffer): void {
    this.size += bytes.length;
    this.#tail.push(bytes);
    this.#keep(bytes);
    if (this.#truncated) return;
    const { decoder, joiner } = this.#stream(stream);
    joiner.push(decoder.decode(bytes, { stream: true }));
  }

  #keep(bytes: Buffer): void {
    if (this.#head) {
      this.#head.push(bytes);
      this.#headLength += bytes.length;
      if (this.#headLength <= mostInEvents && !this.#truncated) return;
      const head = this.#head;
      this.#head = null;
      this.#open();
      for (const part of head) this.#append(part);
    } else this.#append(bytes);
  }

  #open(): void {
    const folder = join(this.#options.folder, runFiles.output);
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      this.#file = openSync(join(folder, fileName(this.#options.id)), 'w', 0o600);
    } catch {
      this.#file = null;
    }
  }

  #append(bytes: Buffer): void {
    if (this.#file === null) return;
    try {
      for (let at = 0; at < bytes.length;) at += writeSync(this.#file, bytes, at);
    } catch {
      // No space for the long form: the events go first.
      closeSync(this.#file);
      this.#file = null;
    }
  }

  /** Sends what is still held back. */
  flush(): void {
    for (const { joiner } of this.#streams.values()) joiner.flush();
  }

  /** Ends the output; the answer is its tail, null when there was none. */
  end(): string | null {
    for (const { decoder, joiner } of this.#streams.values()) {
      joiner.push(decoder.decode());
      joiner.flush();
    }
    if (this.#truncated && this.#head) {
      this.#open();
      for (const part of this.#head) this.#append(part);
    }
    this.#head = null;
    if (this.#file !== null) closeSync(this.#file);
    this.#file = null;
    return this.size === 0 ? null : this.#tail.text();
  }
}
