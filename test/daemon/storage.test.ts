import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { openApp, type TestApp, until } from '../kit/app.ts';
import { createTestClock } from '../kit/clock.ts';
import { createProject, createRun, createWorkspace, ended, untilRun } from './scene.ts';

const day = 86_400_000;
const bytes = (seed: number, size: number) => {
  const buffer = Buffer.alloc(size);
  for (let at = 0, x = seed; at < size; at++) buffer[at] = (x = (Math.imul(x, 1_664_525) + 1_013_904_223) >>> 0) >>> 24;
  return buffer;
};

interface Scene extends TestApp {
  project: string;
  id: string;
  root: string;
}
const openScene = async (options: Parameters<typeof openApp>[0] = {}): Promise<Scene> => {
  const open = await openApp(options);
  const { id: project } = await createProject(open);
  const { id, path: root } = await createWorkspace(open, project);
  return { ...open, project, id, root };
};
const settled = async ({ app, call }: Scene, accepted: { status: number; body: { id: string } }) => {
  expect(accepted).toMatchObject({ status: 202 });
  await app.settle();
  return (await call('GET', `/v1/operations/${accepted.body.id}`)).body;
};
const keep = async (scene: Scene) =>
  (await settled(scene, await scene.call('POST', `/v1/workspaces/${scene.id}/checkpoints`, {}))).resource.id as string;
const gc = async (scene: Scene, body: object = {}) =>
  (await settled(scene, await scene.call('POST', '/v1/maintenance/gc', body))).result;
const list = async ({ call, id }: Scene) =>
  (await call('GET', `/v1/workspaces/${id}/checkpoints`)).body.data as { id: string; trigger: string }[];
const stored = ({ home, project }: Scene): number =>
  readdirSync(join(home.data, 'trees', project, 'packs')).reduce(
    (sum, name) => sum + readFileSync(join(home.data, 'trees', project, 'packs', name)).length,
    0,
  );

