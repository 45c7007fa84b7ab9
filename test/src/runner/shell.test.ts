import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { Place } from '../../kit/runner.ts';

test('a script runs: events in order, result, usage, changes', async () => {
  await using place = new Place();
  writeFileSync(join(place.workspace, 'old.txt'), 'old');
  const runner = place.start(place.spec('echo out; echo err >&2; echo new > new.txt; rm old.txt; cat'));
  const final = await runner.final();
  expect(final).toMatchObject({
    status: 'completed',
    stop_reason: 'end_turn',
    error: null,
    text: 'out\n',
    changes: [
      { path: 'new.txt', change: 'added' },
      { path: 'old.txt', change: 'deleted' },
    ],
    usage: { tool_calls: 1, cost_micro_usd: '0', cost_source: 'reported', input_tokens: 0 },
  });
  expect(runner.records().map(({ record }) => record)).toEqual(['started', 'changed', 'usage', 'final']);
  const drafts = runner.drafts();
  expect(drafts[0]).toMatchObject({
    type: 'tool.started',
    source: 'harness',
    data: { tool_call_id: 'shell', name: 'shell', category: 'execute', locations: [], connection_id: null },
  });
  const outputs = runner.events('tool.output');
  expect(outputs.find(({ stream }) => stream === 'stdout')?.text).toBe('out\n');
  expect(outputs.find(({ stream }) => stream === 'stderr')?.text).toBe('err\n');
  expect(drafts.at(-1)).toMatchObject({ type: 'tool.completed', data: { status: 'completed', exit_code: 0 } });
});
