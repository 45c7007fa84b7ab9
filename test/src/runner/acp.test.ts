import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { findRun, tracesIn } from '../../../src/runner/ending.ts';
import type { RunSpec } from '../../../src/runner/protocol.ts';
import { Place, until } from '../../kit/runner.ts';
import type { Action } from '../../kit/scripted-agent.ts';

const asking: Partial<RunSpec> = { permission_mode: 'ask', on_input: 'ask' };
const ask: Action = {
  ask: { id: 't1', title: 'Write a.txt', kind: 'edit', rawInput: { path: 'a.txt' } },
  allowed: [
    { write: { path: 'a.txt', text: 'a' } },
    { tool_update: { id: 't1', status: 'completed' } },
    { say: 'Written.' },
  ],
  denied: [{ say: 'Then not.' }],
};
const form: Action = {
  form: {
    message: 'Which color?',
    schema: { type: 'object', properties: { color: { type: 'string', enum: ['red', 'blue'] } }, required: ['color'] },
  },
};

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
  const shown = runner.drafts().flatMap(({ type }) => (type === 'message.delta' ? [] : [type]));
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

test('numbered chunks all come, in order, in about ten events a second', async () => {
  await using place = new Place();
  const count = 300;
  const runner = place.start(place.agent({ prompts: [[{ numbered: { count, pause_ms: 2 } }]] }));
  const all = Array.from({ length: count }, (_, n) => `${n};`).join('');
  expect((await runner.final()).text).toBe(all);
  const deltas = runner.events('message.delta').map(({ text }) => text);
  expect(deltas.join('')).toBe(all);
  expect(deltas.length).toBeLessThan(25);
});

test('in mode full permission is given, once', async () => {
  await using place = new Place();
  const runner = place.start(place.agent({ prompts: [[ask]] }, { permission_mode: 'full' }));
  expect(await runner.final()).toMatchObject({ status: 'completed', text: 'Written.', usage: { tool_calls: 1 } });
  expect(runner.find('input')).toBeUndefined();
  expect(runner.events('tool.started')).toMatchObject([
    { tool_call_id: 't1', title: 'Write a.txt', category: 'edit', input: { path: 'a.txt' } },
  ]);
});

test('accept_edits lets edits through and asks for commands', async () => {
  await using place = new Place();
  const command: Action = {
    ask: { id: 't2', title: 'rm -rf', kind: 'execute' },
    allowed: [{ say: 'Ran.' }],
    denied: [{ say: 'Not run.' }],
  };
  const runner = place.start(
    place.agent({ prompts: [[ask, command]] }, { permission_mode: 'accept_edits', on_input: 'ask' }),
  );
  const { request } = await runner.seen('input');
  expect(request).toMatchObject({
    kind: 'permission',
    title: 'rm -rf',
    tool_call_id: 't2',
    allow_text: false,
    schema: null,
  });
  expect(existsSync(join(place.workspace, 'a.txt'))).toBe(true);
  await runner.say({ command: 'answer', request_id: request.id, answer: { option_id: 'once' } });
  expect((await runner.final()).text).toBe('Ran.');
});

test('an allowed permission; the first answer counts', async () => {
  await using place = new Place();
  const runner = place.start(place.agent({ prompts: [[ask]] }, asking));
  const { request } = await runner.seen('input');
  expect(request.options).toEqual([
    { id: 'always', label: 'Always', kind: 'allow_always' },
    { id: 'once', label: 'Once', kind: 'allow_once' },
    { id: 'no', label: 'No', kind: 'reject_once' },
  ]);
  expect(Date.parse(request.expires_at)).toBeGreaterThan(Date.now() + 50_000);
  await runner.say({ command: 'answer', request_id: request.id, answer: { option_id: 'once' } });
  await runner.say({ command: 'answer', request_id: request.id, answer: { option_id: 'no' } });
  expect(await runner.final()).toMatchObject({ status: 'completed', text: 'Written.' });
  expect(runner.find('input_closed')).toBeUndefined();
});