describe('collecting', () => {
  let scene: Scene;
  beforeAll(async () => {
    scene = await openScene();
  });
  afterAll(() => scene.close());

  test('a removed checkpoint’s own contents go, what others need stays, and a dry run says it before', async () => {
    const { root, call } = scene;
    writeFileSync(join(root, 'shared'), bytes(1, 100_000));
    const kept = await keep(scene);
    const before = stored(scene);
    writeFileSync(join(root, 'own'), bytes(2, 300_000));
    const gone = await keep(scene);
    rmSync(join(root, 'own'));
    expect(await gc(scene)).toMatchObject({ dry_run: false, objects: 0, failed: [] });
    const full = stored(scene);
    await settled(scene, await call('DELETE', `/v1/checkpoints/${gone}`));
    const dry = await gc(scene, { dry_run: true });
    expect(dry).toMatchObject({ dry_run: true, objects: 2, failed: [] });
    expect([dry.bytes > 290_000, stored(scene)]).toEqual([true, full]);
    expect(await gc(scene)).toMatchObject({ dry_run: false, objects: 2 });
    expect(stored(scene)).toBeLessThan(before + 1000);
    rmSync(join(root, 'shared'));
    await settled(scene, await call('POST', `/v1/workspaces/${scene.id}/restore`, { checkpoint_id: kept }));
    expect(readFileSync(join(root, 'shared')).equals(bytes(1, 100_000))).toBe(true);
    expect(await gc(scene)).toMatchObject({ objects: 0 });
  });

  test('comparing with the files now leaves contents behind that are collected, too', async () => {
    const { root, call } = scene;
    const kept = await keep(scene);
    writeFileSync(join(root, 'passing'), bytes(3, 50_000));
    expect((await call('GET', `/v1/checkpoints/${kept}/diff`)).text).toContain('b/passing');
    rmSync(join(root, 'passing'));
    expect((await gc(scene)).bytes).toBeGreaterThan(50_000);
  });

  test('beside checkpoints, restores, comparisons and runs nothing that they need is lost', async () => {
    const { root, call, id, app } = scene;
    const kept: string[] = [];
    for (let round = 0; round < 8; round++) {
      writeFileSync(join(root, 'round'), bytes(round, 20_000));
      mkdirSync(join(root, `folder-${round % 3}`), { recursive: true });
      writeFileSync(join(root, `folder-${round % 3}/file`), `${round}`);
      const newest = (await list(scene))[0]!.id;
      const accepted = await Promise.all([
        call('POST', `/v1/workspaces/${id}/checkpoints`, {}),
        call('POST', '/v1/maintenance/gc', {}),
        call('GET', `/v1/checkpoints/${newest}/diff`),
        call('POST', '/v1/maintenance/gc', {}),
        round % 2 === 0 && kept.length > 0
          ? call('POST', `/v1/workspaces/${id}/restore`, { checkpoint_id: kept[0] })
          : createRun(scene, { workspace_id: id, harness: 'shell', prompt: `echo ${round} > ran` }),
      ]);
      if (round % 2 === 1 && kept.length > 1) await call('DELETE', `/v1/checkpoints/${kept.splice(1, 1)[0]}`);
      await app.settle();
      await until('the runs', async () =>
        (await call('GET', `/v1/runs?workspace_id=${id}`)).body.data.every(({ status }: { status: string }) =>
          ended.includes(status),
        ),
      );
      // While files are being put back there is nothing to compare with.
      expect(accepted[2].status === 200 || accepted[2].body.error.details.state === 'restoring').toBe(true);
      expect((await call('GET', `/v1/operations/${accepted[1].body.id}`)).body).toMatchObject({
        status: 'succeeded',
        result: { failed: [] },
      });
      kept.push(accepted[0].body.resource.id);
    }
    await gc(scene);
    for (const { id: checkpoint_id } of await list(scene)) {
      const fork = await createWorkspace(scene, scene.project, { source: { type: 'checkpoint', checkpoint_id } });
      expect({ checkpoint_id, status: fork.status, error: fork.error }).toEqual({
        checkpoint_id,
        status: 'ready',
        error: null,
      });
    }
  });

  test('a damaged checkpoint is found, said, and nothing of it is removed', async () => {
    const scene = await openScene();
    writeFileSync(join(scene.root, 'a'), 'a');
    const bad = await keep(scene);
    await scene.app.checkpoints.close();
    const packs = join(scene.home.data, 'trees', scene.project, 'packs');
    for (const name of readdirSync(packs)) if (name.endsWith('.pack')) writeFileSync(join(packs, name), bytes(9, 500));
    const result = await gc(scene);
    expect(result).toMatchObject({ objects: 0, failed: [{ project_id: scene.project, code: 'invalid_state' }] });
    expect((await scene.call('GET', `/v1/checkpoints/${bad}`)).body.status).toBe('corrupt');
    await settled(scene, await scene.call('DELETE', `/v1/checkpoints/${bad}`));
    expect(await gc(scene)).toMatchObject({ failed: [] });
    await scene.close();
  });
});

