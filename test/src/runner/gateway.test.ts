import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { ModelCall } from '../../../src/api/usage.ts';
import { systemClock } from '../../../src/base/clock.ts';
import type { ProviderAccess } from '../../../src/providers/access.ts';
import { Gateway, type GatewayOptions, type Shut } from '../../../src/runner/gateway/gateway.ts';
import { type Hold, Purse } from '../../../src/runner/gateway/purse.ts';
import { type FakeModel, type Scenario, startFakeModel } from '../../kit/fake-model.ts';
import { until } from '../../kit/runner.ts';

/** The gateway alone, between a client and a provider that plays a script: 1000 tokens in, 200 cached, 50 out (10 reasoning). */
const secret = 'sk-of-the-provider';
const key = 'key-of-the-run';
const tools = [{ name: 'write', input_schema: { type: 'object', properties: {} } }];

interface Way {
  kind: ProviderAccess['kind'];
  model: string;
  cost: string;
  path(stream: boolean): string;
  body(stream: boolean): object;
  key: Record<string, string>;
}

const openAi = { kind: 'openai', model: 'gpt-5.5', cost: '6600', key: { authorization: `Bearer ${key}` } } as const;
const ways: Record<string, Way> = {
  anthropic: {
    kind: 'anthropic',
    model: 'claude-sonnet-4-5',
    cost: '3810',
    path: () => '/v1/messages',
    body: (stream) => ({
      model: 'claude-sonnet-4-5',
      max_tokens: 100,
      stream,
      tools,
      messages: [{ role: 'user', content: 'hi' }],
    }),
    key: { 'x-api-key': key },
  },
  responses: {
    ...openAi,
    path: () => '/v1/responses',
    body: (stream) => ({
      model: 'gpt-5.5',
      stream,
      input: 'hi',
      tools: [{ type: 'function', name: 'write', parameters: {} }],
    }),
  },
  chat: {
    ...openAi,
    path: () => '/v1/chat/completions',
    body: (stream) => ({
      model: 'gpt-5.5',
      stream,
      messages: [{ role: 'user', content: 'hi' }],
      tools: [{ type: 'function', function: { name: 'write', parameters: {} } }],
    }),
  },
  gemini: {
    kind: 'google',
    model: 'gemini-2.5-flash',
    cost: '431',
    path: (stream) => `/v1beta/models/gemini-2.5-flash:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
    body: () => ({
      contents: [{ role: 'user', parts: [{ text: 'hi' }] }],
      tools: [{ functionDeclarations: [{ name: 'write', parameters: {} }] }],
    }),
    key: { 'x-goog-api-key': key },
  },
};

let model: FakeModel;
let folder: string;
let gateway: Gateway;
let calls: ModelCall[];
let shut: Shut[];
let retries: { attempt: number; at: number; reason: string }[];

beforeEach(async () => {
  model = await startFakeModel(scripted({ text: 'Hello.' }));
  folder = mkdtempSync(join(tmpdir(), 'gateway-'));
  [calls, shut, retries] = [[], [], []];
});
afterEach(async () => {
  await gateway.close();
  await model.close();
  rmSync(folder, { recursive: true });
});

type Step = Scenario['scripts'][number]['steps'][number];
const scripted = (step: Step): Scenario => ({
  usage: { input: 1000, output: 50, cached: 200, reasoning: 10 },
  side: { text: 'A title' },
  scripts: [{ steps: [step] }],
});

async function open(kind: ProviderAccess['kind'], more: Partial<GatewayOptions> = {}, url = model.url): Promise<void> {
  const provider: ProviderAccess = { id: kind, kind, base_url: url, key: secret, models: {} };
  gateway = await Gateway.open({
    spec: { key, provider, model: null },
    folder,
    clock: systemClock,
    limits: { max_cost_micro_usd: null, max_turns: null },
    tcp: true,
    called: (call) => calls.push(call),
    seen: () => {},
    shut: (why) => shut.push(why),
    retry: (data) => retries.push(data),
    ...more,
  });
}

const post = (way: Way, stream: boolean, changes: object = {}, headers: Record<string, string> = way.key) =>
  fetch(`${gateway.url}${way.path(stream)}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', cookie: 'a=b', ...headers },
    body: JSON.stringify({ ...way.body(stream), ...changes }),
  });
const told = (): Promise<ModelCall> => until(() => calls.at(-1), 'call');

