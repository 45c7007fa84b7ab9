import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';

/** Runs a command in a user namespace of its own, whose limit (that of /proc/sys/fs is the whole machine’s) is two inotify watches. */
const scarce = (...command: string[]) =>
  spawnSync(
    'unshare',
    ['-Ur', 'sh', '-c', 'echo 2 > /proc/sys/user/max_inotify_watches && exec "$@"', 'sh', ...command],
    {
      encoding: 'utf8',
      timeout: 20_000,
    },
  );

test.skipIf(scarce('true').status !== 0)(
  'without inotify watches a tree is not watched, and that is no crash; it can be walked',
  () => {
    const root = mkdtempSync(join(tmpdir(), 'agentctl-scarce-'));
    mkdirSync(join(root, 'a/b/c/d'), { recursive: true });
    const { stdout } = scarce(
      process.execPath,
      '--disable-warning=ExperimentalWarning',
      join(import.meta.dirname, 'exhausted.ts'),
      root,
    );
    rmSync(root, { recursive: true });
    expect(stdout).toBe('ENOSPC whole\n');
  },
);
