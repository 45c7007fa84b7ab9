import type { IBufferCell, Terminal } from '@xterm/headless';

const cell = { width: 8.4, height: 19 };
const colours = ['#3b4252', '#e06c75', '#8fce7a', '#e5c07b', '#6ea8fe', '#c792ea', '#5cc8d7', '#d8dee9'];
const paper = '#16181d';
const ink = '#d8dee9';
/** Ids in the order in which they are met. */
const known = new Map<string, number>();

interface Run {
  text: string;
  x: number;
  cells: number;
  colour: string;
  bold: boolean;
  dim: boolean;
  italic: boolean;
  inverse: boolean;
}

/** The screen of a terminal as an SVG, below the command that made it. Ids and the spinner are always the same. */
export function svg(terminal: Terminal, command: string): string {
  const { active } = terminal.buffer;
  const rows: Run[][] = [];
  for (let y = 0; y < active.baseY + terminal.rows; y++) rows.push(runsOf(terminal, y));
  while (rows.length > 0 && rows.at(-1)?.every(({ text }) => text.trim() === '')) rows.pop();
  const prompt: Run[] = [
    { ...plain, text: '$', x: 0, cells: 1, colour: colours[2] ?? ink, bold: true },
    { ...plain, text: command, x: 2, cells: command.length },
  ];
  const shown = [prompt, ...rows];
  const width = Math.ceil(terminal.cols * cell.width + 32);
  const height = shown.length * cell.height + 56;
  const lines = shown.map((row, y) => row.map((run) => textOf(run, 46 + y * cell.height)).join('')).filter(Boolean);
  const dots = ['#e06c75', '#e5c07b', '#8fce7a'].map(
    (colour, n) => `<circle cx="${18 + n * 16}" cy="16" r="5" fill="${colour}"/>`,
  );
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${escape(command)}">`,
    `<rect width="${width}" height="${height}" rx="8" fill="${paper}"/>`,
    ...dots,
    `<g font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace" font-size="14" xml:space="preserve">`,
    ...lines,
    '</g>',
    '</svg>',
    '',
  ].join('\n');
}

const plain = { colour: ink, bold: false, dim: false, italic: false, inverse: false };

function runsOf(terminal: Terminal, y: number): Run[] {
  const line = terminal.buffer.active.getLine(y);
  const runs: Run[] = [];
  for (let x = 0; line && x < terminal.cols; x++) {
    const at = line.getCell(x);
    if (!at || at.getWidth() === 0) continue;
    const style = styleOf(at);
    const last = runs.at(-1);
    if (last && sameStyle(last, style)) {
      last.text += at.getChars() || ' ';
      last.cells += at.getWidth();
    } else runs.push({ ...style, text: at.getChars() || ' ', x, cells: at.getWidth() });
  }
  return runs
    .filter(({ text, inverse }) => inverse || text.trim() !== '')
    .map((run) => ({ ...run, text: same(run.text) }));
}

function styleOf(at: IBufferCell): typeof plain {
  const n = at.getFgColor();
  const colour = at.isFgPalette() ? (n === 8 ? '#7f8794' : (colours[n % 8] ?? ink)) : ink;
  return {
    colour,
    bold: at.isBold() !== 0,
    dim: at.isDim() !== 0,
    italic: at.isItalic() !== 0,
    inverse: at.isInverse() !== 0,
  };
}

const sameStyle = (a: typeof plain, b: typeof plain): boolean =>
  a.colour === b.colour && a.bold === b.bold && a.dim === b.dim && a.italic === b.italic && a.inverse === b.inverse;

const same = (text: string): string =>
  text
    .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}(-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})?/g, (id) => {
      const begin = id.slice(0, 13);
      if (!known.has(begin)) known.set(begin, known.size);
      const n = (0x5e + (known.get(begin) ?? 0) * 0x25).toString(16).padStart(3, '0');
      return `019a3b2c-4${n}-7000-8000-000000000000`.slice(0, id.length);
    })
    .replaceAll(/[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]/g, '⠋');

function textOf({ text, x, cells, colour, bold, dim, italic, inverse }: Run, y: number): string {
  const start = text.length - text.trimStart().length;
  const shown = inverse ? text : text.trim();
  const left = 16 + (x + (inverse ? 0 : start)) * cell.width;
  const width = (inverse ? cells : cells - (text.length - shown.length)) * cell.width;
  const box = inverse
    ? `<rect x="${left.toFixed(1)}" y="${y - 14}" width="${width.toFixed(1)}" height="${cell.height}" rx="3" fill="${colour}"/>`
    : '';
  const style = `${bold ? ' font-weight="bold"' : ''}${italic ? ' font-style="italic"' : ''}${dim ? ' opacity="0.6"' : ''}`;
  const length = ` textLength="${width.toFixed(1)}" lengthAdjust="spacingAndGlyphs"`;
  return `${box}<text x="${left.toFixed(1)}" y="${y}" fill="${inverse ? paper : colour}"${style}${length}>${escape(shown)}</text>`;
}

const escape = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
