import type { Clock } from '../base/clock.ts';

/** Bytes of text in one event, at most. */
export const longestPiece = 65_536;
/** Milliseconds between two pieces of the same stream. */
const interval = 100;

/** Cuts the longest piece of at most `bytes` bytes of UTF-8 off the front of `text`, never inside of a character. */
export function cut(text: string, bytes = longestPiece): [piece: string, remainder: string] {
  if (text.length * 3 <= bytes || (text.length <= bytes && Buffer.byteLength(text) <= bytes)) return [text, ''];
  const isHigh = (at: number): boolean => (text.charCodeAt(at) & 0xfc00) === 0xd800;
  for (let length = Math.min(text.length, bytes); ;) {
    // A high surrogate stays with its low one.
    const end = isHigh(length - 1) ? (length > 1 ? length - 1 : Math.min(2, text.length)) : length;
    const piece = text.slice(0, end);
    const size = Buffer.byteLength(piece);
    if (size <= bytes || length === 1) return [piece, text.slice(end)];
    length = Math.max(1, Math.min(end - 1, Math.floor((end * bytes) / size)));
  }
}

/**
 * Joins what arrives in many small pieces: the first goes on at once, later ones about ten times a second or when 64 KiB have
 * come together.
 */
export class Joiner {
  readonly #clock: Clock;
  readonly #emit: (text: string) => void;
  #parts: string[] = [];
  #length = 0;
  #last = -interval;
  #cancel: (() => void) | null = null;

  constructor(clock: Clock, emit: (text: string) => void) {
    this.#clock = clock;
    this.#emit = emit;
  }

  push(text: string): void {
    if (text === '') return;
    this.#parts.push(text);
    this.#length += text.length;
    const due = this.#last + interval - this.#clock.monotonic();
    if (this.#length >= longestPiece || due <= 0) this.flush(this.#length >= longestPiece && due > 0);
    else this.#cancel ??= this.#clock.timer(due, () => this.flush());
  }

  /** Sends on what is there; `whole` pieces alone when asked for. */
  flush(whole = false): void {
    this.#cancel?.();
    this.#cancel = null;
    let text = this.#parts.join('');
    this.#parts = [];
    this.#length = 0;
    while (text !== '') {
      if (whole && text.length < longestPiece) {
        this.#parts = [text];
        this.#length = text.length;
        this.#cancel = this.#clock.timer(interval, () => this.flush());
        return;
      }
      const [piece, remainder] = cut(text);
      this.#last = this.#clock.monotonic();
      this.#emit(piece);
      text = remainder;
    }
  }
}
