import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { apart, blockRows } from '../../cli/tui/blocks.ts';
import { actionOf, type Situation } from '../../cli/tui/keys.ts';
import { liveRows, type Screen } from '../../cli/tui/live.ts';
import { markdown } from '../../cli/tui/markdown.ts';
import { type Row, widthOf, wrap } from '../../cli/tui/rows.ts';
import { begin, reduce, summarised, type View } from '../../cli/tui/state.ts';
import { completed, events, permission, runId, started, type Step, tool, usage } from './events.ts';

const text = (rows: Row[]): string => rows.map((row) => row.map((span) => span.text).join('')).join('\n');
const first = begin({
  runId,
  harness: 'claude',
  model: null,
  prompt: 'do it',
  limits: { timeout_seconds: 1200, max_cost_micro_usd: '500000' },
});
const after = (steps: Step[]): View => events(steps).reduce(reduce, first);
const screen = (some: Partial<Screen> = {}): Screen => ({
  width: 80,
  height: 22,
  now: Date.parse('2026-01-02T03:05:00Z'),
  tick: 0,
  workspace: 'shop',
  lostSince: null,
  mode: 'run',
  cancelling: false,
  confirming: false,
  always: null,
  typing: null,
  notice: null,
  thinking: false,
  output: false,
  ...some,
});

const busy: Step[] = [
  ...started(),
  [
    'plan.updated',
    {
      items: Array.from({ length: 9 }, (_, n) => ({
        text: `step ${n} ${'long '.repeat(20)}`,
        status: n < 4 ? 'completed' : 'pending',
      })),
    },
  ],
  [
    'file.changed',
    {
      changes: Array.from({ length: 30 }, (_, n) => ({
        path: `src/${n}/${'x'.repeat(n)}.ts`,
        change: 'added' as const,
      })),
      workspace_revision: 2,
    },
  ],
  [
    'usage.updated',
    { ...usage({ input_tokens: 12_000, cost_micro_usd: '412000' }), limit_percent: { cost: 82, time: 4 } },
  ],
  ...['a', 'b', 'c'].flatMap((id) =>
    tool(id, `run ${id} 日本語 ${'w'.repeat(90)}`, `${'line of output\n'.repeat(50)}`).slice(0, 2),
  ),
  ['message.delta', { message_id: 'm', text: '**Bold** and `code` and some text that is rather long. '.repeat(30) }],
  ['input.requested', permission({ message: 'x'.repeat(3000) })],
];

describe('the live part', () => {
  it('never has more rows or columns than there are, whatever is going on', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 130 }),
        fc.integer({ min: 1, max: 50 }),
        fc.nat(busy.length),
        fc.boolean(),
        (width, height, n, output) => {
          const rows = liveRows(after(busy.slice(0, n)), screen({ width, height, output, thinking: output }));
          expect(rows.length).toBeLessThanOrEqual(height);
          for (const row of rows) expect(widthOf(row)).toBeLessThanOrEqual(width);
        },
      ),
    );
  });

  it('shows question, keys and status when there is room for nothing else', () => {
    const shown = text(liveRows(after(busy), screen({ height: 14 })));
    expect(shown).toContain('needs you');
    expect(shown).toMatch(/ y {2}once {4}a {2}always {4}r {2}reject/);
    expect(shown).toContain('! 82% $0.41/$0.50');
  });

  it('shows what always would allow, exactly, before it is allowed', () => {
    const grant = { kind: 'command' as const, tool: 'Bash', pattern: 'rm -rf build && npm run build' };
    const request = permission({ grant });
    const asking = after([...started(), ['input.requested', request]]);
    const sure = text(liveRows(asking, screen({ always: request.id })));
    expect(sure).toContain('as the agent has it: Always allow rm');
    expect(sure).toContain('just this: Bash: rm -rf build && npm run build');
    expect(sure).toMatch(/ a {2}yes, always/);
    expect(text(liveRows(asking, screen({ always: 'another' })))).not.toContain('just this');
  });

  it('does not offer what the question does not', () => {
    const [once, , no] = permission().options;
    const shown = text(
      liveRows(after([...started(), ['input.requested', permission({ options: [once!, no!] })]]), screen()),
    );
    expect(shown).not.toContain('always');
  });

  it('says when it is too narrow', () => {
    expect(text(liveRows(after(started()), screen({ width: 30 })))).toContain('needs 40 columns');
  });

  it('notes a connection that has been away for more than 10 s, and not before', () => {
    const { now } = screen();
    expect(text(liveRows(after(started()), screen({ lostSince: now - 9000 })))).not.toContain('no connection');
    expect(text(liveRows(after(started()), screen({ lostSince: now - 11_000 })))).toContain('no connection for 11s');
  });

  it('is gone at the end', () => {
    expect(liveRows(after([...started(), completed()]), screen())).toEqual([]);
  });
});

