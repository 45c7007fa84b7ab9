import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { number, record } from '../harness/loose.ts';

const file = 'cost.json';

/**
 * The cost of this prompt out of what an agent tells: a sum over its whole session, which may have begun in runs before. What
 * the sum was at the end of the last run stands in the session's private folder.
 */
export class Spend {
  readonly #path: string;
  readonly #session: string;
  /** US dollars before this prompt; null when that is not known. */
  #before: number | null;
  #now: number | null = null;

  constructor(sessionFolder: string, session: string, resumed: boolean) {
    this.#path = join(sessionFolder, file);
    this.#session = session;
    this.#before = resumed ? this.#stored() : 0;
  }

  #stored(): number | null {
    try {
      return number(record(JSON.parse(readFileSync(this.#path, 'utf8')))?.[this.#session]);
    } catch {
      return null;
    }
  }

  /** A figure from before the prompt. */
  baseline(total: number): void {
    this.#before = total;
  }

  /** A figure during the prompt; the answer is the prompt's own cost in micro-USD, null when it cannot be told. */
  total(total: number): string | null {
    this.#now = total;
    if (this.#before === null) return null;
    // A sum that has become smaller was begun anew.
    if (total < this.#before - 1e-9) this.#before = 0;
    return String(Math.max(0, Math.round((total - this.#before) * 1e6)));
  }

  /** Keeps the sum for the next run of the session. */
  keep(): void {
    if (this.#now === null) return;
    try {
      writeFileSync(this.#path, JSON.stringify({ [this.#session]: this.#now }), { mode: 0o600 });
    } catch {
      // The next run does not know its cost then.
    }
  }
}
