import { alwaysMeans } from '../always.ts';
import { clean, cleanLine } from '../text.ts';
import { clock, count, money, runLook } from '../words.ts';
import { fileSpans, type Shown, tailRows, toolName } from './blocks.ts';
import { markdown } from './markdown.ts';
import { cutRow, indented, type Row, type Span, spread, widthOf, wrap } from './rows.ts';
import { type View, workedMs } from './state.ts';

/** What the live part shows besides the view. */
export interface Screen extends Shown {
  width: number;
  /** Rows that may be used at most. */
  height: number;
  now: number;
  /** Counts up while something moves. */
  tick: number;
  workspace: string | null;
  /** Since when there has been no connection, in milliseconds since the epoch. */
  lostSince: number | null;
  mode: 'run' | 'attach';
  cancelling: boolean;
  /** Asked whether to cancel. */
  confirming: boolean;
  /** The request for which it is shown what `always` would allow. */
  always: string | null;
  /** What is being typed as an answer; null when nothing is. */
  typing: string | null;
  /** What went wrong with the last key. */
  notice: string | null;
}

const spinner = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
/** Below this many columns the view says so instead of showing nonsense. */
export const narrowest = 40;

/** The part of the screen that changes, never more than `screen.height` rows: what matters most is at the bottom. */
export function liveRows(view: View, screen: Screen): Row[] {
  const { width, height } = screen;
  if (view.ended) return [];
  const { word, symbol } = runLook[view.status];
  if (width < narrowest)
    return [
      [{ text: cutRow([{ text: `${symbol} ${word}` }], width)[0]?.text ?? '' }],
      [{ text: `needs ${narrowest} columns`.slice(0, width) }],
    ].slice(0, height);
  const footer = [...questionRows(view, screen), statusRow(view, screen), keysRow(view, screen)];
  const rest = [filesRow(view, width), planRows(view, width), toolsRows(view, screen)].flat();
  const room = height - footer.length;
  if (room <= 0) return footer.slice(-height);
  const middle = rest.slice(-room);
  const said = speech(view, screen, room - middle.length - 2);
  const parts = [said, middle].filter((part) => part.length > 0);
  const upper = parts.flatMap((part) => [[], ...part] as Row[]);
  const rows: Row[] = [...upper, ...(upper.length < room ? [[]] : []), ...footer];
  return rows.slice(-height);
}

/** What is being said or thought, its end when there is no room for all. */
function speech(view: View, { width, thinking, tick }: Screen, room: number): Row[] {
  if (room < 1) return [];
  if (view.message?.text.trim()) {
    const rows = markdown(clean(view.message.text), width);
    return rows.slice(-room);
  }
  if (view.reasoning) {
    if (!thinking) return [[{ text: `${spinner[tick % spinner.length]} thinking …`, dim: true }]];
    return indented(wrap(clean(view.reasoning.text).trim(), width - 2, { dim: true, italic: true }), {
      text: '∴ ',
      dim: true,
    }).slice(-room);
  }
  if (view.status === 'running' && view.tools.length === 0 && view.pending.length === 0) {
    return [[{ text: `${spinner[tick % spinner.length]} working …`, dim: true }]];
  }
  return [];
}

function toolsRows(view: View, { width, now, tick, output }: Screen): Row[] {
  const shell = view.harness === 'shell';
  const most = output ? 12 : view.tools.length > 2 ? 2 : 4;
  return view.tools.slice(-4).flatMap((tool) => {
    const head: Row = [{ text: `${spinner[tick % spinner.length]} `, colour: 'cyan' }, ...toolName(tool.title)];
    return [
      spread(head, [{ text: clock(Math.max(0, now - tool.startedAt) / 1000), dim: true }], width),
      ...(shell
        ? wrap(clean(tool.output), width)
            .slice(-1)
            .filter((row) => widthOf(row) > 0)
        : tailRows(tool.output, width, most)),
    ];
  });
}