test('a refused permission leaves the call rejected and the run completed', async () => {
  await using place = new Place();
  const runner = place.start(place.agent({ prompts: [[ask]] }, asking));
  const { request } = await runner.seen('input');
  await runner.say({ command: 'answer', request_id: request.id, answer: { option_id: 'no' } });
  expect(await runner.final()).toMatchObject({ status: 'completed', text: 'Then not.', changes: [] });
  expect(runner.events('tool.completed')).toMatchObject([{ tool_call_id: 't1', status: 'rejected' }]);
});

test('on_input reject refuses without asking, fail ends the run', async () => {
  await using place = new Place();
  const runner = place.start(place.agent({ prompts: [[ask]] }, { permission_mode: 'ask', on_input: 'reject' }));
  expect(await runner.final()).toMatchObject({ status: 'completed', text: 'Then not.' });
  await using other = new Place();
  const failing = other.start(other.agent({ prompts: [[ask]] }, { permission_mode: 'ask', on_input: 'fail' }));
  expect(await failing.final()).toMatchObject({
    status: 'failed',
    stop_reason: 'input_rejected',
    error: { code: 'harness_failed', details: { reason: 'input_required' } },
  });
});

test('a question that nobody answers expires and fails the run', async () => {
  await using place = new Place();
  const runner = place.start(place.agent({ prompts: [[ask]] }, { ...asking, input_timeout_seconds: 1 }));
  expect(await runner.final()).toMatchObject({
    status: 'failed',
    stop_reason: 'input_expired',
    error: { code: 'input_expired' },
  });
  expect(runner.find('input_closed')).toMatchObject({
    status: 'expired',
    request_id: runner.find('input')?.request.id,
  });
});

test('time for a person does not count', async () => {
  await using place = new Place();
  const limits = { timeout_seconds: 1, max_cost_micro_usd: null, max_turns: null };
  const runner = place.start(place.agent({ prompts: [[ask]] }, { ...asking, limits }));
  const { request } = await runner.seen('input');
  await new Promise((resolve) => setTimeout(resolve, 1300));
  await runner.say({ command: 'answer', request_id: request.id, answer: { option_id: 'once' } });
  const final = await runner.final();
  expect(final).toMatchObject({ status: 'completed' });
  expect(final.usage.duration_ms).toBeLessThan(1000);
});

test('a cancel takes an open question back', async () => {
  await using place = new Place();
  const runner = place.start(place.agent({ prompts: [[ask]] }, asking));
  const { request } = await runner.seen('input');
  await runner.say({ command: 'cancel' });
  expect(await runner.final()).toMatchObject({ status: 'cancelled' });
  expect(runner.find('input_closed')).toMatchObject({ request_id: request.id, status: 'cancelled' });
});

test.each([
  [{ option_id: 'red' }, '{"action":"accept","content":{"color":"red"}}'],
  [{ text: 'green' }, '{"action":"accept","content":{"color":"green"}}'],
  [{ content: { color: 'blue' } }, '{"action":"accept","content":{"color":"blue"}}'],
  [{ cancel: true as const }, '{"action":"decline"}'],
])('a form is answered by %j', async (answer, said) => {
  await using place = new Place();
  const runner = place.start(place.agent({ prompts: [[form]] }, asking));
  const { request } = await runner.seen('input');
  expect(request).toMatchObject({
    kind: 'question',
    title: 'Which color?',
    options: [
      { id: 'red', label: 'red', kind: 'choice' },
      { id: 'blue', label: 'blue', kind: 'choice' },
    ],
    schema: { type: 'object' },
  });
  await runner.say({ command: 'answer', request_id: request.id, answer });
  expect((await runner.final()).text).toBe(said);
});

test('a cancel in the middle of a prompt, and what was said until then', async () => {
  await using place = new Place();
  const runner = place.start(place.agent({ prompts: [[{ tool: { id: 't1' } }, { forever: 5 }]] }));
  await until(() => runner.events('message.delta').length > 1, 'message');
  await runner.say({ command: 'cancel' });
  const final = await runner.final();
  expect(final).toMatchObject({ status: 'cancelled', stop_reason: 'cancelled', error: null });
  expect(final.text).toMatch(/^0;1;/);
  expect(runner.events('message.completed')).toHaveLength(1);
  expect(runner.events('tool.completed')).toMatchObject([{ tool_call_id: 't1', status: 'failed' }]);
});

