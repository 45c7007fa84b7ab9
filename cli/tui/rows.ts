import { fit, widthOfText as stringWidth } from '../width.ts';
import type { Colour } from '../words.ts';

/** A piece of text in one style. */
export interface Span {
  text: string;
  colour?: Colour | undefined;
  bold?: boolean | undefined;
  dim?: boolean | undefined;
  italic?: boolean | undefined;
  inverse?: boolean | undefined;
}

/** Exactly one line of the terminal. */
export type Row = Span[];

/** Cells that a row takes. */
export const widthOf = (row: Row): number => row.reduce((sum, { text }) => sum + stringWidth(text), 0);

/** A row cut to a width, with `…` where something is missing. */
export function cutRow(row: Row, width: number): Row {
  if (widthOf(row) <= width) return row;
  const cut: Row = [];
  let left = width;
  for (const span of row) {
    const cells = stringWidth(span.text);
    if (cells < left) {
      cut.push(span);
      left -= cells;
      continue;
    }
    cut.push({ ...span, text: fit(`${span.text} `, left) });
    break;
  }
  return cut;
}

/** `left` and `right` on one row, with space between them; what is left gives way. */
export function spread(left: Row, right: Row, width: number): Row {
  const room = Math.max(0, width - widthOf(right) - 1);
  const cut = cutRow(left, room);
  return [...cut, { text: ' '.repeat(Math.max(1, width - widthOf(cut) - widthOf(right))) }, ...right];
}

/** Breaks styled text into rows at spaces, or anywhere when a word is longer than a row; `hang` starts each row but the first. */
export function wrapSpans(spans: Row, width: number, hang: Row = []): Row[] {
  const rows: Row[] = [];
  const room = Math.max(4, width);
  let row: Row = [];
  let used = 0;
  const next = () => {
    rows.push(row);
    row = [...hang];
    used = widthOf(hang);
  };
  const put = (span: Span, text: string, cells: number) => {
    const last = row.at(-1);
    if (last && sameStyle(last, span)) row[row.length - 1] = { ...last, text: last.text + text };
    else row.push({ ...span, text });
    used += cells;
  };
  for (const span of spans) {
    for (const word of span.text.split(/(?<=\s)(?=\S)/)) {
      const cells = stringWidth(word.trimEnd());
      const start = rows.length === 0 ? 0 : widthOf(hang);
      if (used + cells > room && used > start) next();
      if (used + cells <= room) {
        put(span, word, stringWidth(word));
        continue;
      }
      for (const { segment } of new Intl.Segmenter().segment(word)) {
        const one = stringWidth(segment);
        if (used + one > room) next();
        put(span, segment, one);
      }
    }
  }
  rows.push(row);
  return rows.map(trimEnd);
}

const sameStyle = (a: Span, b: Span): boolean =>
  a.colour === b.colour && a.bold === b.bold && a.dim === b.dim && a.italic === b.italic && a.inverse === b.inverse;

function trimEnd(row: Row): Row {
  const last = row.at(-1);
  return last && /\s$/.test(last.text) ? [...row.slice(0, -1), { ...last, text: last.text.trimEnd() }] : row;
}

/** Plain text as rows of at most `width` cells; tabs are four cells. */
export function wrap(text: string, width: number, style: Omit<Span, 'text'> = {}): Row[] {
  return text.split('\n').flatMap((line) => wrapSpans([{ ...style, text: line.replaceAll('\t', '    ') }], width));
}

/** The same with something in front of each row. */
export function indented(rows: Row[], ...before: Row): Row[] {
  return rows.map((row) => [...before, ...row]);
}
