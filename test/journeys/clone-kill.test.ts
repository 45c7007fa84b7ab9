import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { until } from '../kit/app.ts';
import { createHome } from '../kit/daemon.ts';

test('a daemon that is killed in the middle of a clone: the next one clones again, and nothing of the first is left', async () => {
  const folder = mkdtempSync(join(realpathSync(tmpdir()), 'agentctl-killed-'));
  const home = createHome();
  home.env.PATH = `${folder}:${home.env.PATH}`;
  const run = (...args: string[]) => execFileSync('git', args, { cwd: folder, stdio: 'ignore' });
  run('init', '-q', 'work');
  run(
    '-C',
    'work',
    '-c',
    'user.name=T',
    '-c',
    'user.email=t@example.org',
    'commit',
    '-q',
    '--allow-empty',
    '-m',
    'one',
  );
  writeFileSync(join(folder, 'work/new'), 'x');
  // Stands in for ssh: tells its process, waits for the gate, serves the repository.
  const ssh = `#!/bin/sh\necho $$ >> '${folder}/started'\nuntil [ -e '${folder}/gate' ]; do sleep 0.02; done\nexec git upload-pack '${folder}/work'\n`;
  writeFileSync(join(folder, 'ssh'), ssh, { mode: 0o755 });
  const started = () =>
    existsSync(join(folder, 'started')) ? readFileSync(join(folder, 'started'), 'utf8').trim().split('\n') : [];
  let daemon = await home.serve();
  try {
    const project = await daemon.call('POST', '/v1/projects', { name: 'Thing' });
    const source = { type: 'git', url: 'git@example.org:thing.git' };
    const { id, resource } = await daemon.call('POST', `/v1/projects/${project.id}/workspaces`, { source });
    await until('ssh', () => started().length === 1);
    await daemon.kill();
    daemon = await home.serve();
    await until('ssh again', () => started().length === 2);
    writeFileSync(join(folder, 'gate'), '');
    const { status } = await until('the end', async () => {
      const operation = await daemon.call('GET', `/v1/operations/${id}`);
      return operation.finished_at !== null && operation;
    });
    expect(status).toBe('succeeded');
    expect(await daemon.call('GET', `/v1/workspaces/${resource.id}`)).toMatchObject({ status: 'ready' });
    await until('the first ssh to end', () => !existsSync(`/proc/${started()[0]}`));
    const trees = () => readdirSync(join(home.folder, 'data/workspaces'));
    await until('one tree alone', () => trees().length === 1);
    expect(trees()).toEqual([resource.id]);
  } finally {
    await daemon.stop();
    home.remove();
    rmSync(folder, { recursive: true, force: true });
  }
});