function planRows({ plan }: View, width: number): Row[] {
  if (plan.length === 0) return [];
  const done = plan.filter(({ status }) => status === 'completed').length;
  const at = Math.max(
    0,
    plan.findIndex(({ status }) => status !== 'completed'),
  );
  const first = Math.max(0, Math.min(at - 1, plan.length - 5));
  const look = { completed: '✓', in_progress: '▸', pending: '○' } as const;
  const rows = plan.slice(first, first + 5).map(({ text, status }): Row => {
    const style = status === 'completed' ? { dim: true } : status === 'in_progress' ? { bold: true } : {};
    return cutRow(
      [
        { text: `  ${look[status]} `, colour: status === 'pending' ? 'gray' : 'cyan' },
        { text: cleanLine(text), ...style },
      ],
      width,
    );
  });
  const hidden = plan.length - rows.length;
  return [
    [
      { text: 'Plan', bold: true },
      { text: ` ${done}/${plan.length}${hidden > 0 ? ` · ${hidden} not shown` : ''}`, dim: true },
    ],
    ...rows,
  ];
}

function filesRow({ files }: View, width: number): Row[] {
  const all = Object.entries(files);
  if (all.length === 0) return [];
  const row: Row = [{ text: 'Files', bold: true }];
  let left = all.length;
  for (const [path, change] of all.toReversed()) {
    const spans: Row = [{ text: '  ' }, ...fileSpans(path, change)];
    if (widthOf(row) + widthOf(spans) > width - 10 && left < all.length) break;
    row.push(...spans);
    left--;
  }
  if (left > 0) row.push({ text: `  and ${left} more`, dim: true });
  return [cutRow(row, width)];
}

function questionRows(view: View, screen: Screen): Row[] {
  const { width, typing, height } = screen;
  const [request] = view.pending;
  if (!request) return [];
  const inner = width - 4;
  const { title, message, options, allow_text } = request;
  const plain = (text: string) =>
    clean(text)
      .trim()
      .replace(/^`(.+)`$/s, '$1');
  const sure = screen.always === request.id;
  const body: Row[] = sure
    ? alwaysMeans(request).flatMap((sentence) => wrap(sentence, inner, { colour: 'cyan' }))
    : wrap(plain(title), inner, { bold: true });
  const tool = view.tools.find(({ id }) => id === request.tool_call_id);
  const about = [
    message && clean(message).trim(),
    tool && tool.locations.length > 0 && tool.locations.map(cleanLine).join('\n'),
  ];
  for (const text of about)
    if (text && text !== plain(title) && !sure) body.push(...wrap(text, inner, { colour: 'cyan' }));
  const most = Math.max(3, height - 8);
  const cut =
    body.length > most
      ? [...body.slice(0, most - 1), [{ text: `… ${body.length - most + 1} more lines`, dim: true }]]
      : body;
  const permission = options.some(({ kind }) => kind !== 'choice');
  const keys: Row = [];
  if (permission) {
    const offers = [
      ['y', 'once', ['allow_once']],
      ['a', sure ? 'yes, always' : 'always', ['allow_always']],
      ['r', 'reject', ['reject_once', 'reject_always']],
    ] as const;
    for (const [key, word, kinds] of offers) {
      if (options.some(({ kind }) => (kinds as readonly string[]).includes(kind)))
        keys.push({ text: ` ${key} `, inverse: true }, { text: ` ${word}   ` });
    }
  } else {
    for (const [n, { label }] of options.slice(0, 9).entries())
      cut.push([{ text: ` ${n + 1} `, inverse: true }, { text: ` ${cleanLine(label)}` }]);
  }
  if (allow_text && typing === null) keys.push({ text: ' i ', inverse: true }, { text: ' answer in words' });
  const last: Row =
    typing === null
      ? keys
      : [{ text: '> ', colour: 'yellow' }, { text: typing.slice(-(inner - 6)) }, { text: ' ', inverse: true }];
  const more = view.pending.length > 1 ? ` 1 of ${view.pending.length}` : '';
  const head = ` ? needs you${more} `;
  const line = (row: Row): Row => [
    { text: '│ ', colour: 'yellow' },
    ...spread(cutRow(row, inner), [], inner),
    { text: ' │', colour: 'yellow' },
  ];
  return [
    [{ text: `╭─${head}${'─'.repeat(Math.max(0, width - head.length - 3))}╮`, colour: 'yellow' }],
    ...cut.map(line),
    ...(last.length > 0 ? [line([]), line(last)] : []),
    [{ text: `╰${'─'.repeat(width - 2)}╯`, colour: 'yellow' }],
  ];
}

