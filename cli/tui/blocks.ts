import { clean, cleanLine } from '../text.ts';
import { count, duration, leftLine, money, plural, runLook, shortId } from '../words.ts';
import { markdown } from './markdown.ts';
import { cutRow, indented, type Row, type Span, spread, wrap, wrapSpans } from './rows.ts';
import type { Block, Summary } from './state.ts';

/** What the person has switched on. */
export interface Shown {
  thinking: boolean;
  output: boolean;
}

const bar: Span = { text: '│ ', dim: true };

const close: Partial<Record<Block['kind'], Block['kind'][]>> = {
  started: ['prompt'],
  tool: ['tool'],
  output: ['output'],
  note: ['note', 'output'],
  answered: ['answered', 'tool'],
};

/** Whether an empty row stands before the block at `index`: between a list of tools and what is said, not within one. */
export function apart(blocks: Block[], index: number, { thinking }: Shown): boolean {
  const block = blocks[index];
  const before = blocks.slice(0, index).findLast(({ kind }) => thinking || kind !== 'reasoning');
  return block !== undefined && before !== undefined && !close[block.kind]?.includes(before.kind);
}

/** A finished piece of the transcript as rows of at most `width` cells; empty when it is not to be seen. */
export function blockRows(block: Block, width: number, shown: Shown): Row[] {
  switch (block.kind) {
    case 'prompt': {
      const rows = wrap(clean(block.text).trim(), width - 2, { bold: true });
      const most = 12;
      const cut =
        rows.length > most
          ? [...rows.slice(0, most - 1), [{ text: `… ${rows.length - most + 1} more lines`, dim: true }]]
          : rows;
      return indented(cut, { text: '▌ ', colour: 'cyan' });
    }
    case 'started': {
      const { isolation, attempt } = block;
      const parts = [
        cleanLine(block.harness),
        block.model && cleanLine(block.model),
        isolation.level === 'none'
          ? 'no sandbox'
          : `sandbox ${isolation.level}${isolation.network_enforced ? '' : ', open network'}`,
        attempt > 1 && `attempt ${attempt}`,
      ].filter(Boolean);
      return wrap(parts.join(' · '), width, { dim: true });
    }
    case 'message':
      return markdown(clean(block.text), width);
    case 'reasoning':
      if (!shown.thinking) return [];
      return [
        ...indented(wrap(clean(block.text).trim(), width - 2, { dim: true, italic: true }), { text: '∴ ', dim: true }),
      ];
    case 'output':
      return wrap(clean(block.text), width, block.stream === 'stderr' ? { colour: 'yellow' } : {});
    case 'tool':
      return toolRows(block, width, shown);
    case 'answered': {
      const how = {
        answered: '✓ allowed',
        rejected: '✗ rejected',
        expired: '! expired',
        cancelled: '⊘ withdrawn',
        pending: '?',
      }[block.status];
      const answer = block.request.kind === 'permission' || block.status !== 'answered' ? how : '✓ answered';
      // Who answered is named where it is a name; an id says nothing here.
      const by = block.by && !/^[0-9a-f]{8}-/.test(block.by) ? `  by ${cleanLine(block.by)}` : '';
      return wrapSpans(
        [
          { text: `${answer}  `, colour: block.status === 'answered' ? 'green' : 'yellow' },
          ...toolName(block.request.title),
          { text: by, dim: true },
        ],
        width,
      );
    }
    case 'note': {
      const look = {
        info: { text: '· ', dim: true },
        warn: { text: '! ', colour: 'yellow' as const },
        error: { text: '✗ ', colour: 'red' as const },
      };
      const mark = look[block.level];
      const { text: _, ...style } = mark as Span;
      return indented(wrap(clean(block.text).trimEnd(), width - 2, style), mark);
    }
    case 'summary':
      return summaryRows(block.view, width);
  }
}

function toolRows(
  { tool, status, exitCode, durationMs }: Extract<Block, { kind: 'tool' }>,
  width: number,
  shown: Shown,
): Row[] {
  const mark: Span =
    status === 'completed'
      ? { text: '✓ ', colour: 'green' }
      : { text: '✗ ', colour: status === 'rejected' ? 'yellow' : 'red' };
  const how =
    status === 'completed'
      ? ''
      : status === 'rejected'
        ? ' rejected'
        : exitCode === null
          ? ' failed'
          : ` exit ${exitCode}`;
  const head = spread(
    [mark, ...toolName(tool.title)],
    [{ text: `${how.trim()}${how ? ' ' : ''}${duration(durationMs)}`, dim: true }],
    width,
  );
  const most = shown.output ? 200 : status === 'completed' ? 3 : 8;
  return [head, ...tailRows(tool.output, width, most)];
}

