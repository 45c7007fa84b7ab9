import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Event } from '../../src/api/events.ts';
import { openApp, type TestApp } from '../kit/app.ts';
import { type Script, scriptedAgent } from '../kit/scripted-agent.ts';
import { createGate, createProject, createRun, createWorkspace, dump, ended, missingRun, untilRun } from './scene.ts';
import { rounds } from '../kit/random.ts';

const agent = (script: Script) => ({ ...scriptedAgent(script), reports_cost: true });
const config = {
  sandbox: { unavailable: 'allow' },
  harnesses: {
    missing: { command: ['/nonexistent/agent'] },
    resuming: agent({ resume: true, prompts: [[{ recall: true }]] }),
    forgetful: agent({ prompts: [[{ recall: true }]] }),
    telling: agent({ system_prompt: true, prompts: [[{ system: true }]] }),
    writing: agent({ prompts: [[{ write: { path: 'made', text: 'one' } }, { say: 'Made.' }]] }),
  },
};
const unkept = { before: false, after: false };
const cheap = { sandbox: 'none', checkpoint: unkept };

let scene: TestApp;
let project: string;
const call = (method: string, url: string, body?: unknown) => scene.call(method, url, body);
const text = async (run: string): Promise<string> => {
  expect(await untilRun(scene, run, ended)).toMatchObject({ status: 'completed' });
  return (await call('GET', `/v1/runs/${run}/result`)).body.text;
};
const make = async (path: string, body: object) => {
  const { status, text: said, body: made } = await call('POST', path, body);
  if (status !== 201) throw new Error(said);
  return made;
};
const send = async (session: string, body: object): Promise<string> => {
  const { status, text: said, headers, body: accepted } = await call('POST', `/v1/sessions/${session}/messages`, body);
  if (status !== 202) throw new Error(said);
  expect(headers.location).toBe(`/v1/runs/${accepted.run_id}`);
  return accepted.run_id;
};
const events = async (run: string): Promise<Event[]> =>
  (await call('GET', `/v1/runs/${run}/events?limit=1000`)).body.data;

beforeAll(async () => {
  scene = await openApp({ config });
  project = (await createProject(scene)).id;
});
afterAll(() => scene.close());

describe('a run with an agent', () => {
  test('takes what the agent says, and what the request says before it; both are pinned', async () => {
    const definition = {
      name: 'Brief',
      harness: 'telling',
      model: 'm1',
      instructions: 'Be brief.',
      limits: { timeout_seconds: 50, max_turns: 9 },
      permission_mode: 'full',
      on_input: 'reject',
    };
    const { id: agent_id } = await make('/v1/agents', definition);
    const begun = await createRun(scene, {
      project_id: project,
      agent_id,
      ...cheap,
      prompt: 'go',
      limits: { max_turns: 3 },
    });
    await call('PATCH', `/v1/agents/${agent_id}`, { instructions: 'Be long.', model: 'm2' });
    expect(await text(begun.run_id)).toContain('Be brief.');
    expect((await call('GET', `/v1/runs/${begun.run_id}`)).body).toMatchObject({
      agent_id,
      agent_revision: 1,
      harness: 'telling',
      model: 'm1',
      limits: { timeout_seconds: 50, max_turns: 3 },
      permission_mode: 'full',
      on_input: 'reject',
    });
    const started = (await events(begun.run_id)).find(({ type }) => type === 'run.started');
    expect(started?.data).toMatchObject({ agent_id, agent_revision: 1, harness: 'telling', model: 'm1' });

    const newest = await createRun(scene, { project_id: project, agent_id, ...cheap, prompt: 'go', model: 'mine' });
    expect(await text(newest.run_id)).toContain('Be long.');
    expect((await call('GET', `/v1/runs/${newest.run_id}`)).body).toMatchObject({ agent_revision: 2, model: 'mine' });
    const older = await createRun(scene, { project_id: project, agent_id, agent_revision: 1, ...cheap, prompt: 'go' });
    expect(await text(older.run_id)).toContain('Be brief.');

    // An archived agent begins nothing; what has begun with it goes on, at its own revision.
    await call('DELETE', `/v1/agents/${agent_id}`);
    const refused = await call('POST', '/v1/runs', { project_id: project, agent_id, ...cheap, prompt: 'go' });
    expect(refused.body.error).toMatchObject({ code: 'invalid_state', details: { state: 'archived' } });
    expect(await text(await send(begun.session_id, { prompt: 'more' }))).toContain('Be brief.');
    expect((await call('GET', `/v1/sessions/${begun.session_id}`)).body).toMatchObject({
      agent_id,
      agent_revision: 1,
      model: 'm1',
      run_count: 2,
      status: 'idle',
    });
  });

  test('with another harness leaves the agent’s model, which is none of it', async () => {
    const { id: agent_id } = await make('/v1/agents', { name: 'Two', harness: 'resuming', model: 'its own' });
    const { run_id } = await createRun(scene, { ...missingRun, project_id: project, agent_id });
    expect((await call('GET', `/v1/runs/${run_id}`)).body).toMatchObject({ harness: 'missing', model: null });
  });
});

