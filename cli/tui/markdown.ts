import { indented, type Row, type Span, wrap, wrapSpans } from './rows.ts';

/** What agents write, as rows: headings, lists, quotes, code, and emphasis within a line. The text must be clean already. */
export function markdown(text: string, width: number): Row[] {
  const rows: Row[] = [];
  let fence: string | null = null;
  for (const line of text.trim().split('\n')) {
    const mark = /^\s*(`{3,}|~{3,})/.exec(line)?.[1];
    if (mark && (fence === null || (mark.startsWith(fence) && line.trim() === mark))) {
      fence = fence === null ? mark : null;
      continue;
    }
    if (fence !== null) rows.push(...indented(wrap(line, width - 2, { colour: 'cyan' }), { text: '│ ', dim: true }));
    else rows.push(...block(line, width));
  }
  return rows;
}

function block(line: string, width: number): Row[] {
  const heading = /^(#{1,6})\s+(.*)$/.exec(line);
  if (heading) return wrapSpans(inline(heading[2] ?? '', { bold: true }), width);
  if (/^\s*([-*_])(\s*\1){2,}\s*$/.test(line)) return [[{ text: '─'.repeat(Math.min(width, 40)), dim: true }]];
  const item = /^(\s*)([-*+]|\d{1,3}[.)])\s+(.*)$/.exec(line);
  if (item) {
    const bullet = /\d/.test(item[2] ?? '') ? `${item[2]} ` : '• ';
    const indent = (item[1] ?? '').replaceAll('\t', '  ').slice(0, 12);
    const hang: Row = [{ text: ' '.repeat(indent.length + bullet.length) }];
    return wrapSpans([{ text: indent + bullet, dim: true }, ...inline(task(item[3] ?? ''))], width, hang);
  }
  const quote = /^>\s?(.*)$/.exec(line);
  if (quote) return indented(wrapSpans(inline(quote[1] ?? '', { dim: true }), width - 2), { text: '▏ ', dim: true });
  return wrapSpans(inline(line), width);
}

const task = (text: string): string => text.replace(/^\[ \] /, '☐ ').replace(/^\[[xX]\] /, '☑ ');

const emphasis =
  /(`+)(.+?)\1|\*\*(.+?)\*\*|__(.+?)__|(?<![\w*])\*([^\s*](?:[^*]*[^\s*])?)\*(?!\w)|\[([^\]]+)\]\((\S+?)\)/g;

function inline(text: string, style: Omit<Span, 'text'> = {}): Row {
  const spans: Row = [];
  let at = 0;
  for (const match of text.matchAll(emphasis)) {
    if (match.index > at) spans.push({ ...style, text: text.slice(at, match.index) });
    at = match.index + match[0].length;
    const [, , code, strong, strong2, soft, label, url] = match;
    if (code !== undefined) spans.push({ ...style, text: code, colour: 'cyan' });
    else if (strong ?? strong2) spans.push({ ...style, text: strong ?? strong2 ?? '', bold: true });
    else if (soft) spans.push({ ...style, text: soft, italic: true });
    else if (label)
      spans.push({ ...style, text: label }, ...(url === label ? [] : [{ ...style, text: ` (${url})`, dim: true }]));
  }
  if (at < text.length || spans.length === 0) spans.push({ ...style, text: text.slice(at) });
  return spans;
}
