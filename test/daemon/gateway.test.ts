import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openApp, type TestApp, until } from '../kit/app.ts';
import { type FakeModel, startFakeModel } from '../kit/fake-model.ts';

/** Runs of our own agent whose calls go through their gateway. Each call of the model: 1000 tokens in, 200 cached, 50 out. */
const secret = 'sk-the-provider-key-nobody-may-see';
const perCall = 3810;
let model: FakeModel;
let opened: TestApp;
let project: string;

beforeAll(async () => {
  model = await startFakeModel({
    usage: { input: 1000, output: 50, cached: 200, reasoning: 0 },
    scripts: [
      {
        when: 'HELLO',
        steps: [
          { text: 'I write.', calls: [{ do: 'write', path: 'hello.txt', content: 'hello\n' }] },
          { text: 'I look.', calls: [{ do: 'shell', command: 'env; cat /proc/$PPID/environ /proc/$PPID/cmdline' }] },
          { text: 'Done.' },
        ],
      },
      { when: 'AGAIN', steps: [{ calls: [{ do: 'shell', command: 'true' }] }] },
      { when: 'BROKEN', steps: [{ error: { status: 400, message: 'this model is not for you' } }] },
    ],
  });
  opened = await openApp({
    env: { ANTHROPIC_API_KEY: secret, ANTHROPIC_BASE_URL: model.url },
    config: {
      sandbox: { unavailable: 'allow' },
      runs: { warm_runners: 0, grace_seconds: 1, repeated_calls: 4, repeated_calls_stop: true },
      budgets: { project_month_usd: 0.05 },
    },
  });
  project = (await opened.call('POST', '/v1/projects', { name: 'gateway' })).body.id;
}, 30_000);
afterAll(async () => {
  await opened.close();
  await model.close();
});

const run = async (body: object) => {
  const accepted = await opened.call('POST', '/v1/runs', { project_id: project, harness: 'builtin', ...body });
  expect(accepted.status).toBe(202);
  return until('the end of the run', async () => {
    const { body: found } = await opened.call('GET', `/v1/runs/${accepted.body.run_id}`);
    return found.finished_at !== null && found;
  });
};
const calls = (id: string) =>
  opened.app.db.all<Record<string, unknown>>('SELECT * FROM model_calls WHERE run_id = ? ORDER BY at, call_id', [id]);

test(
  'a run is metered to the micro-dollar, its calls are rows, and the key is nowhere',
  { timeout: 30_000 },
  async () => {
    const ended = await run({ model: 'claude-sonnet-4-5', prompt: 'HELLO please', permission_mode: 'full' });
    expect(ended).toMatchObject({
      status: 'completed',
      billing_mode: 'managed',
      usage: {
        input_tokens: 3000,
        cached_input_tokens: 600,
        output_tokens: 150,
        turns: 3,
        tool_calls: 2,
        cost_micro_usd: String(3 * perCall),
        cost_source: 'reported',
      },
    });
    const rows = calls(ended.id);
    expect(rows).toHaveLength(3);
    expect(rows[0]).toMatchObject({
      provider: 'anthropic',
      model: 'claude-sonnet-4-5',
      dialect: 'anthropic',
      status: 'completed',
      main: 1,
      cost_micro_usd: perCall,
      project_id: project,
      billing_mode: 'managed',
      harness: 'builtin',
    });
    expect(model.requests().at(-1)?.headers['x-api-key']).toBe(secret);
    // The harness's own environment came back as output of a command: it holds the run's key and not the provider's.
    const events = await opened.call('GET', `/v1/runs/${ended.id}/events?limit=1000`);
    expect(events.text).toContain('AGENTCTL_MODEL=');
    expect(events.text).not.toContain(secret);
    expect(filesIn(opened.home.data).filter((file) => readFileSync(file).includes(secret))).toEqual([]);
  },
);

test('a cost limit ends the run at the call that passed it', { timeout: 30_000 }, async () => {
  const limits = { max_cost_micro_usd: '4000' };
  const ended = await run({ model: 'claude-sonnet-4-5', prompt: 'AGAIN', permission_mode: 'full', limits });
  expect(ended).toMatchObject({
    status: 'failed',
    stop_reason: 'cost_limit',
    error: { code: 'cost_limit_exceeded' },
    usage: { cost_micro_usd: String(2 * perCall) },
  });
  expect(calls(ended.id)).toHaveLength(2);
  const events = await opened.call('GET', `/v1/runs/${ended.id}/events?limit=1000`);
  const warnings = events.body.data.filter(({ type }: { type: string }) => type === 'limit.warning');
  expect(warnings).toMatchObject([{ data: { limit: 'cost', percent: 95 } }]);
});

