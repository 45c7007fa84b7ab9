import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { until } from '../kit/app.ts';
import { createHome, type TestDaemon } from '../kit/daemon.ts';

test('a run that breaks the files of a directory is looked at and undone, and the undoing is undone', async () => {
  const home = createHome();
  const cwd = join(home.folder, 'mine');
  mkdirSync(join(cwd, 'src'), { recursive: true });
  writeFileSync(join(cwd, 'src/good.txt'), 'good\n');
  writeFileSync(join(cwd, 'untracked.bin'), Buffer.from([0, 1, 2]));
  const look = () => readdirSync(cwd, { recursive: true, encoding: 'utf8' }).toSorted();
  const before = look();
  const cli = async (...args: string[]) => {
    const { code, stdout, stderr } = await home.cli(args, { cwd });
    expect({ args, code, stderr: code === 0 ? '' : stderr }).toEqual({ args, code: 0, stderr: '' });
    return stdout;
  };
  try {
    await cli('run', '--harness', 'shell', 'rm -rf src untracked.bin; echo bad > bad.txt');
    expect(look()).toEqual(['bad.txt']);
    expect(await cli('diff')).toContain('--- a/src/good.txt\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-good\n');
    expect(await cli('undo', '--dry-run')).toBe('- bad.txt\n+ src\n+ src/good.txt\n+ untracked.bin\n');
    expect(look()).toEqual(['bad.txt']);
    await cli('undo', '-y');
    expect(look()).toEqual(before);
    expect(readFileSync(join(cwd, 'src/good.txt'), 'utf8')).toBe('good\n');
    const [newest] = (await cli('checkpoints', 'ls', '-q')).split('\n');
    await cli('restore', newest!, '-y');
    expect(look()).toEqual(['bad.txt']);

    expect(JSON.parse(await cli('checkpoint', '-m', 'here', '--json'))).toMatchObject({
      name: 'here',
      trigger: 'manual',
    });
    writeFileSync(join(cwd, 'bad.txt'), 'worse');
    writeFileSync(join(cwd, 'more.txt'), 'more');
    expect(await cli('checkpoints', 'diff', 'here')).toBe(
      [
        'diff --git a/bad.txt b/bad.txt',
        '--- a/bad.txt',
        '+++ b/bad.txt',
        '@@ -1,1 +1,1 @@',
        '-bad',
        '+worse',
        '\\ No newline at end of file',
        'diff --git a/more.txt b/more.txt',
        'new file mode 100644',
        '--- /dev/null',
        '+++ b/more.txt',
        '@@ -0,0 +1,1 @@',
        '+more',
        '\\ No newline at end of file',
        '',
      ].join('\n'),
    );
    expect(await cli('checkpoints', 'diff', newest!, 'here')).toBe('');
    expect(JSON.parse(await cli('checkpoints', 'diff', 'here', '--json'))).toMatchObject({
      against: 'workspace',
      files: [{ path: 'bad.txt' }, { path: 'more.txt' }],
    });
    await cli('restore', 'here', './bad.txt', '-y');
    expect([readFileSync(join(cwd, 'bad.txt'), 'utf8'), look()]).toEqual(['bad\n', ['bad.txt', 'more.txt']]);
    expect(await cli('checkpoints', 'show', 'here')).toMatch(/^status +verified$/m);
    await cli('checkpoints', 'rm', 'here', '-y');
    expect((await home.cli(['checkpoints', 'show', 'here'], { cwd })).code).toBe(3);
  } finally {
    await home.cli(['down']);
    home.remove();
  }
});