describe('a conversation', () => {
  test('is begun without a run, gets messages, and is a whole with its figures', async () => {
    const { id: agent_id } = await make('/v1/agents', { name: 'Recall', harness: 'resuming' });
    const session = await make('/v1/sessions', { project_id: project, agent_id, title: 'Talk', metadata: { a: 'b' } });
    expect(session).toMatchObject({
      status: 'idle',
      run_count: 0,
      title: 'Talk',
      agent_revision: 1,
      harness: 'resuming',
    });
    expect(await text(await send(session.id, { prompt: 'one', metadata: { c: 'd' } }))).toBe('one');
    expect(await text(await send(session.id, { prompt: 'two', model: 'm' }))).toBe('one|two');
    const { body: after } = await call('GET', `/v1/sessions/${session.id}`);
    expect(after).toMatchObject({ status: 'idle', run_count: 2, title: 'Talk', model: null, metadata: { a: 'b' } });
    const runs = (await call('GET', `/v1/runs?session_id=${session.id}`)).body.data;
    expect(runs.map(({ model, metadata }: { model: string; metadata: object }) => ({ model, metadata }))).toEqual([
      { model: 'm', metadata: {} },
      { model: null, metadata: { c: 'd' } },
    ]);
    expect(after.usage.turns).toBe(runs[0].usage.turns + runs[1].usage.turns);
    expect(after.latest_run_id).toBe(runs[0].id);
  });

  test('a message goes on as the run before was started', async () => {
    const how = {
      permission_mode: 'full',
      on_input: 'fail',
      input_timeout_seconds: 7,
      sandbox: 'none',
      checkpoint: unkept,
    };
    const first = await createRun(scene, { project_id: project, harness: 'forgetful', prompt: 'one', ...how });
    await untilRun(scene, first.run_id, ended);
    const second = await send(first.session_id, { prompt: 'two', limits: { max_turns: 5 } });
    expect(await text(second)).toMatch(/<user>\none\n<\/user>\n<assistant>\none\n<\/assistant>[^]*two$/);
    expect((await call('GET', `/v1/runs/${second}`)).body).toMatchObject({ ...how, limits: { max_turns: 5 } });
  });

  test('a message is kept from the network as the run before was', async () => {
    const how = { harness: 'shell', checkpoint: unkept, network: 'deny' };
    const first = await call('POST', '/v1/runs', { project_id: project, prompt: 'true', ...how });
    // Where there is no sandbox neither of them begins.
    const session = first.status === 202 ? first.body.session_id : null;
    const second = session && (await send(session, { prompt: 'true' }));
    const { body } = second ? await call('GET', `/v1/runs/${second}`) : { body: { network: 'deny' } };
    expect(body.network).toEqual('deny');
    if (second) await untilRun(scene, second, ended);
  });

  test('goes on in the harness’s own words after the daemon was started anew', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'agentctl-test-'));
    let other = await openApp({ config, folder });
    const { id } = await createProject(other);
    const first = await createRun(other, { project_id: id, harness: 'resuming', prompt: 'one', checkpoint: unkept });
    await untilRun(other, first.run_id, ended);
    await other.leave();
    other = await openApp({ config, folder });
    const path = `/v1/sessions/${first.session_id}/messages`;
    const { body } = await other.call('POST', path, { prompt: 'two' });
    await untilRun(other, body.run_id, ended);
    expect((await other.call('GET', `/v1/runs/${body.run_id}/result`)).body.text).toBe('one|two');
    await other.close();
  });

  test('has a title that can be changed, and is archived only when it is idle', async () => {
    const gate = createGate();
    const { session_id, run_id } = await createRun(scene, {
      project_id: project,
      harness: 'shell',
      prompt: gate.script,
    });
    const path = `/v1/sessions/${session_id}`;
    expect((await call('PATCH', path, { title: 'Other' })).body.title).toBe('Other');
    expect((await call('PATCH', path, { archived: true })).body.error).toMatchObject({
      code: 'invalid_state',
      details: { state: 'running' },
    });
    gate.open();
    await untilRun(scene, run_id, ended);
    gate.remove();
    expect((await call('PATCH', path, { archived: true })).body).toMatchObject({ status: 'archived', title: 'Other' });
    expect((await call('PATCH', path, { archived: true, title: null })).body).toMatchObject({ title: null });
    for (const [url, body] of [
      [`${path}/messages`, { prompt: 'more' }],
      ['/v1/runs', { session_id, prompt: 'more' }],
    ] as const)
      expect((await call('POST', url, body)).body.error).toMatchObject({
        code: 'invalid_state',
        details: { state: 'archived' },
      });
    expect((await call('PATCH', path, { archived: false })).body.status).toBe('idle');
    await untilRun(scene, await send(session_id, { prompt: 'true' }), ended);
  });
});

