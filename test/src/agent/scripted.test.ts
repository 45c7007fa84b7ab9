import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readScript } from '../../../src/agent/scripted/script.ts';
import { type Script, scriptSchema, steps } from '../../../src/api/script.ts';
import { createRegistry } from '../../../src/harness/registry.ts';
import type { RunSpec } from '../../../src/runner/protocol.ts';
import { Place, type Runner, until } from '../../kit/runner.ts';

const harness = createRegistry({ rows: {}, env: { PATH: process.env.PATH } }).launch('scripted')!;
const play = (place: Place, script: Script | string, changes: Partial<RunSpec> = {}): Runner => {
  const prompt = typeof script === 'string' ? script : JSON.stringify(script);
  return place.start({ ...place.spec(prompt, changes), harness });
};

const every: Script = {
  steps: [
    { reasoning: 'Hm.' },
    { message: 'I begin.' },
    { plan: [{ text: 'one', status: 'in_progress' }] },
    { tool: { name: 'make', category: 'execute', input: { target: 'all' }, output: 'made\n', exit_code: 0 } },
    { write: { path: 'sub/a.txt', content: 'a' } },
    {
      ask: { title: 'Deploy?' },
      allowed: [{ write: { path: 'b.txt', content: 'b' } }],
      rejected: [{ message: 'No.' }],
    },
    { usage: { input_tokens: 1000, output_tokens: 50, cached_input_tokens: 200 } },
    { cost_micro_usd: '1500' },
    { cost_micro_usd: '500' },
    { log: 'to be kept' },
    { wait_ms: 1 },
    { message: 'Done.' },
    { end: 'end_turn' },
    { message: 'Never.' },
  ],
};

test('a script is played: events, files, tokens, cost', async () => {
  await using place = new Place();
  const runner = play(place, every);
  expect(await runner.final()).toMatchObject({
    status: 'completed',
    text: 'Done.',
    changes: [
      { path: 'b.txt', change: 'added' },
      { path: 'sub/a.txt', change: 'added' },
    ],
    usage: {
      input_tokens: 1000,
      cached_input_tokens: 200,
      output_tokens: 50,
      cost_micro_usd: '2000',
      cost_source: 'reported',
    },
  });
  expect(runner.events('plan.updated')).toEqual([{ items: [{ text: 'one', status: 'in_progress' }] }]);
  expect(runner.events('tool.started').map(({ name, category }) => `${name} ${category}`)).toEqual([
    'make execute',
    'write edit',
    'other other',
    'write edit',
  ]);
  expect(runner.events('tool.completed')[0]).toMatchObject({ output: 'made\n', exit_code: 0 });
  expect(runner.events('log').some(({ text }) => text.includes('to be kept'))).toBe(true);
  expect(runner.find('started')).toMatchObject({ model: null });
});

test('a script of the workspace; the next run of the session has its own cost', async () => {
  await using place = new Place();
  writeFileSync(join(place.workspace, 'script.json'), JSON.stringify({ steps: [{ cost_micro_usd: '70' }] }));
  const first = play(place, 'script.json');
  expect(await first.final()).toMatchObject({ status: 'completed', usage: { cost_micro_usd: '70' } });
  await using second = new Place();
  const next = play(
    second,
    { steps: [{ cost_micro_usd: '90' }] },
    {
      session_folder: place.session,
      native_session_id: first.find('session')?.native_session_id ?? null,
    },
  );
  expect(await next.final()).toMatchObject({ usage: { cost_micro_usd: '90' } });
});

test('it hangs until it is cancelled, crashes, fails like a provider, and repairs its answer', async () => {
  await using hanging = new Place('hanging');
  const hung = play(hanging, { steps: [{ message: 'x' }, { hang: true }] });
  await until(() => hung.events('message.started').length > 0, 'message');
  await hung.say({ command: 'cancel' });
  expect(await hung.final()).toMatchObject({ status: 'cancelled' });

  await using crashing = new Place('crashing');
  await using failing = new Place('failing');
  await using answering = new Place('answering');
  const output_schema = { type: 'object', required: ['n'] };
  const [crashed, failed, answered] = await Promise.all([
    play(crashing, { steps: [{ message: 'x' }, { crash: { exit_code: 7 } }] }).final(),
    play(failing, { steps: [{ error: { status: 429, message: 'Slow down.' } }] }).final(),
    play(answering, { steps: [{ message: 'x' }], repair: [{ message: '{"n":1}' }] }, { output_schema }).final(),
  ]);
  expect(crashed).toMatchObject({ status: 'failed', error: { code: 'harness_failed', details: { exit_code: 7 } } });
  expect(failed).toMatchObject({
    stop_reason: 'provider_error',
    error: { code: 'provider_rate_limited', retryable: true },
  });
  expect(answered).toMatchObject({ status: 'completed', structured_output: { value: { n: 1 } } });
});

test('what is no script fails the run before anything is done', async () => {
  await using place = new Place();
  const script = { steps: [{ write: { path: 'a.txt', content: 'a' } }, { wait_ms: 'long' }, { sing: 'la' }] };
  const final = await play(place, JSON.stringify(script)).final();
  expect(final).toMatchObject({ status: 'failed', error: { code: 'harness_failed' } });
  expect(final.error?.message).toContain('/steps/1/wait_ms must be integer');
  expect(final.error?.message).toContain('/steps/2');
  expect(existsSync(join(place.workspace, 'a.txt'))).toBe(false);
});

describe('reading a script', () => {
  const wrong = (value: unknown): string => {
    try {
      readScript(typeof value === 'string' ? value : JSON.stringify(value));
      return '';
    } catch (error) {
      return (error as Error).message;
    }
  };

  test('what is wrong is named', () => {
    expect(wrong('{')).toContain('it is no JSON');
    expect(wrong({})).toContain('/steps must be a list');
    expect(wrong({ steps: [], stops: 1 })).toContain('there is no field "stops"');
    expect(wrong({ steps: [{ message: 'x', wait_ms: 1 }] })).toContain('/steps/0 has "wait_ms" beside "message"');
    expect(wrong({ steps: [{ ask: { title: 'x' }, allowed: [{ wait_ms: -1 }] }] })).toContain(
      '/steps/0/allowed/0/wait_ms',
    );
    expect(wrong({ steps: [{ tool: { name: 'x', more: 1 } }] })).toContain('has no field "more"');
    expect(wrong(every)).toBe('');
  });

  test('the published schema is the one that is read by', () => {
    const published = JSON.parse(readFileSync(new URL('../../../docs/scripted.schema.json', import.meta.url), 'utf8'));
    expect(published).toEqual(JSON.parse(JSON.stringify(scriptSchema)));
    const validate = new Ajv2020({ strict: false }).compile(published);
    expect(validate(every)).toBe(true);
    const value = fc.oneof(fc.string(), fc.integer(), fc.constant(true), fc.constant([]), fc.object({ maxDepth: 1 }));
    const step = fc.dictionary(fc.constantFrom(...Object.keys(steps), 'allowed', 'other'), value, { maxKeys: 2 });
    const script = fc.record({ steps: fc.array(step, { maxLength: 3 }) });
    fc.assert(
      fc.property(script, (one) => {
        expect([JSON.stringify(one), wrong(one) === '']).toEqual([JSON.stringify(one), validate(one)]);
      }),
      { numRuns: 200 },
    );
  });
});