describe('blocks', () => {
  const shown = { thinking: false, output: false };

  it('fit the width and obey no terminal sequence', () => {
    const evil = '\u001B[2J\u001B]0;x\u0007evil\u202E';
    const view = summarised(
      after([
        ...started(),
        ...tool('t', evil, `${evil}\n`.repeat(20), 1),
        ['message.completed', { message_id: 'm', role: 'assistant', text: evil.repeat(40) }],
        ['log', { level: 'warn', stream: 'stderr', text: evil }],
        completed(),
      ]),
      {
        files: [{ path: evil, change: 'added', additions: 3, deletions: 0 }],
        additions: 3,
        deletions: 0,
      },
    );
    for (const block of view.blocks) {
      const rows = blockRows(block, 50, shown);
      for (const row of rows) expect(widthOf(row)).toBeLessThanOrEqual(50);
      // oxlint-disable-next-line no-control-regex
      expect(text(rows)).not.toMatch(/[\u0000-\u0009\u000B-\u001F\u007F-\u009F\u202E]/);
    }
  });

  it('sum up: verdict, figures, files, where to look', () => {
    const view = summarised(after([...started(), completed()]), {
      files: [{ path: 'src/a.ts', change: 'modified', additions: 5, deletions: 2 }],
      additions: 5,
      deletions: 2,
    });
    const summary = text(blockRows(view.blocks.at(-1)!, 80, shown));
    expect(summary).toContain('✓ completed  1m 03s · $0.12 · 12.3k tokens · 2 tool calls');
    expect(summary).toMatch(/1 file changed {2}\+5 -2\n {4}~ src\/a\.ts +\+5 -2/);
    expect(summary).toContain(`agentctl logs ${runId}`);
  });

  it('say what went wrong and what to do', () => {
    const error = { code: 'time_limit_exceeded', message: 'It took too long.', retryable: false, details: {} };
    const view = summarised(
      after([...started(), ['run.failed', { stop_reason: 'time_limit', error, usage: usage() }]]),
      null,
    );
    expect(text(blockRows(view.blocks.at(-1)!, 80, shown))).toMatch(
      /✗ failed[\s\S]*It took too long\.[\s\S]*→ give it longer: --timeout/,
    );
  });

  it('show thinking only when asked, and leave no hole for it', () => {
    const { blocks } = after([
      ['reasoning.completed', { message_id: 'r', text: 'hm' }],
      ...tool('a', 'a', ''),
      ...tool('b', 'b', ''),
    ]);
    expect(blocks.map(({ kind }) => kind)).toEqual(['prompt', 'reasoning', 'tool', 'tool']);
    expect(blockRows(blocks[1]!, 80, shown)).toEqual([]);
    expect(text(blockRows(blocks[1]!, 80, { ...shown, thinking: true }))).toBe('∴ hm');
    expect(blocks.map((_, n) => apart(blocks, n, shown))).toEqual([false, true, true, false]);
  });
});

