import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createRegistry, type Registry } from '../../src/harness/registry.ts';
import { findRun, tracesIn } from '../../src/runner/ending.ts';
import type { RunSpec } from '../../src/runner/protocol.ts';
import { type FakeModel, startFakeModel } from '../kit/fake-model.ts';
import { Place, type Runner, until } from '../kit/runner.ts';

/** Our own agent as a run has it: a program of its own below a runner. */
let model: FakeModel;
let registry: Registry;

beforeAll(async () => {
  model = await startFakeModel({
    usage: { input: 1000, output: 50, cached: 200, reasoning: 10 },
    scripts: [
      {
        when: 'HELLO',
        steps: [
          { thinking: 'Hm.', text: 'I write.', calls: [{ do: 'write', path: 'hello.txt', content: 'hello\n' }] },
          { text: 'Running.', calls: [{ do: 'shell', command: 'env; exit 3' }] },
          { text: 'Done.' },
        ],
      },
      { when: 'COMMAND', steps: [{ calls: [{ do: 'shell', command: 'echo ran > mark; sleep 300' }] }, { text: 'x' }] },
      { when: 'REMEMBER', steps: [{ text: 'I do.' }] },
      { when: 'BUDGET', steps: [{ error: { status: 402, message: 'spent' } }] },
    ],
  });
  registry = createRegistry({
    rows: {},
    env: { PATH: process.env.PATH, ANTHROPIC_BASE_URL: model.url, ANTHROPIC_API_KEY: 'a-secret-key' },
  });
});
afterAll(() => model.close());

const start = (place: Place, prompt: string, changes: Partial<RunSpec> = {}): Runner => {
  const harness = registry.launch('builtin', place.workspace);
  if (!harness) throw new Error('There is no builtin.');
  return place.start({ ...place.spec(prompt, changes), harness, env: registry.environment('builtin') });
};

test('a run: questions by its mode, events, figures; commands see no key', async () => {
  await using place = new Place();
  const runner = start(place, 'HELLO please', { permission_mode: 'accept_edits', on_input: 'ask' });
  const { request } = await runner.seen('input');
  expect(request).toMatchObject({ kind: 'permission', title: 'env; exit 3' });
  expect(readFileSync(join(place.workspace, 'hello.txt'), 'utf8')).toBe('hello\n');
  await runner.say({ command: 'answer', request_id: request.id, answer: { option_id: 'allow' } });
  expect(await runner.final()).toMatchObject({
    status: 'completed',
    stop_reason: 'end_turn',
    text: 'Done.',
    changes: [{ path: 'hello.txt', change: 'added' }],
    usage: { input_tokens: 3000, cached_input_tokens: 600, output_tokens: 150, turns: 3, tool_calls: 2 },
  });
  expect(runner.find('started')).toMatchObject({ model: 'anthropic/claude-sonnet-5' });
  expect(runner.events('tool.started')).toMatchObject([
    { name: 'write', category: 'edit', locations: [join(place.workspace, 'hello.txt')] },
    { name: 'shell', category: 'execute', input: { command: 'env; exit 3' } },
  ]);
  const [, command] = runner.events('tool.completed');
  expect(command).toMatchObject({ status: 'completed', exit_code: 3 });
  expect(command?.output).toContain('PATH=');
  expect(command?.output).not.toContain('a-secret-key');
  expect(runner.events('message.completed').map(({ text }) => text)).toEqual(['I write.', 'Running.', 'Done.']);
});

test('killed in the middle of a command, it goes on in the next run and knows what was', async () => {
  await using place = new Place();
  const runner = start(place, 'COMMAND please');
  const found = () => findRun(tracesIn(place.folder, runner.spec.run_id));
  await until(() => existing(join(place.workspace, 'mark')), 'command');
  for (const { pid } of found()) process.kill(pid, 'SIGKILL');
  expect(await runner.final()).toMatchObject({ status: 'failed', error: { code: 'harness_failed' } });
  expect(found()).toEqual([]);
  await using second = new Place();
  const next = start(second, 'REMEMBER?', {
    session_folder: place.session,
    workspace: { path: place.workspace, revision: 2 },
    native_session_id: runner.find('session')?.native_session_id ?? null,
  });
  expect(await next.final()).toMatchObject({ status: 'completed', text: 'I do.', usage: { turns: 1 } });
  const sent = JSON.stringify(model.requests().at(-1)?.body);
  expect(sent).toContain('COMMAND please');
  expect(sent).toContain('This was interrupted');
});

test('what the provider refuses is the run’s error', async () => {
  await using place = new Place();
  expect(await start(place, 'BUDGET').final()).toMatchObject({
    status: 'failed',
    stop_reason: 'provider_error',
    error: { code: 'provider_error', retryable: false, message: 'spent' },
  });
});

const existing = (path: string): boolean => {
  try {
    return readFileSync(path, 'utf8') !== '';
  } catch {
    return false;
  }
};