function statusRow(view: View, { width, now, workspace, lostSince, cancelling }: Screen): Row {
  const status = cancelling && view.status !== 'cancelling' ? 'cancelling' : view.status;
  const { symbol, word, colour } = runLook[status];
  const worked = workedMs(view, now);
  const { timeout_seconds, max_cost_micro_usd } = view.limits;
  const time = worked === null ? null : `${clock(worked / 1000)}${timeout_seconds ? `/${clock(timeout_seconds)}` : ''}`;
  const spent = view.usage?.cost_micro_usd ?? null;
  const cost =
    spent !== null && view.harness !== 'shell' && (spent !== '0' || max_cost_micro_usd)
      ? `${money(spent)}${max_cost_micro_usd ? `/${money(max_cost_micro_usd)}` : ''}`
      : null;
  const tokens = view.usage ? view.usage.input_tokens + view.usage.output_tokens : 0;
  const warn = (percent: number | null): Omit<Span, 'text'> =>
    percent !== null && percent >= 80 ? { colour: percent >= 100 ? 'red' : 'yellow', bold: true } : {};
  const warned = (percent: number | null) => (percent !== null && percent >= 80 ? `! ${Math.round(percent)}% ` : '');
  const parts: (Span | null)[] = [
    {
      text: `${symbol} ${word}${view.blockedBy && view.status === 'queued' ? ` behind a ${view.blockedBy}` : ''}`,
      colour,
      bold: true,
    },
    { text: `${cleanLine(view.harness)}${view.model ? ` · ${cleanLine(view.model)}` : ''}` },
    time ? { text: warned(view.percent.time) + time, ...warn(view.percent.time) } : null,
    cost ? { text: warned(view.percent.cost) + cost, ...warn(view.percent.cost) } : null,
    tokens > 0 ? { text: `${count(tokens)} tokens`, dim: true } : null,
  ];
  const row: Row = [];
  for (const part of parts) {
    if (!part) continue;
    if (row.length > 0) row.push({ text: ' · ', dim: true });
    row.push(part);
  }
  const lost = lostSince !== null && now - lostSince > 10_000;
  const right: Row = lost
    ? [{ text: `no connection for ${clock((now - lostSince) / 1000)}`, colour: 'yellow' }]
    : workspace
      ? [{ text: cleanLine(workspace), dim: true }]
      : [];
  if (!lost && widthOf(row) + widthOf(right) + 2 > width) return cutRow(row, width);
  return spread(row, right, width);
}

function keysRow(view: View, { width, mode, confirming, typing, cancelling, notice, thinking, output }: Screen): Row {
  if (notice) return cutRow([{ text: `! ${cleanLine(notice)}`, colour: 'yellow' }], width);
  if (confirming)
    return cutRow([{ text: 'Cancel this run? ', colour: 'yellow', bold: true }, { text: 'y yes   n no' }], width);
  if (typing !== null) return cutRow([{ text: 'Enter sends · Esc goes back', dim: true }], width);
  if (cancelling) return cutRow([{ text: 'Cancelling … Ctrl-C again leaves without waiting', dim: true }], width);
  const keys = [
    mode === 'run' ? 'Ctrl-C or x cancels' : 'x cancels',
    mode === 'run' ? 'q leaves it running' : 'q leaves',
    `t ${thinking ? 'hide' : 'show'} thinking`,
    `e ${output ? 'less' : 'more'} output`,
  ];
  return cutRow([{ text: (view.harness === 'shell' ? keys.slice(0, 2) : keys).join(' · '), dim: true }], width);
}
