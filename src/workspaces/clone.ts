import { pathToFileURL } from 'node:url';
import { Fault } from '../api/error.ts';
import type { Clock } from '../base/clock.ts';
import { type Environment, GitFailed, gitEnvironment, runGit } from './git.ts';
import { isCommit, readRemote } from './remote.ts';

/** How far work has come. */
export interface Progress {
  done: number;
  total: number | null;
  unit: string;
}

interface Cloning {
  source: { url: string; ref?: string | null; depth?: number | null };
  /** An empty folder, or one that does not exist yet. */
  folder: string;
  env: Environment;
  clock: Clock;
  signal: AbortSignal;
  progress(now: Progress): void;
}

/** What git says while it works, and what it counts. */
const stages: Record<string, string> = {
  'Receiving objects': 'objects',
  'Resolving deltas': 'deltas',
  'Updating files': 'files',
};

/** Old commits are full of these, and they harm nobody. */
const forgiven = [
  'zeroPaddedFilemode',
  'badTimezone',
  'missingSpaceBeforeDate',
  'missingSpaceBeforeEmail',
  'missingEmail',
];

/** Before progress is said again, in milliseconds. */
const pause = 500;

/** Clones a repository without anything of it being run: no hooks, templates, submodules or filters. Throws Fault. */
export async function clone({ source, folder, env, clock, signal, progress }: Cloning): Promise<void> {
  const remote = readRemote(source.url);
  const url = remote.scheme === 'file' ? pathToFileURL(remote.path).href : remote.url;
  const commit = source.ref && isCommit(source.ref) ? source.ref : null;
  const depth = source.depth ? [`--depth=${source.depth}`] : [];
  let said = -Infinity;
  const git = (args: string[]) =>
    runGit(args, {
      env: gitEnvironment(env, remote.scheme),
      clock,
      signal,
      settings: ['transfer.fsckObjects=true', ...forgiven.map((name) => `fetch.fsck.${name}=ignore`)],
      line(text) {
        const [, stage = '', done, total] = /^([A-Z][a-z ]+):\s+\d+% \((\d+)\/(\d+)\)/.exec(text) ?? [];
        const unit = stages[stage];
        if (!unit || (clock.monotonic() - said < pause && done !== total)) return;
        said = clock.monotonic();
        progress({ done: Number(done), total: Number(total), unit });
      },
    });
  try {
    const branch = source.ref && !commit ? [`--branch=${source.ref}`] : [];
    const how = [
      '--progress',
      '--template=',
      '--no-recurse-submodules',
      ...depth,
      ...branch,
      ...(commit ? ['--no-checkout'] : []),
    ];
    await git(['clone', ...how, '--', url, folder]);
    const inside = (...args: string[]) => git([`--git-dir=${folder}/.git`, `--work-tree=${folder}`, ...args]);
    if (commit) {
      // A full clone has it already, where it is on a branch; a server may refuse to give what is on none.
      const refused = await inside('fetch', '--progress', '--no-recurse-submodules', ...depth, 'origin', commit).then(
        () => undefined,
        (error: unknown) => error,
      );
      await inside('checkout', '--progress', '--detach', commit).catch((error: unknown) => {
        throw refused ?? error;
      });
    }
  } catch (cause) {
    if (!(cause instanceof GitFailed)) throw cause;
    const message = cause.message.replaceAll(folder, 'the workspace');
    const isAway = /could not resolve|unable to access|connection|timed out|said nothing|early eof|hung up/i.test(
      message,
    );
    throw new Fault(isAway ? 'unavailable' : 'invalid_state', `The repository could not be cloned: ${message}`, {
      cause,
    });
  }
}
