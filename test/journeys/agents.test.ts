import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createRegistry, type Registry } from '../../src/harness/registry.ts';
import { findRun, tracesIn } from '../../src/runner/ending.ts';
import { runFiles, type RunSpec } from '../../src/runner/protocol.ts';
import { installed, type RealAgent, realAgents } from '../kit/agents.ts';
import { type FakeModel, type Scenario, startFakeModel } from '../kit/fake-model.ts';
import { isLong } from '../kit/random.ts';
import { Place, type Runner, until } from '../kit/runner.ts';
import { noSandbox, sandboxSpec } from '../kit/sandbox.ts';

/** The real programs, against a model that plays a script. Which: all that are asked for in AGENTS, or the two that are light. */
const wanted = (process.env.AGENTS ?? (isLong ? 'gemini,opencode,codex,claude' : 'gemini,opencode')).split(',');

const scenario: Scenario = {
  usage: { input: 1000, output: 50, cached: 200, reasoning: 10 },
  side: { text: 'A title' },
  scripts: [
    // First, as an agent that cannot resume is told the earlier words in the same prompt.
    { when: 'REMEMBER', steps: [{ text: 'You said HELL0 before.' }] },
    {
      when: 'HELLO',
      steps: [
        {
          thinking: 'I should write the file.',
          text: 'I will write the file.',
          calls: [{ do: 'write', path: 'hello.txt', content: 'hello from the fake model\n' }],
        },
        { text: 'Done: hello.txt is written.' },
      ],
    },
    {
      when: 'EDIT',
      steps: [
        { text: 'Reading.', calls: [{ do: 'read', path: 'old.txt' }] },
        { text: 'Editing.', calls: [{ do: 'edit', path: 'old.txt', old: 'before', new: 'after' }] },
        { text: 'Edited.' },
      ],
    },
    ...([{}, { escalated: true as const }] as const).map((how, index) => ({
      when: ['EVERYTHING', 'ESCALATED'][index]!,
      steps: [
        {
          text: 'Looking.',
          calls: [{ do: 'shell' as const, command: 'cat old.txt; touch ../escaped; echo ran > mark', ...how }],
        },
        // Some edit only what they have read.
        { text: 'Reading.', calls: [{ do: 'read' as const, path: 'old.txt' }] },
        { text: 'Editing.', calls: [{ do: 'edit' as const, path: 'old.txt', old: 'before', new: 'after' }] },
        { text: 'Everything is done.' },
      ],
    })),
    { when: 'SLOW', steps: [{ text: 'Working on it for a long time.', hang: true }] },
    {
      when: 'COMMAND',
      steps: [{ text: 'A command.', calls: [{ do: 'shell', command: 'echo ran > mark; sleep 300' }] }, { text: 'x' }],
    },
    { when: 'NOKEY', steps: [{ error: { status: 401, message: 'invalid api key' } }] },
  ],
};

