import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { Place, until } from '../../kit/runner.ts';
import type { Action } from '../../kit/scripted-agent.ts';

const types = (drafts: { type: string }[]): string[] => drafts.map(({ type }) => type);

test('a prompt: message, thought, tool call, file, usage, result', async () => {
  await using place = new Place();
  const runner = place.start(
    place.agent({
      prompts: [
        [
          { think: 'hm' },
          { say: 'I will ' },
          { say: 'write.' },
          { tool: { id: 't1', title: 'Write a', kind: 'edit', rawInput: { path: 'a.txt' } } },
          { write: { path: 'a.txt', text: 'a' } },
          { tool_update: { id: 't1', status: 'completed', rawOutput: 'written' } },
          { cost: 0.5 },
          { say: 'Done.', id: 'last' },
          { end: 'end_turn', usage: { inputTokens: 10, outputTokens: 5, cachedReadTokens: 3, totalTokens: 18 } },
        ],
      ],
    }),
  );
  const final = await runner.final();
  expect(final).toMatchObject({
    status: 'completed',
    stop_reason: 'end_turn',
    text: 'Done.',
    changes: [{ path: 'a.txt', change: 'added' }],
    usage: {
      input_tokens: 10,
      cached_input_tokens: 3,
      output_tokens: 5,
      tool_calls: 1,
      turns: 2,
      cost_micro_usd: '500000',
      cost_source: 'reported',
    },
  });
  expect(runner.find('started')).toMatchObject({ harness_version: '1.2.3' });
  expect(runner.find('session')?.native_session_id).toMatch(/^s-/);
  const shown = types(runner.drafts()).filter((type) => type !== 'message.delta');
  expect(shown).toEqual([
    'reasoning.delta',
    'reasoning.completed',
    'message.started',
    'message.completed',
    'tool.started',
    'tool.output',
    'tool.completed',
    'message.started',
    'message.completed',
  ]);
  expect(runner.events('tool.completed')[0]).toMatchObject({ status: 'completed', output: 'written' });
});
