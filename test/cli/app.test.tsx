import { render } from 'ink-testing-library';
import { describe, expect, it } from 'vitest';
import { App } from '../../cli/tui/app.tsx';
import type { Pressed } from '../../cli/tui/keys.ts';
import { begin, reduce } from '../../cli/tui/state.ts';
import { events, permission, runId, started, tool } from './events.ts';

const screen = {
  now: Date.parse('2026-01-02T03:05:00Z'),
  tick: 0,
  workspace: 'shop',
  lostSince: null,
  mode: 'run' as const,
  cancelling: false,
  confirming: false,
  always: null,
  typing: null,
  notice: null,
  thinking: false,
  output: false,
};
const first = begin({ runId, harness: 'claude', model: null, prompt: 'do it', limits: {} });

describe('the app', () => {
  it('shows what has ended above what goes on, and hands keys down', async () => {
    const keys: Pressed[] = [];
    const view = events([...started(), ...tool('a', 'npm test', 'all good'), ['input.requested', permission()]]).reduce(
      reduce,
      first,
    );
    const { lastFrame, stdin, unmount } = render(<App view={view} screen={screen} onKey={(key) => keys.push(key)} />);
    await expect.poll(() => lastFrame()).toContain('needs you');
    const frame = lastFrame() ?? '';
    expect(frame.indexOf('▌ do it')).toBeLessThan(frame.indexOf('✓ npm test'));
    expect(frame.indexOf('✓ npm test')).toBeLessThan(frame.indexOf('? needs you'));
    stdin.write('y');
    await expect.poll(() => keys.map(({ input }) => input)).toEqual(['y']);
    unmount();
  });
});
