import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { blockRows } from '../../cli/tui/blocks.ts';
import { begin, reduce, summarised, type View, workedMs } from '../../cli/tui/state.ts';
import type { Event } from '../../src/api/client.ts';
import { completed, events, permission, runId, started, type Step, tool, usage } from './events.ts';

const first = begin({ runId, harness: 'claude', model: null, prompt: 'do it', limits: {} });
const after = (steps: Step[], view: View = first): View => events(steps, view.sequence + 1).reduce(reduce, view);
const kinds = (view: View) => view.blocks.map(({ kind }) => kind);

describe('the view of a run', () => {
  it('begins with the prompt', () => {
    expect(kinds(first)).toEqual(['prompt']);
    expect(first.status).toBe('queued');
  });

  it('knows what runs once it has started', () => {
    expect(after(started())).toMatchObject({ status: 'running', harness: 'claude', model: 'sonnet-4.5' });
  });

  it('joins deltas and prints the message once it is complete', () => {
    const half = after([
      ...started(),
      ['message.started', { message_id: 'm', role: 'assistant' }],
      ['message.delta', { message_id: 'm', text: 'Hel' }],
      ['message.delta', { message_id: 'm', text: 'lo' }],
    ]);
    expect(half.message).toEqual({ id: 'm', text: 'Hello' });
    const whole = after([['message.completed', { message_id: 'm', role: 'assistant', text: 'Hello!' }]], half);
    expect(whole.message).toBeNull();
    expect(whole.blocks.at(-1)).toMatchObject({ kind: 'message', text: 'Hello!' });
  });

  it('shows what was thought before what came of it', () => {
    const view = after([
      ...started(),
      ['reasoning.delta', { message_id: 'r', text: 'Hmm' }],
      ['message.started', { message_id: 'm', role: 'assistant' }],
    ]);
    expect(view.reasoning).toBeNull();
    expect(view.blocks.at(-1)).toMatchObject({ kind: 'reasoning', text: 'Hmm' });
  });

  it('keeps running tools below and finished ones above', () => {
    const [start, output, end] = tool('t', 'npm test', 'ok\n') as [Step, Step, Step];
    const running = after([...started(), start, output]);
    expect(running.tools).toMatchObject([{ id: 't', title: 'npm test', output: 'ok\n' }]);
    const done = after([end], running);
    expect(done.tools).toEqual([]);
    expect(done.blocks.at(-1)).toMatchObject({ kind: 'tool', status: 'completed', durationMs: 1200 });
  });

  it('prints a script’s output line by line, as its result', () => {
    const [start] = tool('shell', 'x', '') as [Step];
    const piece = (text: string): Step => [
      'tool.output',
      { tool_call_id: 'shell', stream: 'stdout', text, truncated: false },
    ];
    const view = after([...started('shell', null), start, piece('one\ntw'), piece('o\nthree')]);
    expect(view.blocks.filter(({ kind }) => kind === 'output')).toMatchObject([{ text: 'one' }, { text: 'two' }]);
    expect(view.tools[0]?.output).toBe('three');
    const end = after([completed()], view);
    expect(end.blocks.at(-1)).toMatchObject({ kind: 'output', text: 'three' });
  });

  it('sums up what became of a file', () => {
    const change = (path: string, how: 'added' | 'modified' | 'deleted'): Step => [
      'file.changed',
      { changes: [{ path, change: how }], workspace_revision: 1 },
    ];
    const view = after([
      change('a', 'added'),
      change('a', 'modified'),
      change('b', 'added'),
      change('b', 'deleted'),
      change('c', 'deleted'),
      change('c', 'added'),
      change('d', 'modified'),
      change('d', 'deleted'),
    ]);
    expect(view.files).toEqual({ a: 'added', c: 'modified', d: 'deleted' });
  });

  it('asks, and forgets the question once it is answered', () => {
    const asking = after([
      ...started(),
      ['run.status_changed', { from: 'running', to: 'awaiting_input', reason: 'x' }],
      ['input.requested', permission()],
    ]);
    expect(asking).toMatchObject({ status: 'awaiting_input', pending: [{ title: 'Run a command?' }] });
    const answered = after(
      [['input.resolved', { request_id: permission().id, status: 'answered', answered_by: 'me' }]],
      asking,
    );
    expect(answered.pending).toEqual([]);
    expect(answered.blocks.at(-1)).toMatchObject({ kind: 'answered', status: 'answered' });
  });

  it('does not count the time that it waited', () => {
    const wait: Step[] = [
      ['run.status_changed', { from: 'running', to: 'awaiting_input', reason: 'x' }],
      ['log', { level: 'debug', stream: 'daemon', text: '' }],
      ['run.status_changed', { from: 'awaiting_input', to: 'running', reason: 'x' }],
    ];
    const view = after([...started(), ...wait]);
    const begun = view.startedAt ?? 0;
    expect(workedMs(view, begun + 1000)).toBe(800);
    expect(workedMs(first, 0)).toBeNull();
  });

  it('ends with whatever was open, and then the summary', () => {
    const [start] = tool('t', 'sleep', '') as [Step];
    const view = after([
      ...started(),
      start,
      ['message.delta', { message_id: 'm', text: 'half' }],
      ['run.cancelled', { stop_reason: 'cancelled', error: null, usage: usage() }],
    ]);
    expect(view).toMatchObject({ status: 'cancelled', tools: [], message: null, ended: { status: 'cancelled' } });
    expect(kinds(summarised(view, null)).slice(-3)).toEqual(['message', 'tool', 'summary']);
  });

  it('names what the run was asked to leave, and not what is there for every run', () => {
    const step = (kind: 'file' | 'diff' | 'transcript' | 'output', path: string): Step => [
      'artifact.created',
      {
        id: runId,
        organization_id: runId,
        run_id: runId,
        workspace_id: runId,
        created_at: '2026-01-02T03:04:05.000Z',
        updated_at: '2026-01-02T03:04:05.000Z',
        name: path,
        path,
        kind,
        media_type: 'text/plain',
        size_bytes: 2048,
        sha256: '0'.repeat(64),
      },
    ];
    const steps = [
      step('file', 'report\u001b[2J.md'),
      step('diff', 'changes.diff'),
      step('transcript', 'transcript.jsonl'),
    ];
    const view = summarised(after([...started(), ...steps, step('output', 'output/t.log'), completed()]), null);
    const text = blockRows(view.blocks.at(-1)!, 200, { thinking: false, output: false })
      .map((row) => row.map((span) => span.text).join(''))
      .join('\n');
    expect(text).toContain('2 artifacts: report.md (2.0 KiB), output/t.log (2.0 KiB) · agentctl artifacts get NAME -r');
    expect(text).not.toContain('changes.diff');
  });

  it('is the same however often events come again', () => {
    const all = events([
      ...started(),
      ...tool('t', 'x', 'out'),
      ['message.completed', { message_id: 'm', role: 'assistant', text: 'hi' }],
      completed(),
    ]);
    const once = all.reduce(reduce, first);
    fc.assert(
      fc.property(fc.array(fc.nat(all.length - 1)), (again) => {
        const doubled = all.flatMap((event, n): Event[] => [
          event,
          ...again.filter((m) => m <= n).map((m) => all[m] as Event),
        ]);
        expect(doubled.reduce(reduce, first)).toEqual(once);
      }),
    );
  });

  it('never gives two blocks the same key', () => {
    const view = after([
      ...started(),
      ['reasoning.delta', { message_id: 'r', text: 'a' }],
      ['message.started', { message_id: 'm', role: 'assistant' }],
      ['reasoning.delta', { message_id: 'r2', text: 'b' }],
      ['message.completed', { message_id: 'm', role: 'assistant', text: 'hi' }],
      ...tool('t', 'x', 'y'),
      ['message.delta', { message_id: 'n', text: 'z' }],
      completed(),
    ]);
    const keys = summarised(view, null).blocks.map(({ key }) => key);
    expect(new Set(keys).size).toBe(keys.length);
  });
});
