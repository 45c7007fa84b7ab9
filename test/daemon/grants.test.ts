import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openApp, type TestApp, until } from '../kit/app.ts';
import { type Script, scriptedAgent } from '../kit/scripted-agent.ts';
import { createProject, createRun, createWorkspace, ended, untilRun } from './scene.ts';

const asking = (command: string, more: object = {}): Script['prompts'][number] => [
  {
    ask: { id: command, title: command, kind: 'execute', rawInput: { command }, ...more },
    allowed: [{ write: { path: 'done', text: command } }],
  },
];
const agent = (script: Script) => ({ ...scriptedAgent(script), reports_cost: true });
const config = {
  sandbox: { unavailable: 'allow' },
  harnesses: {
    asking: agent({ prompts: [asking('make')] }),
    longer: agent({ prompts: [asking('make ')] }),
    once: agent({ prompts: [asking('make', { only_once: true })] }),
    twice: agent({ prompts: [[...asking('first'), ...asking('make')]] }),
  },
};
let scene: TestApp;
beforeAll(async () => {
  scene = await openApp({ config });
});
afterAll(() => scene.close());

const call = (method: string, url: string, body?: unknown) => scene.call(method, url, body);
const begin = async (workspace_id: string, harness: string, more: object = {}) => {
  const body = {
    workspace_id,
    harness,
    prompt: 'go',
    sandbox: 'none',
    checkpoint: { before: false, after: false },
    ...more,
  };
  return (await createRun(scene, body)).run_id;
};
const question = async (run: string, title: string) =>
  until(`the question about ${title}`, async () => {
    const { body } = await call('GET', `/v1/runs/${run}`);
    return body.pending_input.find((request: { title: string }) => request.title === title);
  });
const answer = async (run: string, option_id: string) => {
  expect((await call('POST', `/v1/runs/${run}/input`, { option_id })).status).toBe(202);
};
const place = async () => {
  const { id } = await createProject(scene);
  const { id: workspace, path } = await createWorkspace(scene, id);
  const wasDone = () => {
    const file = join(path, 'done');
    const done = existsSync(file);
    rmSync(file, { force: true });
    return done;
  };
  return { id, workspace, wasDone, grants: async () => (await call('GET', `/v1/grants?project_id=${id}`)).body.data };
};

test('what was allowed for good is not asked about again: just this, in this project, by this harness', async () => {
  const { id, workspace, wasDone, grants } = await place();
  const first = await begin(workspace, 'asking');
  const request = await question(first, 'make');
  const what = { kind: 'command', tool: 'execute', pattern: 'make' };
  expect(request.grant).toEqual(what);
  await answer(first, 'always');
  await untilRun(scene, first, ['completed']);
  expect(wasDone()).toBe(true);
  const [grant] = await grants();
  expect(grant).toMatchObject({ ...what, project_id: id, harness: 'asking', run_id: first, request_id: request.id });
  const { body: me } = await call('GET', '/v1/me');
  expect(grant.created_by).toBe(me.principal.id);

  // Also where nobody is asked; and the history says who let it through.
  for (const on_input of ['reject', 'fail']) {
    const again = await begin(workspace, 'asking', { on_input });
    await untilRun(scene, again, ['completed']);
    expect(wasDone()).toBe(true);
    const { data } = (await call('GET', `/v1/runs/${again}/events`)).body;
    const logs = data.filter(({ type }: { type: string }) => type === 'log');
    expect(logs.map(({ data: { text } }: { data: { text: string } }) => text)).toContain(
      `Allowed without asking, by the grant ${grant.id}: execute: make`,
    );
  }
  // Neither a command that only looks like it, nor another harness, nor another project.
  const other = await place();
  for (const [where, harness] of [
    [workspace, 'longer'],
    [other.workspace, 'asking'],
  ] as const) {
    await untilRun(scene, await begin(where, harness, { on_input: 'reject' }), ['completed']);
    expect([wasDone(), other.wasDone()]).toEqual([false, false]);
  }
  // Taken back, it is asked for again.
  expect((await call('DELETE', `/v1/grants/${grant.id}`)).status).toBe(204);
  expect((await call('DELETE', `/v1/grants/${grant.id}`)).body.error.code).toBe('not_found');
  await untilRun(scene, await begin(workspace, 'asking', { on_input: 'reject' }), ['completed']);
  expect(wasDone()).toBe(false);
});

test('an agent that knows no “always” is told “once”, and the grant is kept all the same', async () => {
  const { workspace, wasDone, grants } = await place();
  const first = await begin(workspace, 'once');
  const request = await question(first, 'make');
  const always = request.options.find(({ kind }: { kind: string }) => kind === 'allow_always');
  expect(always.label).toBe('Always allow just this in this project');
  await answer(first, always.id);
  await untilRun(scene, first, ['completed']);
  expect(wasDone()).toBe(true);
  // The same answer again, and “once”, make no further grant.
  await answer(first, always.id);
  expect(await grants()).toHaveLength(1);
  await untilRun(scene, await begin(workspace, 'once', { on_input: 'reject' }), ['completed']);
  expect(wasDone()).toBe(true);
});

test('a grant that is taken back counts no more in a run at work', async () => {
  const { workspace, wasDone, grants } = await place();
  const first = await begin(workspace, 'twice');
  await question(first, 'first');
  await answer(first, 'once');
  await question(first, 'make');
  await answer(first, 'always');
  await untilRun(scene, first, ended);
  wasDone();
  const second = await begin(workspace, 'twice');
  await question(second, 'first');
  await call('DELETE', `/v1/grants/${(await grants())[0].id}`);
  await scene.app.settle();
  await answer(second, 'no');
  await question(second, 'make');
  await answer(second, 'no');
  await untilRun(scene, second, ended);
  expect(wasDone()).toBe(false);
});