describe('a fork', () => {
  test('goes on after a run: with what was said until then, in the files of then', async () => {
    const ready = await createWorkspace(scene, project);
    const first = await createRun(scene, { workspace_id: ready.id, harness: 'forgetful', prompt: 'one' });
    await untilRun(scene, first.run_id, ended);
    writeFileSync(join(ready.path, 'between'), 'here');
    const second = await send(first.session_id, { prompt: 'two' });
    await untilRun(scene, second, ended);
    writeFileSync(join(ready.path, 'later'), 'here');
    const path = `/v1/sessions/${first.session_id}/fork`;

    const early = await make(path, { run_id: first.run_id, title: 'Early' });
    const late = await make(path, {});
    const nested = await make(`/v1/sessions/${early.id}/fork`, { metadata: { a: 'b' } });
    await scene.app.settle();
    expect(early).toMatchObject({
      status: 'idle',
      run_count: 0,
      title: 'Early',
      latest_run_id: null,
      project_id: project,
    });
    expect(late.title).toBe('one');
    expect(nested).toMatchObject({ title: 'Early', metadata: { a: 'b' } });
    const files = async ({ workspace_id }: { workspace_id: string }) => {
      const { body } = await call('GET', `/v1/workspaces/${workspace_id}`);
      expect(body).toMatchObject({ status: 'ready', source: { type: 'checkpoint' }, name: 'workspace fork' });
      return ['between', 'later'].map((name) => existsSync(join(body.path, name)));
    };
    expect(await files(early)).toEqual([false, false]);
    expect(await files(late)).toEqual([true, false]);

    const said = await text(await send(nested.id, { prompt: 'three' }));
    expect(said).toMatch(/<user>\none\n[^]*three$/);
    expect(said).not.toContain('two');
    expect(await text(await send(late.id, { prompt: 'three' }))).toMatch(/\none\n[^]*two[^]*three$/);
    // What goes on in a fork is nothing to the conversation that it came from.
    const { body } = await call('GET', `/v1/sessions/${first.session_id}`);
    expect(body).toMatchObject({ run_count: 2, latest_run_id: second });
  });
});

