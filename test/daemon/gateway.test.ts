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
    ],
  });
  opened = await openApp({
    env: { ANTHROPIC_API_KEY: secret, ANTHROPIC_BASE_URL: model.url },
    config: { sandbox: { unavailable: 'allow' } },
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

/** All files below a folder. */
const filesIn = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path, { throwIfNoEntry: false })?.isFile());