test('a restore that cannot be carried out says what is in which state, and is undone by the checkpoint before it', async () => {
  const home = createHome('[runs]\nwarm_runners = 0\n');
  const cwd = join(home.folder, 'mine');
  for (const name of ['a', 'b']) {
    mkdirSync(join(cwd, name), { recursive: true });
    writeFileSync(join(cwd, name, 'file.txt'), `${name} then\n`);
  }
  let daemon = await home.serve();
  const call = (method: string, path: string, body?: object) => daemon.call(method, path, body);
  const ended = async ({ id }: { id: string }) =>
    until('the operation', async () => {
      const operation = await call('GET', `/v1/operations/${id}?wait=10`);
      return operation.finished_at !== null && operation;
    });
  try {
    const project = await call('POST', '/v1/projects', { name: 'x' });
    const source = { type: 'directory', path: cwd, mode: 'in_place' };
    const at = `/v1/workspaces/${(await ended(await call('POST', `/v1/projects/${project.id}/workspaces`, { source }))).resource.id}`;
    const kept = await ended(await call('POST', `${at}/checkpoints`, {}));
    for (const name of ['a', 'b']) writeFileSync(join(cwd, name, 'file.txt'), `${name} now\n`);
    writeFileSync(join(cwd, 'a/new.txt'), 'new\n');
    await daemon.stop();

    home.env.AGENTCTL_CRASH_AT = 'restore:decided';
    daemon = await home.serve();
    const restore = await call('POST', `${at}/restore`, { checkpoint_id: kept.resource.id });
    await once(daemon.process, 'exit');
    delete home.env.AGENTCTL_CRASH_AT;
    // Beyond the point of no return, and now a folder has become a link that leads away.
    mkdirSync(join(home.folder, 'away'));
    renameSync(join(cwd, 'b'), join(home.folder, 'aside'));
    symlinkSync(join(home.folder, 'away'), join(cwd, 'b'));
    daemon = await home.serve();
    const failed = await ended(restore);
    expect(failed).toMatchObject({
      status: 'failed',
      error: {
        code: 'unavailable',
        retryable: true,
        message: expect.stringMatching(
          /^The restore was left unfinished: 2 of 3 paths are as they were to become\. b is no longer a folder\./,
        ),
        details: {
          state: 'unfinished',
          before_restore_checkpoint_id: expect.any(String),
          done: { added: [], changed: ['a/file.txt'], removed: ['a/new.txt'] },
          left: { added: [], changed: ['b/file.txt'], removed: [] },
        },
      },
    });
    expect(failed.error.message).toContain(failed.error.details.before_restore_checkpoint_id);
    expect(readFileSync(join(cwd, 'a/file.txt'), 'utf8')).toBe('a then\n');
    expect(readdirSync(cwd)).toEqual(['a', 'b']);
    expect(readdirSync(join(home.folder, 'away'))).toEqual([]);
    expect(await call('GET', at)).toMatchObject({ status: 'ready', writer: null });

    const back = { checkpoint_id: failed.error.details.before_restore_checkpoint_id };
    expect(await ended(await call('POST', `${at}/restore`, back))).toMatchObject({ status: 'succeeded' });
    expect(readdirSync(cwd, { recursive: true, encoding: 'utf8' }).toSorted()).toEqual([
      'a',
      'a/file.txt',
      'a/new.txt',
      'b',
      'b/file.txt',
    ]);
    expect(['a', 'b'].map((name) => readFileSync(join(cwd, name, 'file.txt'), 'utf8'))).toEqual(['a now\n', 'b now\n']);
    expect(readdirSync(join(home.folder, 'away'))).toEqual([]);
  } finally {
    await daemon.kill();
    home.remove();
  }
}, 60_000);

/** Where a daemon is killed while it makes a checkpoint, restores, and keeps the trees around a run. */
const points = [
  ...['begin', 'running', 'worked'].map((moment) => `checkpoint.create:${moment}`),
  'checkpoint:kept',
  ...['begin', 'running', 'worked'].map((moment) => `workspace.restore:${moment}`),
  ...['kept', 'staged', 'decided', 'applied', 'swept', 'ended'].map((moment) => `restore:${moment}`),
  ...['begin', 'running', 'worked'].map((moment) => `checkpoint.delete:${moment}`),
  'collect:project',
  'store.collect:worked',
  ...['before_run', 'after_run'].flatMap((side) => [`run.${side}:kept`, `run.${side}:committed`]),
];