test('a run without a known price cannot keep a limit, and says so', { timeout: 30_000 }, async () => {
  const limits = { max_cost_micro_usd: '4000' };
  const ended = await run({ model: 'anthropic/nobody-knows-it', prompt: 'HELLO', limits });
  expect(ended).toMatchObject({
    status: 'failed',
    error: { code: 'provider_error', details: { reason: 'unpriced_model' } },
  });
});

test('the same call again and again ends a run where it is set so', { timeout: 30_000 }, async () => {
  const ended = await run({ model: 'claude-sonnet-4-5', prompt: 'AGAIN', permission_mode: 'full' });
  expect(ended).toMatchObject({ status: 'failed', stop_reason: 'harness_stalled', error: { code: 'harness_stalled' } });
});

test('what the provider says is the run’s error', { timeout: 30_000 }, async () => {
  const ended = await run({ model: 'claude-sonnet-4-5', prompt: 'BROKEN' });
  expect(ended).toMatchObject({
    status: 'failed',
    stop_reason: 'provider_error',
    error: { code: 'provider_error', message: 'anthropic answered 400: this model is not for you' },
    usage: { cost_micro_usd: '0' },
  });
});

test('who has no key is told so; without a word the harness’s own login is used', async () => {
  const body = { project_id: project, harness: 'codex', prompt: 'x', checkpoint: { before: false, after: false } };
  const refused = await opened.call('POST', '/v1/runs', { ...body, billing_mode: 'managed' });
  expect(refused).toMatchObject({ status: 400, body: { error: { param: 'billing_mode' } } });
  expect(refused.body.error.message).toContain('OPENAI_API_KEY');
  const { body: accepted } = await opened.call('POST', '/v1/runs', body);
  expect((await opened.call('GET', `/v1/runs/${accepted.run_id}`)).body.billing_mode).toBe('external');
});

test('a budget that is used up lets no managed run begin', async () => {
  const used = {
    input_tokens: 0,
    cached_input_tokens: 0,
    cache_write_tokens: 0,
    output_tokens: 0,
    reasoning_tokens: 0,
  };
  const row = opened.app.db.get<{ run_id: string }>('SELECT run_id FROM model_calls LIMIT 1')!;
  const { app } = opened;
  app.db.write((tx) =>
    app.usage.record(tx, app.runs.find(app.db.get<{ id: string }>('SELECT id FROM organizations')!.id, row.run_id), {
      call_id: 'more',
      at: new Date().toISOString(),
      provider: 'anthropic',
      model: 'x',
      dialect: 'anthropic',
      status: 'completed',
      http_status: 200,
      main: true,
      duration_ms: 1,
      ...used,
      cost_micro_usd: '50000',
      cost_source: 'reported',
    }),
  );
  const body = { project_id: project, harness: 'builtin', prompt: 'x' };
  const refused = await opened.call('POST', '/v1/runs', body);
  expect(refused).toMatchObject({
    status: 402,
    body: { error: { code: 'insufficient_credits', details: { budget: 'project' } } },
  });
  expect((await opened.call('POST', '/v1/runs', { ...body, harness: 'shell', prompt: 'true' })).status).toBe(202);
});

test('models: those of a provider with a key can be had, others lack one', async () => {
  const { body } = await opened.call('GET', '/v1/models?limit=200');
  const of = (id: string) => body.data.find((one: { id: string }) => one.id === id);
  expect(of('claude-sonnet-4-5')).toMatchObject({
    provider: 'anthropic',
    status: 'available',
    pricing: { input: '3000000' },
  });
  expect(of('gpt-5.5')).toMatchObject({ provider: 'openai', status: 'missing_credentials' });
  expect(of('claude-sonnet-4-5').harnesses).toContain('builtin');
});

/** All files below a folder. */
const filesIn = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path, { throwIfNoEntry: false })?.isFile());