test('a cancel ends an agent that hears nothing, and its children', async () => {
  await using place = new Place();
  const script = {
    prompts: [[{ spawn: 'setsid sleep 300' }, { hang: true as const }]],
    ignore_cancel: true,
    ignore_term: true,
  };
  const runner = place.start(place.agent(script, { grace_seconds: 0 }));
  await runner.seen('started');
  await until(() => findRun(tracesIn(place.folder, runner.spec.run_id)).length >= 2, 'child');
  const since = Date.now();
  await runner.say({ command: 'cancel' });
  expect(await runner.final()).toMatchObject({ status: 'cancelled' });
  expect(Date.now() - since).toBeLessThan(6000);
  expect(findRun(tracesIn(place.folder, runner.spec.run_id))).toEqual([]);
});

test('a cost limit ends the run, after a warning', async () => {
  await using place = new Place();
  const limits = { timeout_seconds: null, max_cost_micro_usd: '1000', max_turns: null };
  const runner = place.start(
    place.agent({ prompts: [[{ cost: 0.0009 }, { cost: 0.002 }, { hang: true }]] }, { limits }),
  );
  expect(await runner.final()).toMatchObject({
    status: 'failed',
    stop_reason: 'cost_limit',
    error: { code: 'cost_limit_exceeded', details: { cost_micro_usd: '2000' } },
    usage: { cost_micro_usd: '2000' },
  });
  expect(runner.events('limit.warning')).toEqual([{ limit: 'cost', percent: 90 }]);
});

test('a limit of turns ends the run', async () => {
  await using place = new Place();
  const limits = { timeout_seconds: null, max_cost_micro_usd: null, max_turns: 2 };
  const turn = (id: string): Action[] => [{ tool: { id } }, { tool_update: { id, status: 'completed' } }];
  const runner = place.start(
    place.agent({ prompts: [[...turn('a'), ...turn('b'), ...turn('c'), { hang: true }]] }, { limits }),
  );
  expect(await runner.final()).toMatchObject({
    status: 'failed',
    stop_reason: 'turn_limit',
    error: { code: 'harness_failed', details: { reason: 'turn_limit' } },
  });
});

test('an agent that stops at its own limit of turns', async () => {
  await using place = new Place();
  const runner = place.start(place.agent({ prompts: [[{ end: 'max_turn_requests' }]] }));
  expect(await runner.final()).toMatchObject({ status: 'failed', stop_reason: 'turn_limit' });
});

test('an agent that says cancelled although nobody cancelled has completed', async () => {
  await using place = new Place();
  const runner = place.start(place.agent({ prompts: [[{ end: 'cancelled' }]] }));
  expect(await runner.final()).toMatchObject({ status: 'completed', stop_reason: 'end_turn' });
});

test('a crash fails the run, with what was said before', async () => {
  await using place = new Place();
  const runner = place.start(
    place.agent({ prompts: [[{ say: 'I ' }, { say: 'am' }, { stderr: 'ouch\n' }, { wait: 50 }, { crash: 7 }]] }),
  );
  expect(await runner.final()).toMatchObject({
    status: 'failed',
    stop_reason: 'harness_failed',
    text: 'I am',
    error: { code: 'harness_failed', details: { exit_code: 7, signal: null, stderr_tail: 'ouch\n' } },
  });
  expect(runner.events('log')).toContainEqual({ level: 'info', stream: 'stderr', text: 'ouch\n' });
});