describe('what is refused changes nothing', () => {
  const nobody = '01890a5d-ac96-774b-bcce-b302099a8057';
  let ids: Record<string, string>;
  beforeAll(async () => {
    const { id: plain } = await make('/v1/agents', { name: 'Plain', harness: 'missing' });
    const { id: wordy } = await make('/v1/agents', { name: 'Wordy', instructions: 'Be brief.' });
    const { id: away } = await make('/v1/agents', { name: 'Away' });
    await call('DELETE', `/v1/agents/${away}`);
    const { id: empty, workspace_id } = await make('/v1/sessions', { project_id: project, harness: 'missing' });
    const { id: pinned } = await make('/v1/sessions', { workspace_id, agent_id: plain });
    await scene.app.settle();
    const run = await createRun(scene, { ...missingRun, workspace_id });
    await untilRun(scene, run.run_id, ended);
    const other = await createRun(scene, { ...missingRun, workspace_id });
    await untilRun(scene, other.run_id, ended);
    ids = {
      project,
      plain,
      wordy,
      away,
      empty,
      pinned,
      workspace_id,
      unkept: run.session_id,
      run: other.run_id,
      nobody,
    };
  });
  const fill = (value: string) => value.replace(/\{(\w+)\}/g, (_, name: string) => ids[name]!);

  test.each([
    ['an agent that there is not', '/v1/runs', { project_id: '{project}', agent_id: '{nobody}' }, 404, 'not_found'],
    [
      'a revision that there is not',
      '/v1/runs',
      { project_id: '{project}', agent_id: '{plain}', agent_revision: 2 },
      404,
      'not_found',
    ],
    ['a revision of no agent', '/v1/runs', { project_id: '{project}', agent_revision: 1 }, 400, 'invalid_request'],
    ['an archived agent', '/v1/runs', { project_id: '{project}', agent_id: '{away}' }, 409, 'invalid_state'],
    [
      'instructions for a shell',
      '/v1/runs',
      { project_id: '{project}', agent_id: '{wordy}', harness: 'shell' },
      400,
      'invalid_request',
    ],
    ['another agent in a session', '/v1/runs', { session_id: '{pinned}', agent_id: '{wordy}' }, 400, 'invalid_request'],
    [
      'an agent in a session without',
      '/v1/runs',
      { session_id: '{empty}', agent_id: '{plain}' },
      400,
      'invalid_request',
    ],
    [
      'another revision in a session',
      '/v1/runs',
      { session_id: '{pinned}', agent_revision: 2 },
      400,
      'invalid_request',
    ],
    ['another harness in a session', '/v1/runs', { session_id: '{pinned}', harness: 'shell' }, 400, 'invalid_request'],
    ['a session of nothing', '/v1/sessions', {}, 400, 'invalid_request'],
    [
      'a session of two',
      '/v1/sessions',
      { project_id: '{project}', workspace_id: '{workspace_id}' },
      400,
      'invalid_request',
    ],
    ['a session of a project that there is not', '/v1/sessions', { project_id: '{nobody}' }, 404, 'not_found'],
    ['a session of a workspace that there is not', '/v1/sessions', { workspace_id: '{nobody}' }, 404, 'not_found'],
    ['a session without a harness', '/v1/sessions', { project_id: '{project}' }, 400, 'invalid_request'],
    [
      'a session with an archived agent',
      '/v1/sessions',
      { project_id: '{project}', agent_id: '{away}' },
      409,
      'invalid_state',
    ],
    ['a message to nobody', '/v1/sessions/{nobody}/messages', {}, 404, 'not_found'],
    ['a message with a harness', '/v1/sessions/{empty}/messages', { harness: 'shell' }, 400, 'invalid_request'],
    ['a message with what is no word', '/v1/sessions/{empty}/messages', { on_busy: 'push' }, 400, 'invalid_request'],
    ['a message with an empty prompt', '/v1/sessions/{empty}/messages', { prompt: '' }, 400, 'invalid_request'],
    ['a fork of nobody', '/v1/sessions/{nobody}/fork', { prompt: undefined }, 404, 'not_found'],
    ['a fork of nothing', '/v1/sessions/{empty}/fork', { prompt: undefined }, 409, 'invalid_state'],
    ['a fork where nothing was kept', '/v1/sessions/{unkept}/fork', { prompt: undefined }, 409, 'invalid_state'],
    [
      'a fork after a run of another session',
      '/v1/sessions/{empty}/fork',
      { prompt: undefined, run_id: '{run}' },
      404,
      'not_found',
    ],
  ])('%s', async (_, path, body, status, code) => {
    const needsPrompt = path.endsWith('runs') || path.endsWith('messages');
    const before = dump(scene.app);
    const sent = JSON.parse(fill(JSON.stringify(needsPrompt ? { prompt: 'x', ...body } : body)));
    const answer = await call('POST', fill(path), sent);
    expect({ status: answer.status, code: answer.body.error.code }).toEqual({ status, code });
    expect(dump(scene.app)).toBe(before);
  });
});

