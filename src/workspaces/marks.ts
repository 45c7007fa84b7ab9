/** Room for so many marks, at first. A power of two. */
const least = 1_024;

/** A text as a number below 2^53: two halves of 32 and 21 bits, mixed as MurmurHash does. */
export function digest(text: string): number {
  let [one, two] = [0xde_ad_be_ef, 0x41_c6_ce_57];
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    one = Math.imul(one ^ code, 0x9e_37_79_b1);
    two = Math.imul(two ^ code, 0x5f_35_64_95);
  }
  one = Math.imul(one ^ (one >>> 16), 0x85_eb_ca_6b) ^ Math.imul(two ^ (two >>> 13), 0xc2_b2_ae_35);
  two = Math.imul(two ^ (two >>> 16), 0x85_eb_ca_6b) ^ Math.imul(one ^ (one >>> 13), 0xc2_b2_ae_35);
  // Nought stands for "nothing there".
  return (two & 0x1f_ff_ff) * 0x1_00_00_00_00 + (one >>> 0) || 1;
}

/** What a thread sends of a tree's marks. */
export interface MarkTables {
  keys: Float64Array<ArrayBuffer>;
  values: Float64Array<ArrayBuffer>;
}

/**
 * What is known of each path of a tree: a number that changes when the file does. Paths are numbers, too, in two open tables:
 * 100,000 take 4 MiB, where a map of texts would take ten times that.
 */
export class Marks {
  #keys: Float64Array<ArrayBuffer>;
  #values: Float64Array<ArrayBuffer>;
  #used = 0;
  #count = 0;
  #sums: [number, number] = [0, 0];

  constructor(tables?: MarkTables) {
    this.#keys = tables?.keys ?? new Float64Array(least);
    this.#values = tables?.values ?? new Float64Array(least);
    if (!tables) return;
    for (const [at, key] of this.#keys.entries()) {
      if (key === 0) continue;
      this.#used += 1;
      this.#add(key, this.#values[at]!, 1);
    }
  }

  /** Paths that are there. */
  get count(): number {
    return this.#count;
  }

  /** Two trees with the same marks have the same signature, in whatever order they were found. */
  get signature(): string {
    return [...this.#sums, this.#count].map((part) => part.toString(36)).join('.');
  }

  /** The tables themselves, to be handed over. */
  get tables(): MarkTables {
    return { keys: this.#keys, values: this.#values };
  }

  /** The mark of a path; 0 when nothing is there. */
  get(key: number): number {
    return this.#values[this.#slot(key)]!;
  }

  /** Sets a path's mark; answers whether it was another one. 0 removes it. */
  set(key: number, value: number): boolean {
    let at = this.#slot(key);
    const old = this.#values[at]!;
    if (old === value) return false;
    if (this.#keys[at] === 0) {
      if ((this.#used + 1) * 10 > this.#keys.length * 6) {
        this.#widen();
        at = this.#slot(key);
      }
      this.#keys[at] = key;
      this.#used += 1;
    }
    this.#add(key, old, -1);
    this.#values[at] = value;
    this.#add(key, value, 1);
    return true;
  }

  #add(key: number, value: number, sign: 1 | -1): void {
    if (value === 0) return;
    const [high, low] = [Math.trunc(key / 0x1_00_00_00_00) ^ Math.trunc(value / 0x1_00_00_00_00), key ^ value];
    const one = Math.imul(low ^ (low >>> 15), 0x85_eb_ca_6b) ^ Math.imul(key | 0, 0x27_d4_eb_2f) ^ high;
    const two = Math.imul(high ^ 0x9e_37_79_b1, 0xc2_b2_ae_35) ^ Math.imul(value | 0, 0x16_56_67_b1) ^ (one >>> 11);
    this.#sums = [(this.#sums[0] + sign * (one >>> 0)) >>> 0, (this.#sums[1] + sign * (two >>> 0)) >>> 0];
    this.#count += sign;
  }

  #slot(key: number): number {
    const mask = this.#keys.length - 1;
    let at = key & mask;
    while (this.#keys[at] !== 0 && this.#keys[at] !== key) at = (at + 1) & mask;
    return at;
  }

  #widen(): void {
    const { keys, values } = this.tables;
    this.#keys = new Float64Array(keys.length * 2);
    this.#values = new Float64Array(keys.length * 2);
    this.#used = 0;
    for (const [at, key] of keys.entries()) {
      if (key === 0 || values[at] === 0) continue;
      const to = this.#slot(key);
      this.#keys[to] = key;
      this.#values[to] = values[at]!;
      this.#used += 1;
    }
  }
}
