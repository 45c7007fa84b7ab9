import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { AcpMapping, type Step } from '../../../src/harness/acp.ts';
import { costOf, tokensOf } from '../../../src/harness/acp-usage.ts';

const golden = fileURLToPath(new URL('../../golden/acp/', import.meta.url));

/** One line of a recording: what the agent sent, and in `reject` recordings a permission that was refused. */
type Line = { update: unknown } | { permission: { toolCall: { toolCallId: string } } } | { result: unknown };

const recordings = readdirSync(golden).flatMap((name) =>
  name.endsWith('.jsonl') && !name.includes('.events.') ? [name.slice(0, -6)] : [],
);
const lines = (name: string): Line[] =>
  readFileSync(`${golden}${name}.jsonl`, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Line);

function play(name: string): { steps: Step[]; mapping: AcpMapping; summary: object } {
  let ids = 0;
  let now = 0;
  const mapping = new AcpMapping(() => {
    ids += 1;
    return `id-${ids}`;
  });
  const steps: Step[] = [];
  let summary = {};
  for (const line of lines(name)) {
    now += 10;
    if ('update' in line) {
      steps.push(...mapping.update(line.update, now));
      const cost = costOf(line.update);
      if (cost !== null) summary = { ...summary, cost };
    } else if ('permission' in line) {
      steps.push(...mapping.permission(line.permission.toolCall, now));
      if (name.endsWith('-reject')) mapping.rejected(line.permission.toolCall.toolCallId);
    } else summary = { ...summary, tokens: tokensOf(line.result) };
  }
  steps.push(...mapping.end(now));
  return { steps, mapping, summary: { ...summary, ...mapping.counts, text: mapping.text } };
}

/** What is wrong with a history: ends without a beginning, beginnings without an end, texts that are not their pieces. */
function faults(steps: Step[]): Step[] {
  const open = new Set<string>();
  const texts = new Map<string, string>();
  const wrong = steps.filter(({ type, data }) => {
    switch (type) {
      case 'tool.started':
        return open.has(data.tool_call_id) || !open.add(data.tool_call_id);
      case 'tool.output':
        return !open.has(data.tool_call_id);
      case 'tool.completed':
        return !open.delete(data.tool_call_id);
      case 'message.started':
        return texts.has(data.message_id) || !texts.set(data.message_id, '');
      case 'message.delta':
        texts.set(data.message_id, `${texts.get(data.message_id)}${data.text}`);
        return false;
      case 'message.completed':
        return data.text !== texts.get(data.message_id);
      default:
        return type === 'log';
    }
  });
  return open.size === 0 ? wrong : steps;
}

describe.each(recordings)('%s', (name) => {
  test('makes the events that are on record', async () => {
    const { steps, summary } = play(name);
    const text = [...steps, summary].map((step) => JSON.stringify(step)).join('\n');
    await expect(`${text}\n`).toMatchFileSnapshot(`${golden}${name}.events.jsonl`);
  });

  test('makes a history that hangs together', () => {
    expect(faults(play(name).steps)).toEqual([]);
  });
});

const chunk = (text: string, messageId?: string) => ({
  sessionUpdate: 'agent_message_chunk',
  content: { type: 'text', text },
  ...(messageId === undefined ? {} : { messageId }),
});

test('a call that is told bit by bit is started once, with all that was told', () => {
  const mapping = new AcpMapping(() => 'id');
  const call = { sessionUpdate: 'tool_call', toolCallId: 't', title: 'Preparing', status: 'pending', rawInput: {} };
  expect(mapping.update(call, 0)).toEqual([]);
  expect(mapping.holding).toBe(true);
  expect(
    mapping.update(
      { sessionUpdate: 'tool_call_update', toolCallId: 't', title: 'Run', rawInput: { command: 'ls' } },
      100,
    ),
  ).toEqual([]);
  expect(mapping.settle(200)).toEqual([]);
  expect(mapping.settle(350)).toMatchObject([
    { type: 'tool.started', data: { title: 'Run', input: { command: 'ls' } } },
  ]);
  expect(mapping.holding).toBe(false);
  expect(mapping.end(400)).toMatchObject([{ type: 'tool.completed', data: { status: 'failed', duration_ms: 400 } }]);
});

