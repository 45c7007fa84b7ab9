import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createTestClock } from '../kit/clock.ts';
import { openApp, type TestApp } from '../kit/app.ts';
import {
  counts,
  createGate,
  createProject,
  createRun,
  createWorkspace,
  ended,
  missingRun,
  untilRun,
  withMissingHarness,
} from './scene.ts';

const hour = 3_600_000;
const day = 24 * hour;

const get = async ({ call }: TestApp, path: string) => (await call('GET', path)).body;
const archive = async (scene: TestApp, id: string) => {
  const { body } = await scene.call('DELETE', `/v1/projects/${id}`);
  await scene.app.settle();
  return body;
};
/** Turns the clock and lets the loops do what became due. */
const pass = async (scene: TestApp, clock: ReturnType<typeof createTestClock>, ms: number) => {
  clock.advance(ms);
  await scene.app.settle();
};

test('a project is archived only once its runs have finished; no run starts meanwhile', async () => {
  const scene = await openApp({ config: withMissingHarness });
  const { id } = await createProject(scene);
  const gate = createGate();
  const { run_id, workspace_id } = await createRun(scene, { project_id: id, harness: 'shell', prompt: gate.script });
  await untilRun(scene, run_id, ['running']);
  const queued = await createRun(scene, { workspace_id, harness: 'shell', prompt: 'true' });

  const operation = await archive(scene, id);
  expect(operation).toMatchObject({ type: 'project.archive', resource: { type: 'project', id } });
  expect(await get(scene, `/v1/operations/${operation.id}`)).toMatchObject({ status: 'running', finished_at: null });
  expect(await get(scene, `/v1/projects/${id}`)).toMatchObject({
    status: 'archiving',
    archived: false,
    archived_at: null,
  });
  expect((await scene.call('POST', '/v1/runs', { ...missingRun, workspace_id })).body.error.code).toBe(
    'project_archived',
  );
  expect((await scene.call('DELETE', `/v1/projects/${id}`)).body.id).toBe(operation.id);

  const waited = scene.call('GET', `/v1/operations/${operation.id}?wait=30`);
  gate.open();
  expect((await waited).body).toMatchObject({ status: 'succeeded', error: null });
  for (const run of [run_id, queued.run_id]) expect((await get(scene, `/v1/runs/${run}`)).status).toBe('completed');
  expect(await get(scene, `/v1/projects/${id}`)).toMatchObject({
    status: 'archived',
    archived: true,
    archived_at: expect.any(String),
  });
  expect((await get(scene, `/v1/runs/${run_id}/events`)).data.at(-1).type).toBe('run.completed');
  gate.remove();
  await scene.close();
});

test('an archiving that waits for a run goes on after a restart', async () => {
  const scene = await openApp({ config: withMissingHarness });
  const { id } = await createProject(scene);
  const gate = createGate();
  const { run_id } = await createRun(scene, { project_id: id, harness: 'shell', prompt: gate.script });
  await untilRun(scene, run_id, ['running']);
  const operation = await archive(scene, id);
  await scene.leave();
  const again = await openApp({ folder: scene.home.home, config: withMissingHarness });
  await again.app.settle();
  expect((await get(again, `/v1/operations/${operation.id}`)).status).toBe('running');
  gate.open();
  await untilRun(again, run_id, ended);
  expect((await again.call('GET', `/v1/operations/${operation.id}?wait=30`)).body.status).toBe('succeeded');
  gate.remove();
  await again.close();
});

test('an archiving is taken back by unarchiving, and runs may start again', async () => {
  const scene = await openApp({ config: withMissingHarness });
  const { id } = await createProject(scene);
  const gate = createGate();
  const { run_id } = await createRun(scene, { project_id: id, harness: 'shell', prompt: gate.script });
  await untilRun(scene, run_id, ['running']);
  const operation = await archive(scene, id);
  expect((await scene.call('PATCH', `/v1/projects/${id}`, { archived: false })).body.status).toBe('active');
  expect((await get(scene, `/v1/operations/${operation.id}`)).status).toBe('cancelled');
  const next = await createRun(scene, { ...missingRun, project_id: id });
  gate.open();
  await untilRun(scene, run_id, ended);
  await untilRun(scene, next.run_id, ended);
  expect((await get(scene, `/v1/projects/${id}`)).status).toBe('active');
  gate.remove();
  await scene.close();
});

