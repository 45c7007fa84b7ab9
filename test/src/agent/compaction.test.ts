import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { Desk } from '../../kit/agent-client.ts';
import { type FakeModel, type Scenario, startFakeModel } from '../../kit/fake-model.ts';

let server: FakeModel;
afterEach(() => server.close());

const open = async (desk: Desk, scenario: Scenario, room: number) => {
  server = await startFakeModel(scenario);
  const client = desk.open({
    AGENTCTL_MODEL: 'anthropic/claude-sonnet-5',
    ANTHROPIC_BASE_URL: server.url,
    ANTHROPIC_API_KEY: 'x',
    AGENTCTL_AGENT_CONTEXT_TOKENS: String(room),
  });
  await client.begin();
  return client;
};
const sent = (at: number): string => {
  const body = server.requests().at(at)?.body as { messages: unknown } | undefined;
  return JSON.stringify(body?.messages);
};

test('a conversation that has grown long goes on from a summary, and that is said', async () => {
  using desk = new Desk();
  const client = await open(
    desk,
    { side: { text: 'SUMMARY of all.' }, scripts: [{ steps: [{ text: `Here: ${'word '.repeat(2000)}` }] }] },
    2000,
  );
  await client.prompt('FIRST thing');
  expect(client.of('notice')).toEqual([]);
  await client.prompt('SECOND thing');
  expect(client.of('notice')).toMatchObject([{ title: expect.stringContaining('summary') }]);
  expect(sent(-1)).toContain('SUMMARY of all.');
  expect(sent(-1)).toContain('SECOND thing');
  expect(sent(-1)).not.toContain('FIRST thing');
  // Another process begins from there, too.
  const next = desk.open({
    AGENTCTL_MODEL: 'anthropic/claude-sonnet-5',
    ANTHROPIC_BASE_URL: server.url,
    ANTHROPIC_API_KEY: 'x',
  });
  await next.begin('resume', client.session);
  await next.prompt('THIRD thing');
  expect(sent(-1)).toContain('SUMMARY of all.');
  expect(sent(-1)).not.toContain('FIRST thing');
});

test('in the middle of a turn old answers of tools go first, and the work goes on', async () => {
  using desk = new Desk();
  writeFileSync(join(desk.root, 'big.txt'), 'content '.repeat(75));
  const steps = Array.from({ length: 24 }, () => ({ calls: [{ do: 'read' as const, path: 'big.txt' }] }));
  const client = await open(
    desk,
    { usage: { input: 21_000, cached: 0 }, scripts: [{ steps: [...steps, { text: 'Read.' }] }] },
    20_000,
  );
  expect((await client.prompt('READ it')).stopReason).toBe('end_turn');
  expect(client.said()).toBe('Read.');
  expect(client.of('notice').length).toBeGreaterThan(0);
  for (const { title } of client.of('notice')) expect(title).toContain('old answers of tools were taken out');
  expect(sent(-1)).toContain('characters were taken out to save room');
  expect(sent(-1)).toContain('READ it');
});

test('a model that finds the conversation too long is asked again with a shorter one', async () => {
  using desk = new Desk();
  const client = await open(
    desk,
    {
      side: { text: 'SUMMARY.' },
      scripts: [
        {
          when: 'TOOLONG',
          steps: [{ error: { status: 400, message: 'prompt is too long: 9 tokens', times: 1 } }, { text: 'x' }],
        },
        { steps: [{ text: 'Before.' }] },
      ],
    },
    100_000,
  );
  await client.prompt('FIRST thing');
  expect((await client.prompt('TOOLONG thing')).stopReason).toBe('end_turn');
  expect(client.of('notice')).toMatchObject([{ title: expect.stringContaining('summary') }]);
  expect(sent(-1)).toContain('SUMMARY.');
  expect(sent(-1)).toContain('TOOLONG thing');
  expect(sent(-1)).not.toContain('FIRST thing');
});