describe.each(Object.entries(ways))('%s', (dialect, way) => {
  test.each([true, false])('metered to the micro-dollar (stream: %s), with the bytes as they were', async (stream) => {
    await open(way.kind);
    const answer = await post(way, stream);
    expect(answer.status).toBe(200);
    expect(await answer.text()).toContain('Hello.');
    expect(await told()).toMatchObject({
      provider: way.kind,
      model: way.model,
      dialect,
      status: 'completed',
      http_status: 200,
      main: true,
      input_tokens: 1000,
      cached_input_tokens: 200,
      cache_write_tokens: 0,
      output_tokens: 50,
      cost_micro_usd: way.cost,
      cost_source: 'reported',
    });
    const [asked] = model.requests();
    expect(JSON.stringify(asked?.headers)).toContain(secret);
    expect(JSON.stringify(asked?.headers)).not.toContain(key);
    expect(asked?.headers.cookie).toBeUndefined();
    expect(gateway.failure).toBeNull();
  });

  test('without the key of the run: 401 in its own form, and nothing is asked', async () => {
    await open(way.kind);
    const answer = await post(way, false, {}, { 'x-api-key': 'another', authorization: `Bearer ${secret}` });
    expect(answer.status).toBe(401);
    const body = (await answer.json()) as { error: { message: string } };
    expect(body.error.message).toBe('This is not the key of this run.');
    expect(model.requests()).toEqual([]);
  });

  test('a provider that refuses our key ends the run, and its own words go on', async () => {
    model.setScenario(scripted({ error: { status: 401, message: `no such key: ${secret}` } }));
    await open(way.kind);
    const answer = await post(way, true);
    expect(answer.status).toBe(401);
    const said = await answer.text();
    expect(said).toContain('no such key');
    expect(said).not.toContain(secret);
    expect(await told()).toMatchObject({ status: 'failed', http_status: 401, cost_micro_usd: '0', output_tokens: 0 });
    expect(shut).toMatchObject([{ kind: 'key' }]);
    expect(JSON.stringify(shut)).not.toContain(secret);
  });

  test('the limit: the call that passes it is the last one', async () => {
    await open(way.kind, { limits: { max_cost_micro_usd: '1', max_turns: null } });
    expect((await post(way, true)).status).toBe(200);
    await told();
    const answer = await post(way, true);
    expect(answer.status).toBe(402);
    expect(await answer.json()).toHaveProperty('error.message', 'The cost limit of this run is used up.');
    expect(shut).toEqual([{ kind: 'cost', spent: way.cost, limit: '1' }]);
    expect(model.requests()).toHaveLength(1);
  });

  test('a harness that hangs up: what was seen is written down as estimated', async () => {
    model.setScenario(scripted({ text: 'Working on it for a long time.', hang: true }));
    await open(way.kind);
    const hungUp = new AbortController();
    const answer = await fetch(`${gateway.url}${way.path(true)}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...way.key },
      body: JSON.stringify(way.body(true)),
      signal: hungUp.signal,
    });
    const reader = answer.body!.getReader();
    for (let text = ''; !text.includes('time.');) text += new TextDecoder().decode((await reader.read()).value);
    hungUp.abort();
    const call = await told();
    expect(call).toMatchObject({ status: 'cut', cost_source: 'estimated' });
    expect(call.output_tokens).toBeGreaterThanOrEqual(8);
    expect(Number(call.cost_micro_usd)).toBeGreaterThan(0);
    // That somebody left says nothing about the provider.
    expect(gateway.failure).toBeNull();
  });
});

const { anthropic, chat } = ways as { anthropic: Way; chat: Way };

test('patience that a provider asks for is had, and told', async () => {
  let now = 0;
  model.setScenario(scripted({ text: 'Hello.', error: { status: 429, message: 'slow down', times: 2 } }));
  const clock = {
    ...systemClock,
    now: () => now,
    timer: (ms: number, fn: () => void) => ((now += ms), setImmediate(fn), () => {}),
  };
  await open('anthropic', { clock });
  expect((await post(anthropic, true)).status).toBe(200);
  expect(retries).toEqual([
    { attempt: 2, max_attempts: 6, at: 1000, reason: 'slow down' },
    { attempt: 3, max_attempts: 6, at: 3000, reason: 'slow down' },
  ]);
  expect(await told()).toMatchObject({ status: 'completed' });
  expect(gateway.failure).toBeNull();
});

test('a provider that fails for good is the run’s failure until a good call follows; a helper’s failure is not', async () => {
  model.setScenario({ ...scripted({ error: { status: 500, message: 'broken' } }), side: { error: { status: 500 } } });
  await open('anthropic');
  expect((await post(anthropic, true, { tools: [] })).status).toBe(500);
  expect(await told()).toMatchObject({ main: false });
  expect(gateway.failure).toBeNull();
  await post(anthropic, true);
  expect(gateway.failure).toEqual({ http_status: 500, message: 'anthropic answered 500: broken' });
  model.setScenario(scripted({ text: 'Hello.' }));
  await (await post(anthropic, true)).text();
  expect(gateway.failure).toBeNull();
});

test('turns: only the agent’s own calls count', async () => {
  await open('anthropic', { limits: { max_cost_micro_usd: null, max_turns: 1 } });
  await (await post(anthropic, true, { tools: [] })).text();
  await (await post(anthropic, true)).text();
  expect((await post(anthropic, true)).status).toBe(402);
  expect(shut).toEqual([{ kind: 'turns', limit: 1 }]);
});

test('a model without a price: null, and refused where a limit is to be kept', async () => {
  await open('openai_compatible');
  await (await post(chat, true, { model: 'my-own' })).text();
  expect(await told()).toMatchObject({
    model: 'my-own',
    output_tokens: 50,
    cost_micro_usd: null,
    cost_source: 'unknown',
  });
  await gateway.close();
  await open('openai_compatible', { limits: { max_cost_micro_usd: '1000000', max_turns: null } });
  const answer = await post(chat, true, { model: 'my-own' });
  expect(answer.status).toBe(400);
  expect(shut).toEqual([{ kind: 'unpriced', model: 'my-own' }]);
});

test('prices of the configuration', async () => {
  const models = { 'my-own': { input: 1, output: 2, cached_input: 0 } };
  const provider: ProviderAccess = {
    id: 'mine',
    kind: 'openai_compatible',
    base_url: `${model.url}/v1`,
    key: null,
    models,
  };
  await open('openai_compatible', { spec: { key, provider, model: 'my-own' } });
  await (await post(chat, false, { model: 'my-own' })).text();
  expect(await told()).toMatchObject({ provider: 'mine', cost_micro_usd: '1100' });
  expect(model.requests()[0]?.path).toBe('/v1/chat/completions');
  expect(model.requests()[0]?.headers.authorization).toBeUndefined();
});

test('the socket in the run’s folder serves as well; what it does not know it does not pass on', async () => {
  await open('anthropic', { tcp: false });
  expect(gateway.url).toBeNull();
  const get = (path: string, method = 'GET') =>
    new Promise<{ status: number; text: string }>((resolve, reject) => {
      const sent = request(
        { socketPath: join(folder, 'gateway.sock'), path, method, headers: { 'x-api-key': key } },
        (answer) => {
          let text = '';
          answer.on('data', (part: Buffer) => (text += part.toString()));
          answer.on('end', () => resolve({ status: answer.statusCode!, text }));
        },
      );
      sent.on('error', reject).end(method === 'POST' ? '{}' : undefined);
    });
  expect(await get('/v1/models')).toMatchObject({ status: 200 });
  expect(await get('/v1/messages/count_tokens', 'POST')).toEqual({ status: 200, text: '{"input_tokens":1000}' });
  for (const path of [
    '/v1/files',
    '/v1/chat/completions',
    '/v1/messages/../organizations',
    '/v1beta/models/../x:generateContent',
  ])
    expect(await get(path, 'POST')).toMatchObject({ status: 404 });
  expect(model.requests().map(({ path }) => path)).toEqual(['/v1/messages/count_tokens']);
  expect(calls).toEqual([]);
});

test('a provider that breaks off, and one that is not there', async () => {
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const usage = { input_tokens: 1000, cache_read_input_tokens: 200, output_tokens: 1 };
    response.write(`data: ${JSON.stringify({ type: 'message_start', message: { usage } })}\n\n`);
    setImmediate(() => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  await open('anthropic', {}, `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  await expect(post(anthropic, true).then((answer) => answer.text())).rejects.toThrow('terminated');
  expect(await told()).toMatchObject({
    status: 'cut',
    input_tokens: 1000,
    cached_input_tokens: 200,
    cost_micro_usd: '3075',
  });
  expect(gateway.failure).toMatchObject({ message: 'anthropic: The answer was cut off.' });
  await new Promise((resolve) => server.close(resolve));
  expect((await post(anthropic, true)).status).toBe(502);
  expect(gateway.failure?.message).toMatch(/^anthropic could not be reached/);
  expect(calls.at(-1)).toMatchObject({ status: 'failed', http_status: null, cost_micro_usd: '0' });
});

test('whatever the order: no call is let through beyond the limit and one', async () => {
  const entries = fc.array(fc.record({ most: fc.bigInt(0n, 400n), share: fc.integer({ min: 0, max: 100 }) }), {
    maxLength: 12,
  });
  await fc.assert(
    fc.asyncProperty(fc.bigInt(0n, 1000n), entries, fc.scheduler(), async (limit, wanted, scheduler) => {
      const purse = new Purse(limit);
      let largest = 0n;
      let refusedEarly = false;
      const one = async ({ most, share }: { most: bigint; share: number }) => {
        await scheduler.schedule(Promise.resolve());
        const hold: Hold | null = await purse.hold(most, new AbortController().signal);
        refusedEarly ||= !hold && !purse.isEmpty;
        if (!hold) return;
        const cost = (most * BigInt(share)) / 100n;
        if (cost > largest) largest = cost;
        await scheduler.schedule(Promise.resolve());
        hold.settle(cost);
      };
      await scheduler.waitFor(Promise.all(wanted.map(one)));
      expect(refusedEarly).toBe(false);
      expect(purse.reserved).toBe(0n);
      expect(purse.spent <= limit + largest).toBe(true);
    }),
    { numRuns: 300 },
  );
});
