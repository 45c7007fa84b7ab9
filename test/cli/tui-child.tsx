import { show, type Source } from '../../cli/tui/view.tsx';
import type { Event } from '../../src/api/client.ts';

// A program of its own, so that a test can give it a real terminal. A pty has three descriptors only, so the events come in the
// environment, and what the person did is printed at the end.
const { script, mode, gap } = JSON.parse(process.env.TUI_SCRIPT ?? '{}') as {
  script: Event[];
  mode: 'run' | 'attach';
  gap: number;
};

const answers: string[] = [];
let wake = () => {};
const source: Source = {
  start: {
    runId: '019a3b2c-4d5e-7000-8000-000000000001',
    harness: 'claude',
    model: null,
    prompt: process.env.TUI_PROMPT ?? 'fix the failing test in src/date.ts',
    limits: { timeout_seconds: 1200, max_cost_micro_usd: '500000' },
    workspace: 'shop',
  },
  async *events({ signal }) {
    for (const event of script) {
      if (event.type === 'input.resolved') await new Promise<void>((resolve) => (wake = resolve));
      if (signal.aborted) return;
      const now = new Date().toISOString();
      yield { ...event, created_at: now };
      await new Promise((resolve) => setTimeout(resolve, gap));
    }
    if (!script.at(-1)?.type.match(/completed|failed|cancelled/)) {
      await new Promise<void>((resolve) => {
        wake = resolve;
        signal.addEventListener('abort', () => resolve());
        setTimeout(resolve, 30_000);
      });
    }
  },
  cancel: async () => {
    answers.push('cancel');
  },
  answer: async (id, answer) => {
    answers.push(`${id} ${JSON.stringify(answer)}`);
    wake();
  },
  result: () => Promise.reject(new Error('none')),
};

if (process.env.TUI_CRASH)
  setTimeout(() => {
    throw new Error('crashed on purpose');
  }, Number(process.env.TUI_CRASH));
const { ending, cancelledByUs } = await show(source, {
  mode,
  noInput: false,
  stdin: process.stdin,
  stdout: process.stdout,
});
process.stdout.write(`END ${ending.kind} ${cancelledByUs} ${answers.join(' | ')}\n`);
process.exit(0);