describe('markdown', () => {
  it('keeps the words and drops the marks', () => {
    expect(
      text(
        markdown(
          '# Title\n\nSome **bold**, *soft* and `a*b*c`.\n- [x] done\n1. [docs](http://x)\n```ts\nconst **a** = 1;\n```\n> quoted',
          60,
        ),
      ),
    ).toBe('Title\n\nSome bold, soft and a*b*c.\n• ☑ done\n1. docs (http://x)\n│ const **a** = 1;\n▏ quoted');
  });

  it('wraps within the width and loses nothing', () => {
    fc.assert(
      fc.property(fc.lorem({ maxCount: 40 }), fc.integer({ min: 5, max: 60 }), (words, width) => {
        const rows = wrap(words, width);
        for (const row of rows) expect(widthOf(row)).toBeLessThanOrEqual(width);
        expect(text(rows).replaceAll(/\s/g, '')).toBe(words.replaceAll(/\s/g, ''));
      }),
    );
  });
});

describe('keys', () => {
  const idle: Situation = {
    mode: 'run',
    pending: null,
    confirming: false,
    always: null,
    cancelling: false,
    typing: null,
  };
  const asked = { ...idle, pending: permission() };
  const question = permission({
    kind: 'question',
    allow_text: true,
    options: [
      { id: 'red', label: 'Red', kind: 'choice' },
      { id: 'blue', label: 'Blue', kind: 'choice' },
    ],
  });
  const does = (situation: Situation, input: string, more: object = {}) => actionOf(situation, { input, ...more });

  it('Ctrl-C cancels in run, leaves the second time, and only leaves in attach', () => {
    expect(does(idle, 'c', { ctrl: true }).do).toBe('cancel');
    expect(does({ ...idle, cancelling: true }, 'c', { ctrl: true }).do).toBe('leave');
    expect(does({ ...idle, mode: 'attach' }, 'c', { ctrl: true }).do).toBe('leave');
  });

  it('x asks in attach; only y says yes', () => {
    expect(does({ ...idle, mode: 'attach' }, 'x').do).toBe('ask-cancel');
    expect(does({ ...idle, mode: 'attach', confirming: true }, 'y').do).toBe('cancel');
    expect(does({ ...idle, mode: 'attach', confirming: true }, 'q').do).toBe('unask');
  });

  it('y, a and r answer a permission, and do nothing without one', () => {
    expect(['y', 'r'].map((key) => does(asked, key))).toMatchObject([
      { answer: { option_id: 'once' } },
      { answer: { option_id: 'no' } },
    ]);
    // What is allowed for good is shown first; what was shown for another question does not count.
    const shown = { do: 'show-always', request: permission().id };
    expect(does(asked, 'a')).toEqual(shown);
    expect(does({ ...asked, always: 'another' }, 'a')).toEqual(shown);
    expect(does({ ...asked, always: permission().id }, 'a')).toMatchObject({ answer: { option_id: 'always' } });
    expect(does({ ...asked, always: permission().id }, '', { escape: true })).toEqual({ ...shown, request: null });
    expect(['y', 'a', 'r'].map((key) => does(idle, key).do)).toEqual(['nothing', 'nothing', 'nothing']);
  });

  it('numbers choose, i writes, Enter sends, Esc goes back', () => {
    const open = { ...idle, pending: question };
    expect(does(open, '2')).toMatchObject({ answer: { option_id: 'blue' } });
    expect(does(open, '3').do).toBe('nothing');
    expect(does(open, 'i')).toEqual({ do: 'type', text: '' });
    const typing = { ...open, typing: 'Gre' };
    expect(does(typing, 'q')).toEqual({ do: 'type', text: 'Greq' });
    expect(does(typing, '', { backspace: true })).toEqual({ do: 'type', text: 'Gr' });
    expect(does(typing, '', { return: true })).toMatchObject({ answer: { text: 'Gre' } });
    expect(does(typing, '', { escape: true })).toEqual({ do: 'type', text: null });
    expect(does(typing, 'c', { ctrl: true }).do).toBe('cancel');
  });
});
