import { spawn } from 'node:child_process';
import { type SimpleGit, simpleGit } from 'simple-git';
import type { Clock } from '../base/clock.ts';

/** Variables of the daemon, by name. */
export type Environment = Record<string, string | undefined>;

/**
 * git in a repository of the user's, with nothing of that repository's own that would run a program for us: no hooks, no
 * file-system monitor, no prompts. `env` gives PATH and HOME. Rejects with git's own words.
 */
export function gitIn(folder: string, env: Environment): SimpleGit {
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

/** What git needs to reach a remote from behind a proxy or with an authority of one's own. */
const network = ['HTTPS_PROXY', 'https_proxy', 'NO_PROXY', 'no_proxy', 'SSL_CERT_FILE', 'SSL_CERT_DIR'];
/** Host keys must be known; nobody is asked; no configuration of the user's runs a program. */
const ssh = 'ssh -F /dev/null -o BatchMode=yes -o IdentitiesOnly=yes -o PermitLocalCommand=no -o ForwardAgent=no';

/** A clean environment for git with one transport: no configuration of the system's or the user's, no prompts. */
export function gitEnvironment(env: Environment, protocol: 'https' | 'ssh' | 'file'): Record<string, string> {
  const passed = ['PATH', ...(protocol === 'https' ? network : protocol === 'ssh' ? ['SSH_AUTH_SOCK'] : [])];
  return {
    ...Object.fromEntries(passed.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]]))),
    HOME: '/nonexistent',
    LC_ALL: 'C',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_ATTR_NOSYSTEM: '1',
    GIT_TERMINAL_PROMPT: '0',
    GIT_ALLOW_PROTOCOL: protocol,
    GIT_NO_REPLACE_OBJECTS: '1',
    GIT_LITERAL_PATHSPECS: '1',
    GIT_SSH_COMMAND: ssh,
    GIT_SSH_VARIANT: 'ssh',
  };
}

const settings = [
  'core.hooksPath=/dev/null',
  'core.fsmonitor=false',
  'core.protectHFS=true',
  'core.protectNTFS=true',
  'core.askPass=',
  'credential.helper=',
  'protocol.ext.allow=never',
  'http.followRedirects=false',
  'submodule.recurse=false',
  'gc.auto=0',
  'maintenance.auto=false',
];

/** git has failed, with its own last words. */
export class GitFailed extends Error {}

interface Run {
  env: Record<string, string>;
  clock: Clock;
  signal: AbortSignal;
  /** A program and its arguments that git is run by. */
  box?: string[];
  /** More settings, `name=value`. */
  settings?: string[];
  /** Each line that it says on standard error; those of progress end in a carriage return. */
  line?(text: string): void;
}

/** Without a word for so long (milliseconds) it is given up. */
const patience = 120_000;
/** Between SIGTERM, after which git removes what it has begun, and SIGKILL. */
const grace = 3_000;
const mostOutput = 16_777_216;

/**
 * Runs git to its end as a group of its own, and answers its output. Aborted or silent for two minutes it is ended with all
 * that it has started. Throws GitFailed.
 */
export function runGit(
  args: string[],
  { env, clock, signal, box = [], settings: more = [], line = () => {} }: Run,
): Promise<string> {
  if (signal.aborted) return Promise.reject(new GitFailed('it was stopped.'));
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const all = [...settings, ...more].flatMap((one) => ['-c', one]);
  const [program = 'git', ...argv] = [...box, 'git', ...all, ...args];
  const child = spawn(program, argv, { env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
  let why: string | undefined;
  const send = (name: NodeJS.Signals) => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, name);
    } catch {
      // All of the group have ended.
    }
  };
  const stop = (reason: string) => {
    why ??= reason;
    send('SIGTERM');
    clock.timer(grace, () => child.exitCode === null && child.signalCode === null && send('SIGKILL'));
  };
  let cancelSilence = () => {};
  const heard = () => {
    cancelSilence();
    cancelSilence = clock.timer(patience, () => stop('it said nothing for two minutes.'));
  };
  heard();
  const aborted = () => stop('it was stopped.');
  signal.addEventListener('abort', aborted, { once: true });
  const words: string[] = [];
  let [output, rest] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    heard();
    if (output.length < mostOutput) output += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    heard();
    const lines = (rest + text).split(/[\r\n]/);
    rest = (lines.pop() ?? '').slice(-mostOutput);
    for (const one of lines) {
      line(one);
      if (/^(fatal|error|remote: error|ssh|Host key|Permission)/i.test(one.trim()))
        words.push(one.trim().slice(0, 300));
    }
  });
  const end = () => {
    cancelSilence();
    signal.removeEventListener('abort', aborted);
  };
  // What it left behind, if anything, goes with it.
  child.once('exit', () => send('SIGKILL'));
  child.once('error', (cause) => {
    end();
    reject(new GitFailed(`git could not be started (${cause.message}).`, { cause }));
  });
  child.once('close', (code, name) => {
    end();
    if (rest !== '') words.push(rest.slice(0, 300));
    if (code === 0 && why === undefined) resolve(output);
    else reject(new GitFailed(why ?? (words.slice(-3).join(' ') || `git ended with ${code ?? name}.`)));
  });
  return promise;
}
