/** Milliseconds on the clock that all processes of this machine share. */
export const now = (): number => Number(process.hrtime.bigint()) / 1e6;

/** The value below which the part `q` (0 to 1) of these lies; NaN of none. */
export function quantile(values: readonly number[], q: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  if (sorted.length === 0) return Number.NaN;
  const place = (sorted.length - 1) * q;
  const low = sorted[Math.floor(place)]!;
  return low + (sorted[Math.ceil(place)]! - low) * (place - Math.floor(place));
}

/** The middle one. */
export const median = (values: readonly number[]): number => quantile(values, 0.5);

/** One condition of a goal, of the product's own figure or of its ratio to the floor. */
export interface Goal {
  of: 'ratio' | 'product';
  most?: number;
  least?: number;
}

/** One line of the table. */
export interface Line {
  id: string;
  what: string;
  unit: string;
  product: number;
  /** What the least that could do it took, in this same run; null where there is none. */
  floor: number | null;
  /** product / floor, as it stands: for times smaller is better, for rates larger. */
  ratio: number | null;
  goals: Goal[];
  /** Null where no goal is set. */
  met: boolean | null;
}

/** What is given of a line; the rest follows. */
export interface Measured {
  id: string;
  what: string;
  unit: string;
  product: number | readonly number[];
  floor?: number | readonly number[] | null;
  goals?: Goal[];
}

const single = (value: number | readonly number[]): number => (typeof value === 'number' ? value : median(value));

/** Makes a line: of several values the median counts. */
export function line({ id, what, unit, product, floor = null, goals = [] }: Measured): Line {
  const one = single(product);
  const other = floor === null ? null : single(floor);
  const ratio = other === null ? null : one / other;
  const holds = ({ of, most, least }: Goal): boolean => {
    const value = of === 'ratio' ? ratio : one;
    return value !== null && (most === undefined || value <= most) && (least === undefined || value >= least);
  };
  return {
    id,
    what,
    unit,
    product: one,
    floor: other,
    ratio,
    goals,
    met: goals.length === 0 ? null : goals.every(holds),
  };
}

/** Says on standard error how far it is. */
export function say(text: string): void {
  process.stderr.write(`${text}\n`);
}

/** Measures both, `rounds` times in turn, each going first as often as the other. */
export async function alternate<P, F>(
  rounds: number,
  product: (round: number) => Promise<P> | P,
  floor: (round: number) => Promise<F> | F,
): Promise<{ product: P[]; floor: F[] }> {
  const all: { product: P[]; floor: F[] } = { product: [], floor: [] };
  for (let round = 0; round < rounds; round++) {
    if (round % 2 === 1) all.floor.push(await floor(round));
    all.product.push(await product(round));
    if (round % 2 === 0) all.floor.push(await floor(round));
  }
  return all;
}

const show = (value: number | null): string => {
  if (value === null) return '–';
  if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString('en-US');
  return value.toFixed(Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2);
};

const sayGoal = ({ of, most, least }: Goal, unit: string): string =>
  `${most === undefined ? `≥ ${show(least!)}` : `≤ ${show(most)}`}${of === 'product' ? ` ${unit}` : ''}`;

/** The table: one row a line, columns aligned. */
export function table(lines: readonly Line[]): string {
  const head = ['id', 'what', 'product', 'floor', 'ratio', 'goal', 'met'];
  const rows = lines.map(({ id, what, unit, product, floor, ratio, goals, met }) => [
    id,
    what,
    `${show(product)} ${unit}`,
    floor === null ? '–' : `${show(floor)} ${unit}`,
    ratio === null ? '–' : ratio.toFixed(2),
    goals.map((goal) => sayGoal(goal, unit)).join(', ') || '–',
    met === null ? '–' : met ? 'yes' : 'NO',
  ]);
  const widths = head.map((name, column) => Math.max(name.length, ...rows.map((row) => row[column]!.length)));
  const right = new Set([2, 3, 4]);
  const write = (row: string[]) =>
    row
      .map((cell, i) => (right.has(i) ? cell.padStart(widths[i]!) : cell.padEnd(widths[i]!)))
      .join('  ')
      .trimEnd();
  return [write(head), widths.map((width) => '-'.repeat(width)).join('  '), ...rows.map(write)].join('\n');
}