/** A tool's title, in which the command is what matters. */
export const toolName = (title: string): Row => {
  const [, code] = /^`(.+)`$/.exec(cleanLine(title)) ?? [];
  return [{ text: code ?? cleanLine(title), bold: code !== undefined }];
};

/** The last lines of a tool's output, and how many there are before them. */
export function tailRows(output: string, width: number, most: number): Row[] {
  const text = clean(output).replace(/^\n+|\s+$/g, '');
  if (!text) return [];
  const lines = text.split('\n');
  const more = lines.length - most;
  const rows = lines
    .slice(-most)
    .flatMap((line) => wrap(line, width - 4, { dim: true }))
    .slice(-most);
  const head: Row[] = more > 0 ? [[{ text: `  … ${plural(more, 'line')} before`, dim: true }]] : [];
  return [...head, ...indented(rows, { text: '  ' }, bar)];
}

const changeLook = {
  added: { text: '+ ', colour: 'green' },
  modified: { text: '~ ', colour: 'yellow' },
  deleted: { text: '- ', colour: 'red' },
} as const;

/** A file and how it changed. */
export const fileSpans = (path: string, change: keyof typeof changeLook): Row => [
  changeLook[change],
  { text: cleanLine(path) },
];

/** What to do about the errors that a person can mend. */
const remedies: Record<string, string> = {
  time_limit_exceeded: 'give it longer: --timeout',
  cost_limit_exceeded: 'give it more: --max-cost',
  provider_auth: 'log the harness in, or give it its key; agentctl doctor shows which are ready',
  provider_rate_limited: 'wait a little, then agentctl retry',
  harness_not_found: 'agentctl harnesses shows what is installed',
  input_expired: 'agentctl retry, and answer in time: agentctl inbox',
  harness_lost: 'agentctl retry',
  harness_stalled: 'agentctl retry',
};

function summaryRows({ runId, harness, status, ended, changes, files, artifacts }: Summary, width: number): Row[] {
  const { symbol, word, colour } = runLook[status];
  const { usage, error, stop_reason } = ended;
  const figures = [
    duration(usage.duration_ms),
    usage.cost_micro_usd === null || harness === 'shell' ? null : money(usage.cost_micro_usd),
    usage.input_tokens + usage.output_tokens > 0 ? `${count(usage.input_tokens + usage.output_tokens)} tokens` : null,
    usage.tool_calls > 0 && harness !== 'shell' ? plural(usage.tool_calls, 'tool call') : null,
  ].filter(Boolean);
  const rows: Row[] = [
    [{ text: '─'.repeat(Math.min(width, 60)), dim: true }],
    ...wrapSpans([{ text: `${symbol} ${word}`, colour, bold: true }, { text: `  ${figures.join(' · ')}` }], width),
  ];
  if (error) rows.push(...indented(wrap(clean(error.message), width - 2, { colour: 'red' }), { text: '  ' }));
  else if (status === 'failed' && stop_reason) rows.push([{ text: `  ${stop_reason}`, colour: 'red' }]);
  const tail = harness !== 'shell' && typeof error?.details.stderr_tail === 'string' ? error.details.stderr_tail : '';
  if (tail) rows.push(...tailRows(tail, width, 5));
  const remedy = error && (typeof error.details.remedy === 'string' ? error.details.remedy : remedies[error.code]);
  if (remedy) rows.push(...indented(wrap(cleanLine(remedy), width - 4), { text: '  → ', dim: true }));
  const changed =
    changes?.files ??
    Object.entries(files).map(([path, change]) => ({ path, change, additions: null, deletions: null }));
  if (changed.length > 0) {
    const total = changes && changes.additions !== null ? `  +${changes.additions} -${changes.deletions ?? 0}` : '';
    rows.push([{ text: `  ${plural(changed.length, 'file')} changed` }, { text: total, dim: true }]);
    for (const { path, change, additions, deletions } of changed.slice(0, 15)) {
      const numbers = additions === null ? '' : `+${additions} -${deletions ?? 0}`;
      rows.push(
        spread([{ text: '    ' }, ...fileSpans(path, change)], [{ text: numbers, dim: true }], Math.min(width, 72)),
      );
    }
    if (changed.length > 15) rows.push([{ text: `    … ${changed.length - 15} more`, dim: true }]);
  }
  const left = leftLine(artifacts, runId);
  if (left) rows.push(...indented(wrap(left, width - 2), { text: '  ' }));
  const hint = `  agentctl logs ${runId}`;
  rows.push([{ text: hint.length > width ? `  agentctl logs ${shortId(runId)}` : hint, dim: true }]);
  return rows.map((row) => cutRow(row, width));
}
