import { styleText } from 'node:util';
import { clean, cleanLine } from './text.ts';
import { yaml } from './yaml.ts';

export type Format = 'table' | 'wide' | 'json' | 'yaml' | 'name';

/** A column of a table. `wide` ones are shown with `-o wide` alone; one with `flex` gives way when the terminal is narrow. */
export interface Column<T> {
  title: string;
  value: (item: T) => string;
  wide?: boolean;
  flex?: boolean;
  right?: boolean;
  style?: (item: T) => Style | undefined;
}
type Style = Parameters<typeof styleText>[0];

/** How a list is shown. */
export interface ListView<T> {
  columns: Column<T>[];
  id: (item: T) => string;
  /** What `-o name` prints. */
  name?: (item: T) => string;
  /** Said on standard error when there is nothing: what to do next. */
  empty: string;
}

/** What the command line says about output. */
export interface OutputFlags {
  json?: boolean;
  output?: string | undefined;
  quiet?: boolean;
  trunc?: boolean;
  color?: boolean;
}

/** The two streams as this program uses them. */
export interface Streams {
  stdout: { write(text: string): unknown; isTTY?: boolean; columns?: number };
  stderr: { write(text: string): unknown; isTTY?: boolean; columns?: number };
}

/** Results to standard output in the format asked for, everything else to standard error. */
export class Output {
  readonly format: Format;
  readonly quiet: boolean;
  readonly streams: Streams;
  private readonly trunc: boolean;
  private readonly colour: boolean;

  constructor(flags: OutputFlags, streams: Streams, env: Record<string, string | undefined> = {}) {
    this.format = flags.json ? 'json' : ((flags.output as Format | undefined) ?? 'table');
    this.quiet = flags.quiet ?? false;
    this.trunc = flags.trunc ?? true;
    this.colour = (flags.color ?? true) && !env.NO_COLOR && env.TERM !== 'dumb';
    this.streams = streams;
  }

  get isJson(): boolean {
    return this.format === 'json';
  }

  /** A line of the result. */
  print(text: string): void {
    this.streams.stdout.write(`${text}\n`);
  }

  /** A line to the person: progress, hints, warnings. */
  note(text: string): void {
    this.streams.stderr.write(`${text}\n`);
  }

  /** Text for standard output or standard error in a style, where that stream shows colours. */
  paint(style: Style, text: string, stream: 'stdout' | 'stderr' = 'stderr'): string {
    return this.colour && this.streams[stream].isTTY ? styleText(style, text, { validateStream: false }) : text;
  }

  /** The API's body, unchanged; indented for a person. */
  json(body: unknown): void {
    this.print(JSON.stringify(body, null, this.streams.stdout.isTTY ? 2 : 0));
  }

  /** A page: its body with --json, ids with -q, otherwise a table. */
  async list<T>(page: { data: T[]; next_cursor: string | null }, view: ListView<T>): Promise<void> {
    if (this.format === 'json') return this.json(page);
    if (this.format === 'yaml') return this.print(yaml(page.data));
    if (this.quiet) for (const item of page.data) this.print(view.id(item));
    else if (this.format === 'name') for (const item of page.data) this.print(cleanLine((view.name ?? view.id)(item)));
    else if (page.data.length > 0) this.print(await this.table(page.data, view.columns));
    if (page.data.length === 0) this.note(view.empty);
    else if (page.next_cursor && !this.quiet) this.note(this.paint('dim', 'There are more: raise --limit.'));
  }

  /** One thing: its body with --json, its id with -q, otherwise `name  value` lines; what is null is left out. */
  one<T extends object>(item: T, id: string, fields: [name: string, value: string | null][]): void {
    if (this.format === 'json') return this.json(item);
    if (this.format === 'yaml') return this.print(yaml(item));
    if (this.quiet || this.format === 'name') return this.print(id);
    const shown = fields.filter((field): field is [string, string] => field[1] !== null && field[1] !== '');
    const width = Math.max(...shown.map(([name]) => name.length));
    for (const [name, value] of shown) {
      const text = clean(value).replaceAll('\n', `\n${' '.repeat(width + 2)}`);
      this.print(`${this.paint('dim', name.padEnd(width), 'stdout')}  ${text}`);
    }
  }

  /** The text of a table, cut to the terminal's width where there is one. */
  private async table<T>(items: T[], all: Column<T>[]): Promise<string> {
    const columns = all.filter((column) => !column.wide || this.format === 'wide');
    const cells = items.map((item) => columns.map((column) => cleanLine(column.value(item))));
    const { cellsOf, fit } = await measure(cells);
    const widths = columns.map((column, n) =>
      Math.max(cellsOf(column.title), ...cells.map((row) => cellsOf(row[n] ?? ''))),
    );
    const room = this.streams.stdout.isTTY && this.trunc ? (this.streams.stdout.columns ?? 80) : Infinity;
    const sum = () => widths.reduce((total, width) => total + width + 2, -2);
    for (const [n, column] of columns.entries()) {
      if (column.flex && sum() > room) widths[n] = Math.max(8, (widths[n] ?? 0) - (sum() - room));
    }
    const line = (row: string[], styles: (Style | undefined)[]) =>
      row
        .map((text, n) => {
          const width = widths[n] ?? 0;
          const cut = fit(text, width);
          const gap = ' '.repeat(Math.max(0, width - cellsOf(cut)));
          const styled = styles[n] ? this.paint(styles[n], cut, 'stdout') : cut;
          return columns[n]?.right ? gap + styled : n === row.length - 1 ? styled : styled + gap;
        })
        .join('  ')
        .trimEnd();
    const head = line(
      columns.map(({ title }) => title),
      columns.map(() => 'dim' as const),
    );
    return [
      head,
      ...cells.map((row, n) =>
        line(
          row,
          columns.map(({ style }) => style?.(items[n] as T)),
        ),
      ),
    ].join('\n');
  }
}

// One cell each: ASCII, Latin, and the signs that this program uses itself.
const narrow = /^[\u0020-\u007E\u00A1-\u00AC\u00AE-\u02FF–…·○●◌✓✗⊘]*$/;
const simple = {
  cellsOf: (text: string): number => text.length,
  fit: (text: string, width: number): string => (text.length <= width ? text : `${text.slice(0, width - 1)}…`),
};

/** How to measure these texts; what knows every script and emoji takes 10 ms to load and is seldom needed. */
async function measure(cells: string[][]): Promise<typeof simple> {
  if (cells.every((row) => row.every((text) => narrow.test(text)))) return simple;
  const { widthOfText, fit } = await import('./width.ts');
  return { cellsOf: widthOfText, fit };
}
