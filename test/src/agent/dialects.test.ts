import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Desk } from '../../kit/agent-client.ts';
import { type FakeModel, type Scenario, startFakeModel } from '../../kit/fake-model.ts';

/** Our agent, spoken to by the protocol's own client, against a model server in each of the four dialects. */
const dialects = [
  { name: 'anthropic', model: 'anthropic/claude-sonnet-5', address: 'ANTHROPIC_BASE_URL', key: 'ANTHROPIC_API_KEY' },
  { name: 'responses', model: 'gpt-6-sol', address: 'OPENAI_BASE_URL', key: 'OPENAI_API_KEY' },
  { name: 'gemini', model: 'gemini-3.8-flash', address: 'GOOGLE_GEMINI_BASE_URL', key: 'GEMINI_API_KEY' },
  {
    name: 'chat',
    model: 'openai_compatible/qwen',
    address: 'OPENAI_COMPATIBLE_BASE_URL',
    key: 'OPENAI_COMPATIBLE_API_KEY',
  },
] as const;

const usage = { input: 1000, output: 50, cached: 200, reasoning: 10 };
const scenario: Scenario = {
  usage,
  scripts: [
    {
      when: 'HELLO',
      steps: [
        {
          thinking: 'I should write the file.',
          text: 'I will write the file.',
          calls: [{ do: 'write', path: 'hello.txt', content: 'hello\n' }],
        },
        { text: 'Done: hello.txt is written.' },
      ],
    },
    {
      when: 'EDIT',
      steps: [
        { calls: [{ do: 'read', path: 'old.txt' }] },
        { calls: [{ do: 'edit', path: 'old.txt', old: 'before', new: 'after' }] },
        { text: 'Edited.' },
      ],
    },
    {
      when: 'COMMAND',
      steps: [{ calls: [{ do: 'shell', command: 'echo begun > mark; sleep 300' }] }, { text: 'No.' }],
    },
    { when: 'SLOW', steps: [{ text: 'I am thinking about it.', hang: true }] },
    { when: 'REMEMBER', steps: [{ text: 'I do.' }] },
    { when: 'BUDGET', steps: [{ error: { status: 402, message: 'the budget is spent' } }] },
    { when: 'NOKEY', steps: [{ error: { status: 401, message: 'invalid api key' } }] },
    { when: 'BROKEN', steps: [{ text: 'Half an', cut: { how: 'destroy', times: 1 } }] },
    { when: 'SHORT', steps: [{ text: 'Half an', cut: { how: 'end', times: 1 } }] },
    { when: 'BUSY', steps: [{ error: { status: 429, message: 'slow down', times: 1 } }, { text: 'x' }] },
  ],
};