describe('expiring', () => {
  test('what nobody asked for goes in its time; the newest, what was made by hand, and every run’s diff stay', async () => {
    const clock = createTestClock(systemClock.now());
    const scene = await openScene({ clock, config: { checkpoints: { retention_days: 2 } } });
    const { call, root, id } = scene;
    writeFileSync(join(root, 'a.txt'), 'one\n');
    const byHand = await keep(scene);
    const runs: string[] = [];
    for (const word of ['two', 'three']) {
      const { run_id } = await createRun(scene, {
        workspace_id: id,
        harness: 'shell',
        prompt: `echo ${word} > a.txt; head -c 99999 /dev/urandom > big`,
      });
      await untilRun(scene, run_id, ended, () => clock.advance(50));
      runs.push(run_id);
    }
    const diffs = await Promise.all(runs.map(async (run) => (await call('GET', `/v1/runs/${run}/diff`)).text));
    expect(diffs[1]).toContain('-two\n+three\n');
    const all = await list(scene);
    expect(all.map(({ trigger }) => trigger)).toEqual(['after_run', 'before_run', 'after_run', 'before_run', 'manual']);
    const full = stored(scene);

    clock.advance(day);
    await scene.app.settle();
    expect(await list(scene)).toHaveLength(5);
    clock.advance(1.1 * day);
    const dry = await gc(scene, { dry_run: true });
    clock.advance(3_600_000);
    await scene.app.settle();
    const left = await list(scene);
    expect(left.map(({ id: one }) => one)).toEqual([all[0]!.id, byHand]);
    for (const [index, run] of runs.entries())
      expect((await call('GET', `/v1/runs/${run}/diff`)).text).toBe(diffs[index]);
    expect((await call('GET', `/v1/checkpoints/${all[1]!.id}`)).status).toBe(404);
    clock.advance(day);
    await scene.app.settle();
    expect(stored(scene)).toBeLessThan(full - 90_000);
    expect(dry.bytes).toBeLessThanOrEqual(full);
    // The newest can still be gone back to.
    await settled(scene, await call('POST', `/v1/workspaces/${id}/restore`, { checkpoint_id: byHand }));
    await settled(scene, await call('POST', `/v1/workspaces/${id}/restore`, { checkpoint_id: all[0]!.id }));
    expect(readFileSync(join(root, 'a.txt'), 'utf8')).toBe('three\n');
    await scene.close();
  });

  test('a checkpoint of a run that is removed by hand leaves the run’s diff', async () => {
    const scene = await openScene();
    const { run_id } = await createRun(scene, { workspace_id: scene.id, harness: 'shell', prompt: 'echo x > x' });
    const run = await untilRun(scene, run_id, ended);
    const { text } = await scene.call('GET', `/v1/runs/${run_id}/diff`);
    for (const side of ['before', 'after'])
      await settled(scene, await scene.call('DELETE', `/v1/checkpoints/${run.checkpoint_ids[side]}`));
    await gc(scene);
    expect(await scene.call('GET', `/v1/runs/${run_id}/diff`)).toMatchObject({ status: 200, text });
    expect(text).toContain('+x\n');
    await scene.close();
  });
});

describe('where the room goes', () => {
  test('the figures are those of du, and the database’s locks are held meanwhile', async () => {
    const scene = await openScene();
    writeFileSync(join(scene.root, 'big'), bytes(5, 3_000_000));
    await keep(scene);
    const { body } = await scene.call('GET', '/v1/storage');
    const du = (path: string) => Number(execFileSync('du', ['-s', '-B1', path]).toString().split('\t')[0]);
    expect(body.workspaces).toEqual([
      { workspace_id: scene.id, project_id: scene.project, name: 'workspace', bytes: du(scene.root) },
    ]);
    const checkpoint_bytes = du(join(scene.home.data, 'trees', scene.project));
    expect(body.projects).toEqual([
      { project_id: scene.project, name: 'Thing', checkpoint_bytes, workspace_bytes: du(scene.root) },
    ]);
    const of = (kind: string) => body.data.find((one: { kind: string }) => one.kind === kind).bytes;
    expect(of('checkpoints')).toBe(checkpoint_bytes);
    expect(of('database')).toBeGreaterThan(50_000);
    expect(Math.abs(body.total_bytes - du(scene.home.data) - du(scene.home.state))).toBeLessThan(200_000);
    // Another process finds the database locked while this one writes: a file that was opened and closed would have dropped that.
    const path = join(scene.home.data, 'agentctl.db');
    const other = `
      const Database = require('better-sqlite3');
      try { new Database(process.argv[1], { timeout: 0 }).exec('BEGIN IMMEDIATE'); console.log('open'); }
      catch (error) { console.log(error.code); }`;
    const seen = scene.app.db.write(() =>
      execFileSync(process.execPath, ['-e', other, path], { cwd: join(import.meta.dirname, '../..') })
        .toString()
        .trim(),
    );
    expect(seen).toBe('SQLITE_BUSY');
    await scene.close();
    expect(existsSync(path)).toBe(false);
  });
});