test('archiving keeps files and history; archiving again and unarchiving twice change nothing', async () => {
  const scene = await openApp({ config: withMissingHarness });
  const { id } = await createProject(scene);
  const workspace = await createWorkspace(scene, id);
  const { run_id } = await createRun(scene, {
    workspace_id: workspace.id,
    harness: 'shell',
    prompt: 'echo kept > file',
  });
  await untilRun(scene, run_id, ended);
  await archive(scene, id);
  const first = await get(scene, `/v1/projects/${id}`);
  const again = await archive(scene, id);
  expect(await get(scene, `/v1/operations/${again.id}`)).toMatchObject({ status: 'succeeded' });
  expect(await get(scene, `/v1/projects/${id}`)).toEqual(first);
  expect(existsSync(join(workspace.path, 'file'))).toBe(true);
  expect((await get(scene, `/v1/runs/${run_id}/result`)).final).toBe(true);
  for (let i = 0; i < 2; i++) {
    const { status, body } = await scene.call('PATCH', `/v1/projects/${id}`, { archived: false });
    expect({ status, body }).toMatchObject({
      status: 200,
      body: { status: 'active', archived: false, archived_at: null },
    });
  }
  await scene.close();
});

test('a removal is scheduled for seven days, and then all that belonged to the project is gone', async () => {
  const clock = createTestClock();
  const scene = await openApp({ clock, config: withMissingHarness });
  const { id } = await createProject(scene);
  const kept = await createProject(scene, { name: 'Neighbour' });
  const workspace = await createWorkspace(scene, id);
  const turn = () => clock.advance(25);
  const { run_id, session_id } = await createRun(scene, {
    workspace_id: workspace.id,
    harness: 'shell',
    prompt: 'echo x > file',
  });
  await untilRun(scene, run_id, ended, turn);
  const neighbour = await createRun(scene, { ...missingRun, project_id: kept.id });
  await untilRun(scene, neighbour.run_id, ended, turn);
  await archive(scene, id);

  const { body: operation } = await scene.call('POST', `/v1/projects/${id}/deletion`, {});
  expect(operation).toMatchObject({ type: 'project.delete', status: 'queued' });
  const due = new Date(clock.now() + 7 * day).toISOString();
  expect((await get(scene, `/v1/projects/${id}`)).delete_after).toBe(due);
  await pass(scene, clock, 7 * day - 1);
  expect((await get(scene, `/v1/projects/${id}`)).status).toBe('archived');
  expect(existsSync(join(workspace.path, 'file'))).toBe(true);
  await pass(scene, clock, 1);

  expect(await get(scene, `/v1/operations/${operation.id}`)).toMatchObject({ status: 'succeeded' });
  for (const path of [
    `projects/${id}`,
    `workspaces/${workspace.id}`,
    `sessions/${session_id}`,
    `runs/${run_id}`,
    `runs/${run_id}/events`,
    `runs/${run_id}/stream`,
  ])
    expect((await scene.call('GET', `/v1/${path}`)).status).toBe(404);
  expect(counts(scene.app)).toMatchObject({ projects: 1, workspaces: 1, sessions: 1, runs: 1, events: 2 });
  expect((await get(scene, `/v1/runs/${neighbour.run_id}`)).status).toBe('failed');
  expect(existsSync(workspace.path)).toBe(false);
  expect(existsSync(join(scene.home.data, 'runs', run_id))).toBe(false);
  await scene.close();
});

