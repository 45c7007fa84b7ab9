import { closeSync, constants, fdatasync, openSync, writeSync } from 'node:fs';
import { type Clock, iso } from '../base/clock.ts';
import { draftText } from '../api/draft.ts';
import type { EventData, EventDraft, EventSource, EventType } from '../api/events.ts';
import type { ControlRecord } from './protocol.ts';
import { encodeFrame, maxFrame, spoolMagic } from './spool.ts';

/** Writes bytes at the end of the open file and says how many it took; throws what writeSync throws. */
export type Write = (file: number, bytes: Buffer) => number;

/** What a journal needs besides its file. */
export interface JournalOptions {
  clock: Clock;
  /** Called after each write with the size of the spool in bytes. */
  grown?: (size: number) => void;
  /** Called once when nothing could be written for a minute (no space, input/output error). */
  stuck?: (error: Error) => void;
  write?: Write;
}

/** More unwritten bytes than this, and the harness has to wait. */
const highWater = 1_048_576;
const flushEvery = 10;
const patience = 60_000;

/**
 * The writing side of a spool. What one turn of the event loop brings goes out in one write; what a control record says is
 * flushed to the disk, events at most about every ten milliseconds. A full disk is tried again and again, with growing pauses.
 */
export class Journal {
  readonly #file: number;
  readonly #clock: Clock;
  readonly #options: JournalOptions;
  readonly #write: Write;
  #queue: Buffer[] = [spoolMagic];
  #backlog = spoolMagic.length;
  #scheduled = false;
  #size = 0;
  #flushed = 0;
  #flushing = false;
  #lastFlush = -flushEvery;
  #failingSince: number | null = null;
  #pause = 10;
  #gaveUp = false;
  #waiting: { size: number; done: () => void }[] = [];
  #relief: (() => void)[] = [];

  /** Creates the file, mode 0600. Throws EEXIST when a run was started here before. */
  constructor(path: string, options: JournalOptions) {
    const { O_APPEND, O_CREAT, O_EXCL, O_WRONLY } = constants;
    this.#file = openSync(path, O_WRONLY | O_APPEND | O_CREAT | O_EXCL, 0o600);
    this.#clock = options.clock;
    this.#options = options;
    this.#write = options.write ?? ((file, bytes) => writeSync(file, bytes));
    this.#pump();
  }

  /** Bytes in the file. */
  get size(): number {
    return this.#size;
  }

  /** True when the harness should wait until `relieved()`. */
  get full(): boolean {
    return this.#backlog > highWater;
  }

  /** Resolves when the journal takes more; at once when it does already. */
  relieved(): Promise<void> {
    return this.full ? new Promise((resolve) => this.#relief.push(resolve)) : Promise.resolve();
  }

  /** Appends an event that happens now. */
  event<T extends EventType>(type: T, data: EventData[T], source: EventSource = 'harness'): void {
    this.draft({ type, source, created_at: iso(this.#clock.now()), data } as EventDraft);
  }

  /** Appends an event. */
  draft(draft: EventDraft): void {
    const text = draftText(draft);
    if (text.length * 3 < maxFrame || Buffer.byteLength(text) < maxFrame) return this.#append(encodeFrame('e', text));
    const { type, source, created_at } = draft;
    const note = `An event ${type} of ${text.length} characters was too long to be kept.`;
    const data = { level: 'warn', stream: 'daemon', text: note } as const;
    this.#append(encodeFrame('e', draftText({ type: 'log', source, created_at, data })));
  }

  /** Appends a control record. */
  record(record: ControlRecord): void {
    this.#append(encodeFrame('c', JSON.stringify(record)));
  }

  #append(frame: Buffer): void {
    this.#queue.push(frame);
    this.#backlog += frame.length;
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => this.#pump());
  }

  #pump(): void {
    this.#scheduled = false;
    const before = this.#size;
    while (this.#queue.length > 0) {
      const bytes = this.#queue.length === 1 ? (this.#queue[0] as Buffer) : Buffer.concat(this.#queue);
      this.#queue = [bytes];
      let written: number;
      try {
        written = this.#write(this.#file, bytes);
      } catch (error) {
        this.#retry(error as Error);
        break;
      }
      this.#failingSince = null;
      this.#pause = 10;
      this.#size += written;
      this.#backlog -= written;
      this.#queue = written < bytes.length ? [bytes.subarray(written)] : [];
    }
    if (this.#size > before) this.#options.grown?.(this.#size);
    if (!this.full) for (const done of this.#relief.splice(0)) done();
    this.#flushSoon();
  }

  #retry(error: Error): void {
    const now = this.#clock.monotonic();
    this.#failingSince ??= now;
    if (now - this.#failingSince > patience && !this.#gaveUp) {
      this.#gaveUp = true;
      this.#options.stuck?.(error);
    }
    this.#scheduled = true;
    // Not a timer of the clock: this one has to keep the process alive.
    setTimeout(() => this.#pump(), this.#pause);
    this.#pause = Math.min(this.#pause * 2, 1000);
  }

  #flushSoon(): void {
    if (this.#flushing || this.#flushed === this.#size) return;
    const delay = this.#waiting.length > 0 ? 0 : this.#lastFlush + flushEvery - this.#clock.monotonic();
    if (delay > 0) {
      this.#flushing = true;
      setTimeout(() => {
        this.#flushing = false;
        this.#flush();
      }, delay);
    } else this.#flush();
  }

  #flush(): void {
    if (this.#flushing) return;
    this.#flushing = true;
    const size = this.#size;
    fdatasync(this.#file, () => {
      // A failed flush cannot be repeated with sense: the kernel has dropped the pages. What is in the file counts.
      this.#flushing = false;
      this.#flushed = size;
      this.#lastFlush = this.#clock.monotonic();
      this.#waiting = this.#waiting.filter(({ size: wanted, done }) => {
        if (wanted > size) return true;
        done();
        return false;
      });
      this.#flushSoon();
    });
  }

  /** Resolves when all that was appended so far is on the disk. Waits for ever on a full one. */
  flush(): Promise<void> {
    const size = this.#size + this.#backlog;
    if (this.#flushed >= size) return Promise.resolve();
    return new Promise((done) => {
      this.#waiting.push({ size, done });
      if (this.#queue.length === 0) this.#flushSoon();
    });
  }

  close(): void {
    closeSync(this.#file);
  }
}