test('a program that is not there, or is none, fails the run', async () => {
  await using place = new Place();
  const spec = place.agent({ prompts: [] });
  const runner = place.start({ ...spec, harness: { ...spec.harness, command: ['/there/is/none'] } });
  expect(await runner.final()).toMatchObject({
    status: 'failed',
    stop_reason: 'harness_failed',
    error: { code: 'harness_failed' },
  });
  await using other = new Place();
  const plain = other.agent({ prompts: [] });
  const mute = other.start({ ...plain, folder: other.folder, harness: { ...plain.harness, command: ['/bin/true'] } });
  expect(await mute.final()).toMatchObject({ status: 'failed', error: { details: { exit_code: 0 } } });
});

test('rubbish on standard output and unknown updates are logged and never fatal', async () => {
  await using place = new Place();
  const runner = place.start(
    place.agent({
      prompts: [
        [
          { garbage: 'Welcome to the agent!' },
          { garbage: '[1,2,3]' },
          { garbage: '{"jsonrpc":"2.0","method":"_strange/thing","params":{}}' },
          { update: { sessionUpdate: 'from_the_future', what: 1 } },
          { update: { sessionUpdate: 'tool_call', toolCallId: 5 } },
          { update: { sessionUpdate: 'agent_message_chunk', content: { type: 'image', data: 'x' } } },
          { update: { sessionUpdate: 'plan', entries: [{ content: 'do', status: 'in_progress' }, 'what'] } },
          { say: 'Fine.' },
        ],
      ],
    }),
  );
  expect(await runner.final()).toMatchObject({ status: 'completed', text: 'Fine.' });
  const logs = runner.events('log');
  expect(logs.find(({ stream }) => stream === 'stdout')?.text).toContain('Welcome to the agent!');
  expect(logs.filter(({ level }) => level === 'debug')).toHaveLength(3);
  expect(runner.events('plan.updated')).toEqual([
    {
      items: [
        { text: 'do', status: 'in_progress' },
        { text: '', status: 'pending' },
      ],
    },
  ]);
});

test('a line without an end fails the run before it fills the memory', async () => {
  await using place = new Place();
  const runner = place.start(place.agent({ prompts: [[{ huge: 64 * 1_048_576, open: true }, { hang: true }]] }));
  expect(await runner.final()).toMatchObject({
    status: 'failed',
    error: { code: 'harness_failed', details: { reason: 'protocol_error' } },
  });
});

test('refusals of the provider are told apart', async () => {
  const errors: [Action, object][] = [
    [
      { error: { code: -32000, message: 'Authentication required' } },
      { error: { code: 'provider_auth' }, stop_reason: 'provider_error' },
    ],
    [{ error: { code: 401, message: 'no' } }, { error: { code: 'provider_auth' } }],
    [{ error: { code: 429, message: 'slow down' } }, { error: { code: 'provider_rate_limited', retryable: true } }],
    [
      { error: { code: -32603, message: 'Internal error', data: { details: 'the model is on fire' } } },
      { error: { code: 'harness_failed' } },
    ],
  ];
  await Promise.all(
    errors.map(async ([action, expected]) => {
      await using place = new Place();
      const final = await place.start(place.agent({ prompts: [[action]] })).final();
      expect(final).toMatchObject({ status: 'failed', ...expected });
    }),
  );
});

test('an agent that refuses to begin fails the run', async () => {
  await using place = new Place();
  const refuse = { method: 'session/new', code: -32000, message: 'Sign in first' };
  const runner = place.start(place.agent({ prompts: [], refuse }));
  expect(await runner.final()).toMatchObject({
    status: 'failed',
    error: { code: 'provider_auth', message: 'Sign in first' },
  });
  expect(runner.find('started')).toBeUndefined();
});