describe.each(dialects)('$name', ({ name, model, address, key }) => {
  let server: FakeModel;
  let env: Record<string, string> = {};
  beforeAll(async () => {
    server = await startFakeModel(scenario);
    const url = name === 'chat' ? `${server.url}/v1` : server.url;
    env = { AGENTCTL_MODEL: model, [address]: url, [key]: 'a-key' };
  });
  afterAll(() => server.close());

  test('thinks, speaks, writes a file when allowed, and counts what the server counts', async () => {
    using desk = new Desk();
    const client = desk.open(env);
    await client.begin();
    const before = server.requests().length;
    const { stopReason, usage: counted } = await client.prompt('HELLO please');
    expect(stopReason).toBe('end_turn');
    expect(readFileSync(join(desk.root, 'hello.txt'), 'utf8')).toBe('hello\n');
    expect(client.said()).toBe('I will write the file.Done: hello.txt is written.');
    expect(client.said('agent_thought_chunk')).toBe('I should write the file.');
    expect(client.permissions).toMatchObject([{ kind: 'edit', title: expect.stringContaining('hello.txt') }]);
    const calls = server.requests().slice(before);
    expect(calls.map(({ dialect }) => dialect)).toEqual([name, name]);
    expect(counted).toMatchObject({
      inputTokens: 2 * usage.input,
      cachedReadTokens: 2 * usage.cached,
      outputTokens: 2 * usage.output,
      totalTokens: 2 * (usage.input + usage.cached + usage.output),
    });
    expect(client.of('tool_call_update').at(-1)).toMatchObject({ status: 'completed' });
  });

  test('reads and edits; a refused edit is not made, and is not the end', async () => {
    using desk = new Desk();
    const file = join(desk.root, 'old.txt');
    writeFileSync(file, 'before\n');
    const refused = desk.open(env, () => 'reject');
    await refused.begin();
    expect((await refused.prompt('EDIT please')).stopReason).toBe('end_turn');
    expect(readFileSync(file, 'utf8')).toBe('before\n');
    expect(refused.permissions).toHaveLength(1);
    expect(refused.said()).toBe('Edited.');
    const free = desk.open(env, () => null);
    await free.begin();
    await free.mode('accept_edits');
    await free.prompt('EDIT please');
    expect(free.permissions).toEqual([]);
    expect(readFileSync(file, 'utf8')).toBe('after\n');
  });

  test('a cancel ends the answer, or the command that runs, at once', async () => {
    using desk = new Desk();
    const client = desk.open(env);
    await client.begin();
    await client.mode('full');
    for (const [words, begun] of [
      ['SLOW', () => client.said().includes('thinking')],
      ['COMMAND', () => existsSync(join(desk.root, 'mark'))],
    ] as const) {
      const answer = client.prompt(words);
      while (!begun()) await new Promise((resolve) => setTimeout(resolve, 5));
      const since = performance.now();
      await client.cancel();
      expect((await answer).stopReason).toBe('cancelled');
      expect(performance.now() - since).toBeLessThan(800);
    }
    // And the conversation goes on.
    expect((await client.prompt('REMEMBER?')).stopReason).toBe('end_turn');
  });

  test('the conversation is taken up by another process, after any end of the one before', async () => {
    using desk = new Desk();
    const first = desk.open(env);
    await first.begin();
    await first.prompt('HELLO please');
    const second = desk.open(env);
    await second.begin('resume', first.session);
    await second.prompt('REMEMBER?');
    const sent = JSON.stringify(server.requests().at(-1)?.body);
    for (const words of ['HELLO please', 'Done: hello.txt is written.', 'hello.txt', 'REMEMBER?'])
      expect(sent).toContain(words);
    const third = desk.open(env);
    await third.begin('load', first.session);
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect(third.said('user_message_chunk')).toBe('HELLO pleaseREMEMBER?');
    expect(third.said()).toBe('I will write the file.Done: hello.txt is written.I do.');
  });

  test('failures of the model: 402 and 401 are told with their status, 429 is tried again', async () => {
    using desk = new Desk();
    let client = desk.open(env);
    await client.begin();
    await expect(client.prompt('BUDGET')).rejects.toMatchObject({ code: -32603, data: { status: 402 } });
    client = desk.open(env);
    await client.begin();
    await expect(client.prompt('NOKEY')).rejects.toMatchObject({ code: -32000, data: { status: 401 } });
    client = desk.open(env);
    await client.begin();
    const before = server.requests().length;
    expect((await client.prompt('BUSY')).stopReason).toBe('end_turn');
    expect(server.requests().length - before).toBe(2);
    expect(client.of('notice')).toMatchObject([{ title: expect.stringContaining('429') }]);
  });

  test.each(['BROKEN', 'SHORT'])('an answer that breaks off is asked for again: %s', async (words) => {
    using desk = new Desk();
    const client = desk.open(env);
    await client.begin();
    const before = server.requests().length;
    expect((await client.prompt(words)).stopReason).toBe('end_turn');
    expect(server.requests().length - before).toBe(2);
    expect(client.of('notice')).toHaveLength(1);
    // The half answer is no part of the conversation.
    await client.prompt('REMEMBER?');
    expect(JSON.stringify(server.requests().at(-1)?.body).split('Half an').length - 1).toBe(1);
  });

  test('an answer that is not in its form is asked for in it, and the provider sees to that', async () => {
    using desk = new Desk();
    const client = desk.open(env);
    await client.begin();
    const output_schema = { type: 'object', properties: { title: { type: 'string' } }, required: ['title'] };
    await client.prompt('REMEMBER?', { agentctl: { output_schema } });
    expect(client.said()).toBe('I do.{"title":"fake"}');
  });
});