describe.each(realAgents.filter(({ id }) => wanted.includes(id)))('$id', { timeout: 180_000 }, (agent: RealAgent) => {
  let model: FakeModel;
  let missing: string | null = null;
  let launch: RunSpec['harness'];
  let known: Registry;
  /** The same for a sandbox, in which the model is reached by the gateway's port. */
  let enclosed: RunSpec['harness'];

  beforeAll(async () => {
    model = await startFakeModel(scenario);
    const found = await installed(agent);
    if ('missing' in found) {
      missing = found.missing;
      return;
    }
    const path = `${found.path}:${dirname(process.execPath)}:/usr/bin:/bin`;
    known = createRegistry({ rows: {}, env: { PATH: path, HOME: '/nonexistent' } });
    const launchWith = (url: string) =>
      createRegistry({
        rows: { [agent.id]: agent.settings(url) },
        env: { PATH: path, HOME: '/nonexistent' },
      }).launch(agent.id);
    const [started, inside] = [launchWith(model.url), launchWith('http://127.0.0.1:4100')];
    if (!started || !inside) missing = `${agent.program} was not found.`;
    else [launch, enclosed] = [started, inside];
  }, 180_000);
  afterAll(() => model.close());

  /** What the other agent shows, too, at less than half the cost: asked of this one in the long form, or by its name. */
  const isSpared = !isLong && process.env.AGENTS === undefined && agent.id === 'opencode';
  const start = (place: Place, prompt: string, changes: Partial<RunSpec> = {}): Runner =>
    place.start({
      ...place.spec(prompt, changes),
      harness: launch,
      model: agent.model,
      env: { PATH: `${dirname(process.execPath)}:/usr/bin:/bin`, LANG: 'C.UTF-8', SHELL: '/bin/sh' },
      limits: { timeout_seconds: 120, max_cost_micro_usd: null, max_turns: null },
    });
  const gone = (place: Place, runner: Runner) => findRun(tracesIn(place.folder, runner.spec.run_id));

  test('works in a sandbox with the gateway as its only way out, and ends with it', async ({ skip }) => {
    if (missing) skip(missing);
    if (noSandbox) skip('There is no sandbox here.');
    await using place = new Place();
    const port = Number(new URL(model.url).port);
    const gateway = createServer({ allowHalfOpen: true }, (near) => {
      const far = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
      near.pipe(far).pipe(near);
      for (const socket of [near, far]) socket.on('error', () => socket.destroy());
    }).listen(join(place.folder, runFiles.gateway));
    const spec = place.spec('HELLO please');
    const sandbox = sandboxSpec({ hidden: [join(place.root, 'data')] });
    const env = { PATH: `${dirname(process.execPath)}:/usr/bin:/bin`, LANG: 'C.UTF-8', HOME: join(place.root, 'home') };
    const runner = place.start({ ...spec, harness: enclosed, model: agent.model, env, sandbox });
    const final = await runner.final(150_000);
    gateway.close();
    expect({ ...final, errors: runner.events('log') }).toMatchObject({
      status: 'completed',
      text: 'Done: hello.txt is written.',
    });
    expect(readFileSync(join(place.workspace, 'hello.txt'), 'utf8')).toBe('hello from the fake model\n');
    expect(gone(place, runner)).toEqual([]);
  });

  // What a run through the API is: enclosed, paid by our key, with the daemon's own gateway.
  test.for(isLong || process.env.AGENTS ? (['full', 'accept_edits', 'ask'] as const) : [])(
    'runs a command and edits a file in a sandbox through our gateway; permissions: %s',
    async (permission_mode, { skip }) => {
      if (missing) skip(missing);
      if (noSandbox) skip('There is no sandbox here.');
      const harness = known.launch(agent.id);
      const [way] = agent.providers;
      if (!harness || !way) throw new Error('It is not told where to call.');
      await using place = new Place();
      writeFileSync(join(place.workspace, 'old.txt'), 'before\n');
      const provider = { id: way.kind, kind: way.kind, base_url: model.url, key: 'sk-the-provider', models: {} };
      const runner = place.start({
        // Codex asks for what its model wants to do outside of its own sandbox, which does not start in ours.
        ...place.spec(permission_mode === 'ask' ? 'ESCALATED please' : 'EVERYTHING please'),
        harness,
        model: way.model,
        gateway: { key: 'the-key-of-the-run', provider, model: way.model },
        sandbox: sandboxSpec({ hidden: [join(place.root, 'data')] }),
        env: { PATH: `${dirname(process.execPath)}:/usr/bin:/bin`, LANG: 'C.UTF-8', HOME: join(place.root, 'home') },
        permission_mode,
        on_input: 'ask',
      });
      const answered = new Set<string>();
      await until(
        () => {
          for (const { request } of runner.records().filter((one) => one.record === 'input')) {
            const yes = request.options.find(({ kind }) => kind === 'allow_once');
            if (!yes || answered.has(request.id)) continue;
            answered.add(request.id);
            void runner.say({ command: 'answer', request_id: request.id, answer: { option_id: yes.id } });
          }
          return runner.find('final');
        },
        'end',
        150_000,
      );
      const final = await runner.final(10_000);
      const inside = (name: string) => readFileSync(join(place.workspace, name), 'utf8');
      expect({ ...final, errors: runner.events('log') }).toMatchObject({
        status: 'completed',
        text: 'Everything is done.',
      });
      expect([inside('old.txt'), inside('mark')]).toEqual(['after\n', 'ran\n']);
      expect(existsSync(join(place.root, 'escaped'))).toBe(false);
      // With edits accepted it is the agent's own matter what else it asks.
      const asks = permission_mode === 'accept_edits' ? answered.size > 0 : permission_mode === 'ask';
      expect(answered.size > 0).toBe(asks);
      expect(gone(place, runner)).toEqual([]);
      console.log(`${agent.id}, ${permission_mode}: asked ${answered.size} times`);
    },
  );

  test('writes a file', async ({ skip }) => {
    if (missing) skip(missing);
    await using place = new Place();
    const runner = start(place, 'HELLO please');
    const final = await runner.final(150_000);
    expect(final).toMatchObject({
      status: 'completed',
      stop_reason: 'end_turn',
      text: 'Done: hello.txt is written.',
    });
    expect(readFileSync(join(place.workspace, 'hello.txt'), 'utf8')).toBe('hello from the fake model\n');
    expect(final.changes.filter(({ path }) => path === 'hello.txt')).toEqual([{ path: 'hello.txt', change: 'added' }]);
    expect(final.usage.input_tokens).toBeGreaterThan(0);
    expect(final.usage.output_tokens).toBeGreaterThan(0);
    expect(final.usage).toMatchObject({ tool_calls: 1, turns: 2 });
    const { cost_micro_usd: cost, cost_source: source } = final.usage;
    expect({ source, known: cost !== null && Number(cost) > 0 }).toEqual(
      launch.reports_cost ? { source: 'reported', known: true } : { source: 'unknown', known: false },
    );
    expect(runner.events('message.completed').map(({ text }) => text)).toEqual([
      'I will write the file.',
      'Done: hello.txt is written.',
    ]);
    // Gemini makes a headline of each piece.
    const thoughts = runner.events('reasoning.completed').map(({ text }) => text.replaceAll(/[*\n]/g, ''));
    expect(thoughts.join('')).toContain('I should write the file.');
    expect(runner.events('tool.started')).toMatchObject([{ category: 'edit' }]);
    expect(runner.events('tool.completed')).toMatchObject([{ status: 'completed' }]);
    expect(runner.find('session')?.native_session_id).toBeTruthy();
    expect(runner.find('started')?.harness_version).toBe(agent.version);
    expect(gone(place, runner)).toEqual([]);
  });

  // All of them only when an agent is asked for by name.
  test.for(process.env.AGENTS ? agent.providers : agent.providers.slice(0, 1))(
    'through the gateway to $kind, metered to the micro-dollar',
    async (way, { skip }) => {
      if (missing) skip(missing);
      const harness = known.launch(agent.id);
      if (!harness?.managed) throw new Error('It is not told where to call.');
      await using place = new Place();
      const before = model.requests().length;
      const provider = { id: way.kind, kind: way.kind, base_url: model.url, key: 'sk-the-provider', models: {} };
      const runner = place.start({
        ...place.spec('HELLO please'),
        harness,
        model: way.model,
        gateway: { key: 'the-key-of-the-run', provider, model: way.model },
        env: {
          PATH: `${dirname(process.execPath)}:/usr/bin:/bin`,
          HOME: '/nonexistent',
          LANG: 'C.UTF-8',
          SHELL: '/bin/sh',
        },
        limits: { timeout_seconds: 120, max_cost_micro_usd: '1000000', max_turns: null },
      });
      const final = await runner.final(150_000);
      expect(final).toMatchObject({ status: 'completed', text: 'Done: hello.txt is written.' });
      const asked = model
        .requests()
        .slice(before)
        .filter(({ dialect }) => dialect !== null);
      const calls = runner.records().flatMap((record) => (record.record === 'call' ? [record.call] : []));
      expect(calls).toHaveLength(asked.length);
      expect(calls.filter(({ main }) => main)).toHaveLength(2);
      expect(final.usage).toMatchObject({
        input_tokens: 1000 * calls.length,
        cached_input_tokens: 200 * calls.length,
        output_tokens: 50 * calls.length,
        turns: 2,
        tool_calls: 1,
        cost_micro_usd: String(calls.reduce((sum, { cost_micro_usd }) => sum + Number(cost_micro_usd), 0)),
        cost_source: 'reported',
      });
      expect(asked.every(({ headers }) => JSON.stringify(headers).includes('sk-the-provider'))).toBe(true);
      expect(JSON.stringify(runner.records())).not.toContain('sk-the-provider');
      console.log(`${agent.id}: ${calls.length} calls through the gateway, ${final.usage.cost_micro_usd} micro-USD`);
    },
  );

  test('goes on with its conversation in another process', async ({ skip }) => {
    if (missing) skip(missing);
    await using place = new Place();
    const first = start(place, 'HELLO please');
    await first.final(150_000);
    await using second = new Place();
    const runner = start(second, 'REMEMBER?', {
      session_folder: place.session,
      workspace: { path: place.workspace, revision: 2 },
      native_session_id: first.find('session')?.native_session_id ?? null,
      // What the daemon hands over for those that do not resume.
      transcript: [
        { role: 'user', text: 'HELLO please' },
        { role: 'assistant', text: 'Done.' },
      ],
    });
    expect(await runner.final(150_000)).toMatchObject({
      status: 'completed',
      text: 'You said HELL0 before.',
      usage: { turns: 1, tool_calls: 0 },
    });
    expect(runner.events('message.completed')).toHaveLength(1);
    const asked = model
      .requests()
      .filter(({ step, body }) => step.startsWith('script') && JSON.stringify(body).includes('REMEMBER'));
    expect(JSON.stringify(asked.at(-1)?.body)).toContain('HELLO please');
  });

  test('a refusal leaves the file unwritten', async ({ skip }) => {
    if (missing) skip(missing);
    if (isSpared) skip('in the long form');
    if (agent.id === 'codex') skip('it asks for commands alone');
    await using place = new Place();
    const runner = start(place, 'HELLO please', { permission_mode: 'ask', on_input: 'ask' });
    const { request } = await runner.seen('input', 150_000);
    expect(request.options.some(({ kind }) => kind === 'reject_once')).toBe(true);
    const no = request.options.find(({ kind }) => kind === 'reject_once');
    await runner.say({ command: 'answer', request_id: request.id, answer: { option_id: no?.id ?? '' } });
    expect(await runner.final(150_000)).toMatchObject({ status: 'completed', changes: [] });
    expect(runner.events('tool.completed')).toMatchObject([{ status: 'rejected' }]);
  });

  test('a refused key fails the run', async ({ skip }) => {
    if (missing) skip(missing);
    if (isSpared) skip('in the long form');
    if (agent.id === 'claude') skip('it tries again for more than two minutes');
    await using place = new Place();
    const runner = start(place, 'NOKEY please');
    expect(await runner.final(150_000)).toMatchObject({
      status: 'failed',
      stop_reason: 'provider_error',
      error: { code: 'provider_auth', retryable: false },
    });
  });

  test('a cancel ends it while the model speaks', async ({ skip }) => {
    if (missing) skip(missing);
    if (isSpared) skip('in the long form');
    await using place = new Place();
    const runner = start(place, 'SLOW please');
    await until(() => runner.events('message.delta').length > 0, 'message', 150_000);
    const since = Date.now();
    await runner.say({ command: 'cancel' });
    expect(await runner.final(30_000)).toMatchObject({ status: 'cancelled', stop_reason: 'cancelled' });
    console.log(`${agent.id}: cancelled while speaking after ${Date.now() - since} ms`);
    expect(gone(place, runner)).toEqual([]);
  });

  test('a cancel ends it, and the command that it runs', async ({ skip }) => {
    if (missing) skip(missing);
    await using place = new Place();
    const runner = start(place, 'COMMAND please');
    await until(
      () => runner.find('started') && gone(place, runner).length > 0 && existsMark(place),
      'command',
      150_000,
    );
    const since = Date.now();
    await runner.say({ command: 'cancel' });
    expect(await runner.final(30_000)).toMatchObject({ status: 'cancelled' });
    console.log(`${agent.id}: cancelled with a command after ${Date.now() - since} ms`);
    expect(gone(place, runner)).toEqual([]);
  });
});

const existsMark = (place: Place): boolean => {
  try {
    return readFileSync(join(place.workspace, 'mark'), 'utf8') === 'ran\n';
  } catch {
    return false;
  }
};
