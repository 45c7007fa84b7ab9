import { type SimpleGit, simpleGit } from 'simple-git';

/**
 * git in a repository of the user's, with nothing of that repository's own that would run a program for us: no hooks, no
 * file-system monitor, no prompts. `env` gives PATH and HOME. Rejects with git's own words.
 */
export function gitIn(folder: string, env: Record<string, string | undefined>): SimpleGit {
  const { PATH, HOME } = env;
  return simpleGit({
    baseDir: folder,
    config: ['core.hooksPath=/dev/null', 'core.fsmonitor=false', 'gc.auto=0', 'maintenance.auto=false'],
    timeout: { block: 120_000 },
    // simple-git guards against just the settings that make this safer.
    unsafe: { allowUnsafeHooksPath: true, allowUnsafeFsMonitor: true },
    allowEnvironment: ['GIT_TERMINAL_PROMPT'],
  }).env({ ...(PATH ? { PATH } : {}), ...(HOME ? { HOME } : {}), GIT_TERMINAL_PROMPT: '0', LC_ALL: 'C' });
}