test.each([
  ['session/resume', { resume: true }],
  ['session/load', { load: true }],
  ['session/load with a late replay', { load: true, replay_late: true }],
])('a conversation goes on: %s', async (_how, ability) => {
  await using place = new Place();
  const script = {
    ...ability,
    prompts: [
      [{ cost: 0.01 }, { say: 'One.' }],
      [{ cost: 0.015 }, { recall: true as const }],
    ],
  };
  const first = place.start(place.agent(script));
  await first.final();
  const native_session_id = first.find('session')?.native_session_id ?? null;
  await using second = new Place();
  const runner = second.start(
    second.agent(script, {
      session_folder: place.session,
      native_session_id,
      prompt: 'again',
      transcript: [{ role: 'user', text: 'old' }],
    }),
  );
  const final = await runner.final();
  // Neither the replay nor the transcript is part of it, and only its own cost.
  expect(final).toMatchObject({
    status: 'completed',
    text: 'do it|again',
    usage: { cost_micro_usd: '5000', turns: 1 },
  });
  expect(runner.events('message.completed')).toHaveLength(1);
  expect(runner.find('session')).toMatchObject({ native_session_id });
});

test('a conversation that cannot go on begins anew with what was said', async () => {
  await using place = new Place();
  const transcript = [
    { role: 'user' as const, text: 'My name is Ada.' },
    { role: 'assistant' as const, text: 'Hello Ada.' },
  ];
  const spec = place.agent({ resume: true, prompts: [[{ recall: true }]] }, { native_session_id: 'lost', transcript });
  const runner = place.start(spec);
  const final = await runner.final();
  expect(final).toMatchObject({ status: 'completed' });
  expect(final.text).toContain('My name is Ada.');
  expect(final.text?.endsWith('do it')).toBe(true);
  expect(runner.events('log').some(({ level }) => level === 'warn')).toBe(true);
  expect(runner.find('session')?.native_session_id).not.toBe('lost');
});

test('instructions go where the agent has a place for them, each time the session is set up', async () => {
  await using place = new Place();
  const script = {
    resume: true,
    system_prompt: true,
    prompts: [[{ system: true as const }, { recall: true as const }]],
  };
  const first = place.start(place.agent(script, { instructions: 'Be brief.' }));
  const told = '{"mode":"append","content":[{"type":"text","text":"Be brief."}]}';
  expect((await first.final()).text).toBe(`${told}do it`);
  const { native_session_id } = first.find('session')!;
  await using later = new Place('later');
  const spec = later.agent(script, { instructions: 'Be brief.', native_session_id, session_folder: place.session });
  expect((await later.start(spec).final()).text).toBe(`${told}do it|do it`);
});

test('an agent without a place for instructions is told before the first prompt, and not again', async () => {
  await using place = new Place();
  const script = { resume: true, prompts: [[{ recall: true as const }]] };
  const first = place.start(place.agent(script, { instructions: 'Be brief.' }));
  const { text } = await first.final();
  expect(text).toContain('\n<instructions>\nBe brief.\n</instructions>\n\ndo it');
  const { native_session_id } = first.find('session')!;
  await using later = new Place('later');
  const spec = later.agent(script, { instructions: 'Be brief.', native_session_id, session_folder: place.session });
  expect((await later.start(spec).final()).text).toBe(`${text}|do it`);
  await using again = new Place('again');
  const transcript = [{ role: 'user' as const, text: 'before' }];
  const lost = again.agent(script, { instructions: 'Be brief.', native_session_id: 'lost', transcript });
  expect((await again.start(lost).final()).text).toMatch(/Be brief\.[^]*before[^]*do it$/);
});

test('templates, files and the model', async () => {
  await using place = new Place();
  const spec = place.agent({ prompts: [[{ say: 'ok' }]], models: ['small', 'large'] }, { model: 'large' });
  const files = { 'conf/settings.json': '{"model":"{{model}}","at":"{{workspace}}"}' };
  const runner = place.start({ ...spec, harness: { ...spec.harness, files } });
  await runner.final();
  expect(runner.find('started')?.model).toBe('large');
  expect(JSON.parse(readFileSync(join(place.session, 'conf/settings.json'), 'utf8'))).toEqual({
    model: 'large',
    at: place.workspace,
  });
  await using other = new Place();
  const out = other.agent({ prompts: [] });
  const outside = other.start({ ...out, harness: { ...out.harness, files: { '../outside': 'x' } } });
  expect(await outside.final()).toMatchObject({ status: 'failed', error: { code: 'internal_error' } });
  expect(existsSync(join(other.root, 'outside'))).toBe(false);
});