test(
  `a daemon that dies at any of ${points.length} points leaves whole checkpoints and whole restores`,
  { timeout: 240_000 },
  async () => {
    const home = createHome('[runs]\ngrace_seconds = 0.2\nwarm_runners = 0\n');
    let daemon: TestDaemon | undefined;
    let crashes = 0;
    const insist = async (method: string, path: string, body?: unknown) => {
      const key = `key-${Math.random()}`;
      for (;;) {
        try {
          return await daemon!.call(method, path, body, method === 'GET' ? {} : { 'idempotency-key': key });
        } catch {
          await until('the crash', () => daemon!.process.signalCode !== null);
          crashes += 1;
          delete home.env.AGENTCTL_CRASH_AT;
          daemon = await home.serve();
        }
      }
    };
    const done = async ({ id }: { id: string }) =>
      until('the operation', async () => {
        const operation = await insist('GET', `/v1/operations/${id}`);
        return !['queued', 'running'].includes(operation.status) && operation;
      });

    /** One of everything; each step holds whether or not the daemon died in it. */
    const everything = async () => {
      const project = await insist('POST', '/v1/projects', { name: 'crash' });
      const { resource } = await insist('POST', `/v1/projects/${project.id}/workspaces`, {});
      const at = `/v1/workspaces/${resource.id}`;
      const { path } = await until('the workspace', async () => {
        const workspace = await insist('GET', at);
        return workspace.status === 'ready' && workspace;
      });
      for (let n = 0; n < 20; n++) writeFileSync(join(path, `${n}.txt`), `old ${n}`);
      mkdirSync(join(path, 'folder'));
      writeFileSync(join(path, 'folder/in.txt'), 'old');
      const look = () =>
        readdirSync(path, { recursive: true, withFileTypes: true, encoding: 'utf8' })
          .map((entry) => join(entry.parentPath, entry.name))
          .toSorted()
          .map((file) => [file, file.endsWith('.txt') ? readFileSync(file, 'utf8') : '']);
      const old = look();

      const made = await done(await insist('POST', `${at}/checkpoints`, { name: 'old' }));
      expect(made).toMatchObject({ status: 'succeeded' });
      const checkpoint = await insist('GET', `/v1/checkpoints/${made.resource.id}`);
      expect(checkpoint).toMatchObject({ status: 'verified', file_count: 21 });

      for (let n = 0; n < 10; n++) writeFileSync(join(path, `${n}.txt`), `new ${n}`);
      for (let n = 15; n < 20; n++) rmSync(join(path, `${n}.txt`));
      rmSync(join(path, 'folder'), { recursive: true });
      writeFileSync(join(path, 'folder'), 'a file in its place');
      const changed = look();
      const { revision } = await insist('GET', at);
      const back = await done(await insist('POST', `${at}/restore`, { checkpoint_id: checkpoint.id }));
      expect(back).toMatchObject({ status: 'succeeded', result: { workspace_revision: revision + 1 } });
      expect(look()).toEqual(old);
      expect(await insist('GET', at)).toMatchObject({ status: 'ready', writer: null, revision: revision + 1 });
      const { data } = await insist('GET', `${at}/checkpoints`);
      expect(data.map(({ trigger }: { trigger: string }) => trigger)).toEqual(['before_restore', 'manual']);
      await done(await insist('POST', `${at}/restore`, { checkpoint_id: data[0].id }));
      expect(look()).toEqual(changed);
      expect(await done(await insist('DELETE', `/v1/checkpoints/${checkpoint.id}`))).toMatchObject({
        status: 'succeeded',
      });

      expect(await done(await insist('POST', '/v1/maintenance/gc', {}))).toMatchObject({ result: { failed: [] } });

      const { run_id } = await insist('POST', '/v1/runs', {
        workspace_id: resource.id,
        harness: 'shell',
        prompt: 'echo ran >> ran.txt',
      });
      const run = await until('the end', async () => {
        const seen = await insist('GET', `/v1/runs/${run_id}`);
        return seen.finished_at !== null && seen;
      });
      expect(run).toMatchObject({
        status: 'completed',
        checkpoint_ids: { before: expect.any(String), after: expect.any(String) },
      });
      expect(await insist('GET', `/v1/runs/${run_id}/result`)).toMatchObject({
        changes: { files: [{ path: 'ran.txt', change: 'added', additions: 1, deletions: 0 }] },
      });
      const { data: events } = await insist('GET', `/v1/runs/${run_id}/events?limit=1000`);
      const types = events.map(({ type }: { type: string }) => type);
      expect(types.filter((type: string) => type === 'checkpoint.created')).toHaveLength(2);
      expect(types.at(-1)).toBe('run.completed');
    };

    const missed: string[] = [];
    try {
      for (const point of points) {
        home.env.AGENTCTL_CRASH_AT = point;
        const before = crashes;
        daemon = await home.serve();
        await everything();
        if (crashes === before) missed.push(point);
        await daemon.stop();
      }
    } finally {
      daemon?.process.kill('SIGKILL');
      home.remove();
    }
    expect(missed).toEqual([]);
  },
);
