import stringWidth from 'string-width';

/** How many cells of a terminal a text takes. */
export const widthOfText = (text: string): number => stringWidth(text);

/** Text cut to a width in terminal cells, with `…` where something is missing. */
export function fit(text: string, width: number): string {
  if (widthOfText(text) <= width) return text;
  let cut = '';
  let used = 1;
  for (const { segment } of new Intl.Segmenter().segment(text)) {
    used += widthOfText(segment);
    if (used > width) break;
    cut += segment;
  }
  return `${cut}…`;
}

/** Text broken at spaces into lines of at most `width` cells; each but the first begins with `hang`. */
export function wrapped(text: string, width: number, hang = ''): string {
  const lines: string[] = [];
  let line = /^\s*/.exec(text)?.[0] ?? '';
  let empty = true;
  for (const word of text.trim().split(/\s+/)) {
    if (!empty && widthOfText(line) + 1 + widthOfText(word) > width) {
      lines.push(line);
      line = hang;
      empty = true;
    }
    line += empty ? word : ` ${word}`;
    empty = false;
  }
  return [...lines, line].join('\n');
}
