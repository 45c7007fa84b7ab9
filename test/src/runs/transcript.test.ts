import { expect, test } from 'vitest';
import { transcriptOf } from '../../../src/runs/transcript.ts';
import { events, runId, started, type Step, tool, usage } from '../../cli/events.ts';

/** The lines of a transcript of a run in which this has happened. */
const linesOf = async (steps: Step[]) => {
  const rows = events(steps).map((event) => ({
    sequence: event.sequence,
    type: event.type,
    body: JSON.stringify(event),
  }));
  const log = { stretch: (_: number, after: number, limit: number) => rows.slice(after, after + Math.min(limit, 3)) };
  const run = { id: runId, key: 1, session_id: runId, harness: 'claude', model: null, prompt: 'do it' };
  const parts: Buffer[] = [];
  for await (const part of transcriptOf(run as never, log)) parts.push(part);
  const text = Buffer.concat(parts).toString('utf8');
  expect(text.endsWith('\n')).toBe(true);
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as { type: string; data: Record<string, unknown> });
};

test('first the prompt, then every event but pieces of what was completed', async () => {
  const lines = await linesOf([
    ...started(),
    ['message.started', { message_id: 'm', role: 'assistant' }],
    ['reasoning.delta', { message_id: 'r', text: 'Hm' }],
    ['reasoning.delta', { message_id: 'r', text: 'm' }],
    ['reasoning.completed', { message_id: 'r', text: 'Hmm' }],
    ['message.delta', { message_id: 'm', text: 'Hel' }],
    ['message.delta', { message_id: 'm', text: 'lo' }],
    ['message.completed', { message_id: 'm', role: 'assistant', text: 'Hello' }],
    ...tool('t', 'npm test', 'ok\n'),
    ['usage.updated', { ...usage(), limit_percent: { cost: null, time: null } }],
  ]);
  expect(lines[0]).toMatchObject({ type: 'prompt', run_id: runId, data: { text: 'do it' } });
  const rest = lines.slice(1).map(({ type }) => type);
  expect(rest.slice(-5)).toEqual([
    'reasoning.completed',
    'message.completed',
    'tool.started',
    'tool.output',
    'tool.completed',
  ]);
  expect(lines.filter(({ type }) => type.endsWith('.delta'))).toEqual([]);
});

test('a message that was broken off is one line with all that came of it', async () => {
  const lines = await linesOf([
    ...started(),
    ['message.started', { message_id: 'm', role: 'assistant' }],
    ['message.delta', { message_id: 'm', text: 'Half a ' }],
    ['message.delta', { message_id: 'm', text: 'sent' }],
    ['log', { level: 'info', stream: 'daemon', text: 'x' }],
    ['message.delta', { message_id: 'm', text: 'ence' }],
  ]);
  expect(lines.at(-1)).toMatchObject({ type: 'message.delta', data: { message_id: 'm', text: 'Half a sentence' } });
  expect(lines.filter(({ type }) => type === 'message.delta')).toHaveLength(1);
});
