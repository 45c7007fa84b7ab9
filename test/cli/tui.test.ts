import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from 'vitest';
import { completed, events, permission, started, type Step, tool } from './events.ts';
import { bundle, open, type Terminal } from './terminal.ts';

let program = '';
beforeAll(async () => {
  program = await bundle(fileURLToPath(new URL('./tui-child.tsx', import.meta.url)));
});

interface Given {
  mode?: 'run' | 'attach';
  gap?: number;
  columns?: number;
  rows?: number;
  env?: Record<string, string>;
}

const play = (steps: Step[], { mode = 'run', gap = 1, columns = 80, rows = 24, env = {} }: Given = {}): Terminal =>
  open(program, [], { TUI_SCRIPT: JSON.stringify({ script: events(steps), mode, gap }), ...env }, columns, rows);

const message = (id: string, text: string): Step => ['message.completed', { message_id: id, role: 'assistant', text }];
const asking: Step[] = [
  ...started(),
  ['run.status_changed', { from: 'running', to: 'awaiting_input', reason: 'x' }],
  ['input.requested', permission()],
];
const goesOn: Step[] = [
  ['input.resolved', { request_id: permission().id, status: 'answered', answered_by: null }],
  ['run.status_changed', { from: 'awaiting_input', to: 'running', reason: 'x' }],
  completed(),
];

/** What a terminal must be told at the end: the cursor is seen again. */
const isRestored = ({ raw }: Terminal) => raw.lastIndexOf('\u001B[?25h') > raw.lastIndexOf('\u001B[?25l');

describe('the live view in a real terminal', () => {
  it('leaves the transcript in the scrollback, each piece once, and the summary at its end', async () => {
    const many = Array.from({ length: 40 }, (_, n) => [
      ...tool(`t${n}`, `step number ${n}.`, `out ${n}\n`),
      message(`m${n}`, `said ${n}.`),
    ]).flat();
    const terminal = play([...started(), ...many, completed()]);
    const text = await terminal.until(/END ended false/);
    for (let n = 0; n < 40; n++) {
      expect(text.split(`step number ${n}.`)).toHaveLength(2);
      expect(text.split(`said ${n}.`)).toHaveLength(2);
    }
    expect(text.indexOf('said 39.')).toBeLessThan(text.indexOf('✓ completed'));
    expect(text).not.toContain('Ctrl-C or x cancels');
    expect(await terminal.exited).toBe(0);
    expect(isRestored(terminal)).toBe(true);
  });

  it('stays within the screen while a long message comes', async () => {
    const long = Array.from({ length: 60 }, (_, n): Step => [
      'message.delta',
      { message_id: 'm', text: `line ${n} of a long message\n` },
    ]);
    const terminal = play([...started(), ...long], { rows: 16 });
    await terminal.until(/line 59/);
    expect(terminal.screen().filter((line) => line.includes('● running'))).toHaveLength(1);
    expect(terminal.emulator.buffer.active.baseY).toBeLessThan(4);
    terminal.write('q');
    expect(await terminal.until(/END/)).toContain('END left false');
  });

  it('answers with y', async () => {
    const terminal = play([...asking, ...goesOn]);
    await terminal.until(/needs you[\s\S]*rm -rf build[\s\S]*r {2}reject/);
    terminal.write('y');
    expect(await terminal.until(/END/)).toContain(`END ended false ${permission().id} {"option_id":"once"}`);
    expect(terminal.raw).toContain('\u0007');
  });

  it('cancels with Ctrl-C in run, and a second one leaves', async () => {
    const terminal = play(started());
    await terminal.until(/● running/);
    terminal.write('\u0003');
    await terminal.until(/Cancelling/);
    terminal.write('\u0003');
    expect(await terminal.until(/END/)).toContain('END left true cancel');
  });

  it('asks before x cancels in attach, where Ctrl-C only leaves', async () => {
    const terminal = play(started(), { mode: 'attach' });
    await terminal.until(/● running/);
    terminal.write('x');
    await terminal.until(/Cancel this run\? y yes/);
    terminal.write('n');
    await terminal.until((text) => !text.includes('Cancel this run?'));
    terminal.write('\u0003');
    expect(await terminal.until(/END/)).toContain('END left false');
  });

  it('shows thinking and more output when asked', async () => {
    const terminal = play([...started(), ['reasoning.delta', { message_id: 'r', text: 'deep thought' }]]);
    await terminal.until(/thinking …/);
    terminal.write('t');
    expect(await terminal.until(/∴ deep thought/)).not.toContain('thinking …');
    terminal.write('q');
    await terminal.exited;
  });

  it.each([
    [40, 10],
    [80, 24],
    [200, 60],
  ])('works at %i columns and %i rows, and after a change of size', async (columns, rows) => {
    const terminal = play(asking, { columns, rows });
    await terminal.until(/needs you/);
    terminal.resize(columns + 7, rows + 1);
    // The screen is seen in the middle of being drawn, too: what counts is what it comes to.
    await terminal.until(
      () =>
        terminal.screen().some((line) => line.startsWith('╭') && line.trimEnd().length === columns + 6) &&
        terminal.screen().filter((line) => line.startsWith('? needs you')).length === 1,
    );
    expect(terminal.screen().length).toBe(rows + 1);
    terminal.write('q');
    await terminal.exited;
  });

  it('says so when there is no room', async () => {
    const terminal = play(asking, { columns: 30 });
    expect(await terminal.until(/needs 40 columns/)).not.toContain('╭');
    terminal.write('q');
    await terminal.exited;
  });

  it('gives the terminal back after a crash and after a signal', async () => {
    const crashed = play(started(), { env: { TUI_CRASH: '400' } });
    await crashed.until(/● running/);
    expect(await crashed.exited).not.toBe(0);
    expect(isRestored(crashed)).toBe(true);
    const ended = play(started());
    await ended.until(/● running/);
    ended.kill('SIGTERM');
    await ended.exited;
    expect(isRestored(ended)).toBe(true);
  });

  it('lets no control sequence of an agent through', async () => {
    const evil = '\u001B]0;owned\u0007\u001B[2J\u001B[31mred\u202Etxt';
    const terminal = play([...started(), message('m', evil), ...tool('t', evil, evil), completed()], {
      env: { TUI_PROMPT: evil },
    });
    await terminal.until(/END/);
    expect(terminal.raw).not.toContain('owned');
    expect(terminal.raw).not.toContain('\u001B[31mred');
    expect(terminal.raw).not.toContain('\u202E');
  });
});