describe('a session that is busy', () => {
  test('reject, queue and interrupt', async () => {
    const gate = createGate();
    const base = { harness: 'shell', checkpoint: unkept };
    const first = await createRun(scene, { ...base, project_id: project, prompt: gate.script });
    await untilRun(scene, first.run_id, ['running']);
    const path = `/v1/sessions/${first.session_id}/messages`;
    const rejected = await call('POST', path, { prompt: 'echo no', on_busy: 'reject' });
    expect(rejected).toMatchObject({ status: 409, body: { error: { code: 'session_busy', retryable: true } } });
    const second = await send(first.session_id, { prompt: 'echo second' });
    const third = await send(first.session_id, { prompt: 'echo third', on_busy: 'interrupt' });
    // Interrupting once more has nothing left to stop.
    const fourth = await send(first.session_id, { prompt: 'echo fourth', on_busy: 'interrupt' });
    expect(await untilRun(scene, first.run_id, ended)).toMatchObject({ status: 'cancelled', stop_reason: 'cancelled' });
    const told = await events(first.run_id);
    expect(told.filter(({ type }) => type === 'run.status_changed').map(({ data }) => data)).toEqual([
      { from: 'running', to: 'cancelling', reason: 'interrupted' },
    ]);
    expect(told.find(({ type }) => type === 'log')?.data).toMatchObject({ text: expect.stringContaining(third) });
    const starts: string[] = [];
    for (const run of [second, third, fourth]) {
      await untilRun(scene, run, ['completed']);
      starts.push((await call('GET', `/v1/runs/${run}`)).body.started_at);
    }
    expect(starts).toEqual(starts.toSorted());
    const { body } = await call('GET', `/v1/sessions/${first.session_id}`);
    expect(body).toMatchObject({ status: 'idle', run_count: 4, latest_run_id: fourth });
    gate.remove();
  });

  const step = fc.oneof(
    {
      weight: 5,
      arbitrary: fc.record({ do: fc.constant('send' as const), how: fc.constantFrom('queue', 'reject', 'interrupt') }),
    },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('cancel' as const), which: fc.nat({ max: 9 }) }) },
    { weight: 3, arbitrary: fc.record({ do: fc.constant('finish' as const) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('restart' as const) }) },
  );

  test(
    'whatever is sent, stopped, and started anew: in order, one at a time, none lost',
    { timeout: 60_000 },
    async () => {
      const folder = mkdtempSync(join(tmpdir(), 'agentctl-test-'));
      const gates = mkdtempSync(join(tmpdir(), 'agentctl-gates-'));
      let app = await openApp({ config, folder });
      const { id: project_id } = await createProject(app);
      let n = 0;
      await fc.assert(
        fc.asyncProperty(fc.array(step, { minLength: 3, maxLength: 9 }), async (steps) => {
          const accepted: { id: string; file: string }[] = [];
          const answers: { status: number; may: number[] }[] = [];
          const script = () => {
            const file = join(gates, String(++n));
            return { file, prompt: `until [ -e '${file}' ] || [ ! -d '${gates}' ]; do sleep 0.01; done` };
          };
          const { file, prompt } = script();
          const first = await createRun(app, { project_id, harness: 'shell', prompt, ...cheap });
          accepted.push({ id: first.run_id, file });
          const get = async (id: string) => (await app.call('GET', `/v1/runs/${id}`)).body;
          const open = async () => {
            const all = await Promise.all(accepted.map(async (one) => ({ ...one, run: await get(one.id) })));
            return all.filter(({ run }) => !ended.includes(run.status));
          };
          for (const one of steps) {
            if (one.do === 'send') {
              const next = script();
              const path = `/v1/sessions/${first.session_id}/messages`;
              const isBusy = (await open()).length > 0;
              const { status, body } = await app.call('POST', path, { prompt: next.prompt, on_busy: one.how });
              answers.push({ status, may: one.how === 'reject' && isBusy ? [202, 409] : [202] });
              if (status === 202) accepted.push({ id: body.run_id, file: next.file });
            } else if (one.do === 'cancel') {
              await app.call('POST', `/v1/runs/${accepted[one.which % accepted.length]!.id}/cancel`, {});
            } else if (one.do === 'finish') {
              const [oldest] = await open();
              if (oldest) writeFileSync(oldest.file, '');
            } else {
              await app.leave();
              app = await openApp({ config, folder });
            }
          }
          for (const { status, may } of answers) expect(status).toBeOneOf(may);
          for (const { file: gate } of accepted) writeFileSync(gate, '');
          const spans: { from: number; to: number }[] = [];
          for (const { id } of accepted) {
            const run = await untilRun(app, id, ended);
            expect(run.status).toBeOneOf(['completed', 'cancelled']);
            // The order of all events is the order in which they were stored.
            const rows = app.app.db.all<{ key: number; type: string }>(
              `SELECT e.key, e.type FROM events e JOIN runs r ON r.key = e.run WHERE r.id = ? ORDER BY e.key`,
              [id],
            );
            expect(rows.map(({ type }) => type).filter((type) => type === `run.${run.status}`)).toHaveLength(1);
            const started = rows.find(({ type }) => type === 'run.started');
            if (started) spans.push({ from: started.key, to: rows.at(-1)!.key });
          }
          for (const [index, span] of spans.entries()) expect(span.from).toBeGreaterThan(spans[index - 1]?.to ?? 0);
          const { body: session } = await app.call('GET', `/v1/sessions/${first.session_id}`);
          expect(session).toMatchObject({
            status: 'idle',
            run_count: accepted.length,
            latest_run_id: accepted.at(-1)!.id,
          });
        }),
        { numRuns: rounds({ short: 6, long: 200 }, 'AGENTCTL_HISTORIES') },
      );
      await app.close();
      rmSync(gates, { recursive: true, force: true });
    },
  );
});