test('a removal leaves nothing of the project’s sessions on the disk either', async () => {
  const clock = createTestClock();
  const scene = await openApp({ clock, config: withMissingHarness });
  const { id } = await createProject(scene);
  const { run_id, session_id } = await createRun(scene, { project_id: id, harness: 'shell', prompt: 'true' });
  await untilRun(scene, run_id, ended, () => clock.advance(25));
  await archive(scene, id);
  await scene.call('POST', `/v1/projects/${id}/deletion`, { after_seconds: 0 });
  await scene.app.settle();
  expect((await scene.call('GET', `/v1/projects/${id}`)).status).toBe(404);
  const left = readdirSync(scene.home.data, { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.includes(session_id),
  );
  await scene.close();
  expect(left).toEqual([]);
});

test('a scheduled removal is taken back, moved, and dropped by unarchiving', async () => {
  const clock = createTestClock();
  const scene = await openApp({ clock });
  const { id } = await createProject(scene);
  await archive(scene, id);
  const schedule = async (after_seconds: number) =>
    (await scene.call('POST', `/v1/projects/${id}/deletion`, { after_seconds })).body;
  const status = async (operation: { id: string }) => (await get(scene, `/v1/operations/${operation.id}`)).status;

  const first = await schedule(60);
  expect((await scene.call('DELETE', `/v1/projects/${id}/deletion`)).body).toMatchObject({
    delete_after: null,
    status: 'archived',
  });
  expect(await status(first)).toBe('cancelled');
  await pass(scene, clock, day);
  expect((await get(scene, `/v1/projects/${id}`)).status).toBe('archived');

  const second = await schedule(60);
  const third = await schedule(3600);
  expect([await status(second), await status(third)]).toEqual(['cancelled', 'queued']);
  await pass(scene, clock, 61_000);
  expect((await get(scene, `/v1/projects/${id}`)).delete_after).not.toBeNull();

  await scene.call('PATCH', `/v1/projects/${id}`, { archived: false });
  expect(await status(third)).toBe('cancelled');
  await pass(scene, clock, 30 * day);
  expect(await get(scene, `/v1/projects/${id}`)).toMatchObject({ status: 'active', delete_after: null });
  await scene.close();
});

test('a removal that became due while no daemon ran is made up for', async () => {
  const clock = createTestClock();
  const scene = await openApp({ clock });
  const { id } = await createProject(scene);
  await archive(scene, id);
  await scene.call('POST', `/v1/projects/${id}/deletion`, { after_seconds: 3600 });
  await scene.leave();
  clock.advance(day);
  const again = await openApp({ clock, folder: scene.home.home });
  await again.app.settle();
  expect((await again.call('GET', `/v1/projects/${id}`)).status).toBe(404);
  await again.close();
});

test('an ephemeral project is archived 24 hours after its last run, a persistent one never', async () => {
  const clock = createTestClock();
  const scene = await openApp({ clock, config: withMissingHarness });
  const brief = await createProject(scene, { persistence: 'ephemeral' });
  const lasting = await createProject(scene);
  const work = async () => {
    for (const { id } of [brief, lasting]) {
      const { run_id } = await createRun(scene, { ...missingRun, project_id: id });
      await untilRun(scene, run_id, ended);
    }
  };
  const statuses = async () =>
    Promise.all([brief, lasting].map(async ({ id }) => (await get(scene, `/v1/projects/${id}`)).status));
  await work();
  await pass(scene, clock, 23 * hour);
  await work();
  await pass(scene, clock, 23 * hour);
  expect(await statuses()).toEqual(['active', 'active']);
  await pass(scene, clock, hour - 1);
  expect(await statuses()).toEqual(['active', 'active']);
  await pass(scene, clock, 1);
  expect(await statuses()).toEqual(['archived', 'active']);
  await pass(scene, clock, 365 * day);
  expect(await statuses()).toEqual(['archived', 'active']);
  await scene.close();
});

test('an ephemeral project with a run that takes longer is archived 24 hours after that', async () => {
  const clock = createTestClock();
  const scene = await openApp({ clock });
  const { id } = await createProject(scene, { persistence: 'ephemeral' });
  const gate = createGate();
  const { run_id } = await createRun(scene, { project_id: id, harness: 'shell', prompt: gate.script });
  const turn = () => clock.advance(25);
  await untilRun(scene, run_id, ['running'], turn);
  await pass(scene, clock, 30 * hour);
  expect((await get(scene, `/v1/projects/${id}`)).status).toBe('active');
  gate.open();
  await untilRun(scene, run_id, ended, turn);
  await pass(scene, clock, 23 * hour);
  expect((await get(scene, `/v1/projects/${id}`)).status).toBe('active');
  await pass(scene, clock, hour);
  expect((await get(scene, `/v1/projects/${id}`)).status).toBe('archived');
  gate.remove();
  await scene.close();
  rmSync(scene.home.home, { recursive: true, force: true });
});