test('a message id that comes again after another message is another id', () => {
  const mapping = new AcpMapping(() => 'own');
  const steps = [
    ...mapping.update(chunk('a', 'm'), 0),
    ...mapping.update(chunk('b', 'm'), 0),
    ...mapping.update({ sessionUpdate: 'tool_call', toolCallId: 't', status: 'completed' }, 0),
    ...mapping.update(chunk('c', 'm'), 0),
    ...mapping.update(chunk('d'), 0),
    ...mapping.end(0),
  ];
  const said = steps.flatMap((step) =>
    step.type === 'message.completed' ? [[step.data.message_id, step.data.text]] : [],
  );
  expect(said).toEqual([
    ['m', 'ab'],
    ['m:2', 'c'],
    ['own', 'd'],
  ]);
});

test('content that grows is told by what is new', () => {
  const mapping = new AcpMapping(() => 'id');
  const update = (text: string, status: string) =>
    mapping.update(
      {
        sessionUpdate: 'tool_call_update',
        toolCallId: 't',
        status,
        content: [{ type: 'content', content: { type: 'text', text } }],
      },
      0,
    );
  const steps = [
    ...update('one\n', 'in_progress'),
    ...update('one\ntwo\n', 'in_progress'),
    ...update('one\ntwo\n', 'completed'),
  ];
  expect(steps.flatMap((step) => (step.type === 'tool.output' ? [step.data.text] : []))).toEqual(['one\n', 'two\n']);
});

test('a long input is cut, a long message goes on in another', () => {
  const mapping = new AcpMapping(() => `${Math.random()}`);
  const input = { path: 'a', content: 'x'.repeat(1_000_000) };
  const [started] = mapping.update(
    { sessionUpdate: 'tool_call', toolCallId: 't', status: 'in_progress', rawInput: input },
    0,
  );
  expect(JSON.stringify(started).length).toBeLessThan(70_000);
  expect(started).toMatchObject({ data: { input: { path: 'a' } } });
  const whole = '😀'.repeat(1_500_000);
  const steps = [...mapping.update(chunk(`a${whole}`), 0), ...mapping.end(0)];
  const texts = steps.flatMap((step) => (step.type === 'message.completed' ? [step.data.text] : []));
  expect(texts.length).toBe(3);
  expect(texts.every((text) => text.length <= 1_048_576 && text.isWellFormed())).toBe(true);
  expect(texts.join('')).toBe(`a${whole}`);
});

test('whatever comes, nothing throws and all that was begun is ended', () => {
  const word = fc.constantFrom('a', 'b', 'c');
  const update = fc.oneof(
    fc.record({
      sessionUpdate: fc.constantFrom(
        'tool_call',
        'tool_call_update',
        'agent_message_chunk',
        'agent_thought_chunk',
        'plan',
        'usage_update',
        'x',
      ),
      toolCallId: fc.oneof(word, fc.anything()),
      status: fc.constantFrom('pending', 'in_progress', 'completed', 'failed', undefined, 7),
      content: fc.oneof(
        fc.record({ type: fc.constant('text'), text: fc.string() }),
        fc.anything(),
        fc.array(fc.anything()),
      ),
      messageId: fc.oneof(word, fc.constant(undefined)),
      rawOutput: fc.anything(),
      rawInput: fc.jsonValue(),
      entries: fc.anything(),
      _meta: fc.oneof(fc.record({ terminal_output_delta: fc.record({ data: fc.string() }) }), fc.anything()),
    }),
    fc.jsonValue(),
  );
  fc.assert(
    fc.property(fc.array(update, { maxLength: 30 }), (updates) => {
      let ids = 0;
      const mapping = new AcpMapping(() => {
        ids += 1;
        return `own-${ids}`;
      });
      const steps = [...updates.flatMap((one, at) => mapping.update(one, at)), ...mapping.end(1000)];
      const count = (type: Step['type']) => steps.filter((step) => step.type === type).length;
      expect(count('message.started')).toBe(count('message.completed'));
      expect(count('tool.started')).toBe(count('tool.completed'));
      expect(mapping.counts.tool_calls).toBe(count('tool.completed'));
    }),
  );
});
