import { execFileSync } from 'node:child_process';
import {
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { bubblewrapArguments } from '../../../src/runner/sandbox/argv.ts';
import { clearAway } from '../../../src/runner/sandbox/enclosure.ts';
import { furnish } from '../../../src/runner/sandbox/furnish.ts';
import { guardedPaths, guardOf, place, unplace } from '../../../src/runner/sandbox/guard.ts';
import { createSandbox, findRelay } from '../../../src/runner/sandbox/sandbox.ts';
import { Place, until } from '../../kit/runner.ts';
import { machine, noSandbox, sandboxSpec } from '../../kit/sandbox.ts';

/** A place like a user's machine: a home with secrets, the daemon's folder, another workspace, and a repository to work in. */
class Machine extends Place {
  readonly home = join(this.root, 'home');
  readonly data = join(this.root, 'data');
  readonly other = join(this.root, 'other');

  constructor() {
    super();
    for (const folder of [join(this.home, '.ssh'), join(this.home, '.local/bin'), this.data, this.other])
      mkdirSync(folder, { recursive: true });
    writeFileSync(join(this.home, '.ssh/id_ed25519'), 'secret-key');
    writeFileSync(join(this.home, '.local/bin/tool'), '#!/bin/sh\necho tool\n', { mode: 0o755 });
    writeFileSync(join(this.data, 'session-token'), 'secret-token');
    writeFileSync(join(this.other, 'file'), 'secret-work');
    const git = (...args: string[]) =>
      execFileSync('git', ['-c', 'user.name=n', '-c', 'user.email=e@x', ...args], { cwd: this.workspace });
    git('init', '-q');
    writeFileSync(join(this.workspace, 'file'), 'mine');
    git('add', '-A');
    git('commit', '-qm', 'first');
  }

  /** Runs a script in the sandbox; answers its output and its final record. */
  async inside(script: string, changes: Parameters<Place['spec']>[1] = {}) {
    const env = { PATH: process.env.PATH ?? '', HOME: this.home, LANG: 'C.UTF-8', ...changes.env };
    const sandbox = sandboxSpec({ hidden: [this.data] });
    const runner = this.start(this.spec(script, { sandbox, ...changes, env }));
    const final = await runner.final();
    const output = runner
      .events('tool.output')
      .map(({ text }) => text)
      .join('');
    return { runner, final, output };
  }
}

const list = (folder: string): string[] => readdirSync(folder).toSorted();

interface Attempt {
  what: string;
  /** Must fail inside. */
  refused: string;
  /** The same, but permitted: must work, so that it is seen that the attempt is a real one. */
  allowed: string;
}

const attempts: Attempt[] = [
  { what: 'writing outside of the workspace', refused: ': > $OTHER/new', allowed: ': > new' },
  { what: 'overwriting a file outside', refused: 'echo x > $OTHER/file', allowed: 'echo x > file2' },
  {
    what: 'reading what lies beside the artifacts',
    refused: 'cat $RUN/harness.json',
    allowed: ': > $AGENTCTL_ARTIFACTS/x',
  },
  { what: 'writing to the home', refused: ': > $REAL_HOME/.ssh/authorized_keys', allowed: ': > $HOME/.bashrc' },
  { what: 'writing to the system', refused: ': > /etc/agentctl-was-here', allowed: ': > /tmp/agentctl-was-here' },
  { what: 'reading a key', refused: 'cat $REAL_HOME/.ssh/id_ed25519', allowed: 'cat file' },
  { what: 'listing the home', refused: 'ls $REAL_HOME/.ssh', allowed: 'ls $HOME' },
  { what: 'reading the session token', refused: 'cat $DATA/session-token', allowed: 'cat /etc/passwd' },
  { what: 'reading another workspace', refused: 'cat $OTHER/file', allowed: 'cat ./file' },
  { what: 'reading the spool', refused: 'cat $RUN/spool', allowed: 'cat $RUN/script' },
  { what: 'reaching the runner', refused: 'ls $RUN/ctl.sock', allowed: 'ls $RUN/script' },
  { what: 'seeing other processes', refused: 'ls /proc/$RUNNER/status', allowed: 'ls /proc/$$/status' },
  { what: 'reading the runner’s environment', refused: 'cat /proc/$RUNNER/environ', allowed: 'cat /proc/$$/environ' },
  { what: 'ending other processes', refused: 'kill -0 $RUNNER', allowed: 'kill -0 $$' },
  { what: 'writing a hook', refused: ': > .git/hooks/pre-commit', allowed: ': > .git/agent-note' },
  { what: 'changing git’s configuration', refused: 'git config core.fsmonitor x', allowed: 'git config core.bare' },
  { what: 'replacing git’s configuration', refused: 'mv file .git/config', allowed: 'mv file .git/elsewhere' },
  { what: 'making git attributes', refused: 'echo "* filter=x" > .git/info/attributes', allowed: 'ls .git/info' },
  { what: 'moving .git away', refused: 'mv .git .git2', allowed: 'mv file file2' },
  { what: 'moving .git/info away', refused: 'mv .git/info .git/info2', allowed: 'cp -r .git/info .git/info2' },
  { what: 'making .mcp.json', refused: 'echo {} > .mcp.json', allowed: 'echo {} > mcp.json' },
  { what: 'making it another way', refused: 'echo {} > x; mv -T x .mcp.json', allowed: 'echo {} > x; mv -T x y' },
  { what: 'making .gitmodules', refused: ': > .gitmodules', allowed: ': > .gitignore' },
  { what: 'settings of Claude', refused: ': > .claude/settings.json', allowed: ': > .claude/commands' },
  { what: 'local settings', refused: 'rmdir .claude/settings.local.json', allowed: 'mkdir .claude/x; rmdir .claude/x' },
  { what: 'moving .claude away', refused: 'mv .claude .claude2', allowed: 'mkdir a; mv a b' },
  { what: 'settings of Codex', refused: 'mkdir -p .codex/x', allowed: 'mkdir -p codex/x' },
  { what: 'tasks of an editor', refused: ': > .vscode/tasks.json', allowed: 'mkdir v; : > v/tasks.json' },
  { what: 'removing a placeholder', refused: 'rmdir .idea', allowed: 'mkdir idea; rmdir idea' },
  { what: 'a link that leads out', refused: 'ln -s $OTHER/file l; cat l', allowed: 'ln -s file l; cat l' },
  { what: 'writing through a link', refused: 'ln -s $OTHER d; : > d/new', allowed: 'mkdir d2; ln -s d2 d; : > d/new' },
  { what: 'a hard link to the outside', refused: 'ln $OTHER/file l', allowed: 'ln file l' },
  { what: 'the daemon’s port', refused: 'exec 3<>/dev/tcp/127.0.0.1/$PORT', allowed: 'exec 3<>file' },
  { what: 'a unix socket', refused: 'ls $DATA/daemon.sock', allowed: 'ls file' },
  { what: 'remounting what is read-only', refused: 'mount -o remount,rw /usr', allowed: 'mount' },
  { what: 'unmounting a guard', refused: 'umount .git/hooks', allowed: 'ls .git/hooks' },
  {
    what: 'unmounting in namespaces of its own',
    refused: 'unshare -Urm sh -c "umount .git/hooks && : > .git/hooks/x"',
    allowed: 'sh -c "ls .git/hooks"',
  },
];

test.skipIf(noSandbox)(
  `${attempts.length} ways out are closed, and the permitted twin of each works`,
  { timeout: 60_000 },
  async () => {
    const port = await new Promise<{ number: number; close(): void }>((resolve) => {
      const server = createServer((socket) => socket.destroy());
      server.listen(0, '127.0.0.1', () => {
        const address = server.address();
        if (typeof address === 'object' && address) resolve({ number: address.port, close: () => server.close() });
      });
    });
    await using place = new Machine();
    const sockets = createServer().listen(join(place.data, 'daemon.sock'));
    const untouched = list(place.workspace);
    const variables = {
      OTHER: place.other,
      DATA: place.data,
      REAL_HOME: place.home,
      RUN: place.folder,
      RUNNER: String(process.pid),
      PORT: String(port.number),
    };
    // Each in a shell of its own, in a copy of the state before: what one leaves must not help another.
    const script = [
      '#!/bin/bash',
      ...attempts.flatMap(({ refused, allowed }, index) =>
        [refused, allowed].map((command, twin) => {
          const quoted = `'${command.replaceAll("'", `'\\''`)}'`;
          return `echo mine > file; bash -c ${quoted} >/dev/null 2>&1 && echo "${index} ${twin} done" || echo "${index} ${twin} not"; rm -rf new file2 l d d2 v a b x y idea codex`;
        }),
      ),
    ].join('\n');
    const { output } = await place.inside(script, { env: variables });
    port.close();
    sockets.close();
    const said = new Set(output.trim().split('\n'));
    const escaped = attempts.filter((_, index) => !said.has(`${index} 0 not`)).map(({ what }) => what);
    const useless = attempts.filter((_, index) => !said.has(`${index} 1 done`)).map(({ what }) => what);
    expect({ escaped, useless }).toEqual({ escaped: [], useless: [] });
    expect(list(place.other)).toEqual(['file']);
    expect(readFileSync(join(place.other, 'file'), 'utf8')).toBe('secret-work');
    expect(list(place.home)).toEqual(['.local', '.ssh']);
    expect(existsSync('/tmp/agentctl-was-here')).toBe(false);
    // What stood in for absent files is gone; .claude stayed, since the agent put something into it.
    expect(list(place.workspace).filter((name) => !untouched.includes(name))).toEqual(
      expect.arrayContaining(['.claude', '.gitignore', 'mcp.json']),
    );
    expect(list(join(place.workspace, '.claude'))).toEqual(['commands']);
    expect(existsSync(join(place.workspace, '.vscode'))).toBe(false);
  },
);

test.skipIf(noSandbox)('git works in it, and sees nothing of the placeholders', async () => {
  await using place = new Machine();
  const { final, output } = await place.inside(
    'git status --short && git checkout -qb x && echo 2 > two && git add -A && git -c user.name=n -c user.email=e commit -qm two && git show --stat --format= && git log --oneline | wc -l',
  );
  expect(final.status).toBe('completed');
  expect(output).toBe(' two | 1 +\n 1 file changed, 1 insertion(+)\n2\n');
  expect(final.changes).toEqual([{ path: 'two', change: 'added' }]);
  expect(list(place.workspace)).toEqual(['.git', 'file', 'two']);
  expect(existsSync(join(place.workspace, '.git/info/attributes'))).toBe(false);
});

test.skipIf(noSandbox)(
  'in a worktree git commits to its own branch, and changes nothing else of the repository',
  async () => {
    await using place = new Machine();
    const repository = join(place.root, 'repository');
    const git = (...args: string[]) => execFileSync('git', args, { cwd: repository, encoding: 'utf8' }).trim();
    renameSync(place.workspace, repository);
    git('worktree', 'add', '-qb', 'agentctl/w', place.workspace);
    const main = git('rev-parse', 'HEAD');
    const { output } = await place.inside(`
    R=${repository}
    attempt() { "$@" >/dev/null 2>&1 && echo "did $*"; }
    echo 2 > two; git add two; git -c user.name=n -c user.email=e commit -qm two && git log --oneline | wc -l
    attempt cp two $R/.git/hooks/pre-commit; attempt git config core.fsmonitor x; attempt cp two .git
    attempt git branch -f master HEAD; attempt git tag t; attempt cp two $R/.git/worktrees/ws/commondir
    attempt cp two $R/.git/config.worktree; attempt cp two $R/.git/index
    attempt cp two $R/.git/info/attributes`);
    expect(output).toBe('2\n');
    expect(git('rev-parse', 'HEAD')).toBe(main);
    expect(git('log', '--format=%s', 'agentctl/w')).toBe('two\nfirst');
    expect(git('status', '--short')).toBe('');
  },
);

test.skipIf(noSandbox)('a file .git that points to a repository which does not know it opens nothing', async () => {
  await using place = new Machine();
  const secret = join(place.root, 'secret');
  renameSync(place.workspace, secret);
  mkdirSync(place.workspace);
  writeFileSync(join(place.workspace, '.git'), `gitdir: ${secret}/.git\n`);
  const { output } = await place.inside(`git log 2>&1 | head -1; ls ${secret} 2>&1`);
  expect(output).toMatch(/not a git repository.*\nls: cannot access/);
});

test.skipIf(noSandbox)('programs of the home are there to be started, and nothing beside them', async () => {
  await using place = new Machine();
  const PATH = `${join(place.home, '.local/bin')}:${process.env.PATH}`;
  const { output } = await place.inside('tool; ls -A $REAL_HOME', { env: { PATH, REAL_HOME: place.home } });
  expect(output).toBe('tool\n.local\n');
});

test.skipIf(noSandbox)('the environment is the run’s, with a home of its own', async () => {
  await using place = new Machine();
  const { output } = await place.inside('env');
  const env = Object.fromEntries(
    output
      .trim()
      .split('\n')
      .map((line) => line.split(/=(.*)/s).slice(0, 2) as [string, string]),
  );
  expect(
    Object.keys(env)
      .filter((name) => !['PWD', 'OLDPWD', '_', 'SHLVL'].includes(name))
      .toSorted(),
  ).toEqual([
    'AGENTCTL_ARTIFACTS',
    'AGENTCTL_RUN_ID',
    'AGENTCTL_WORKSPACE',
    'HOME',
    'IS_SANDBOX',
    'LANG',
    'PATH',
    'TMPDIR',
  ]);
  expect(env).toMatchObject({ HOME: place.session, TMPDIR: '/tmp' });
});

test.skipIf(noSandbox)('what git reads as its own is closed where it is, and named where it came to be', async () => {
  await using place = new Machine();
  writeFileSync(join(place.workspace, '.git/config.worktree'), '');
  const script =
    'git status >/dev/null && echo works; (echo > .git/config.worktree) 2>/dev/null || echo closed; echo . > .git/commondir';
  const { output, runner } = await place.inside(script);
  expect(output).toBe('works\nclosed\n');
  expect(runner.events('log').map(({ text }) => text)).toEqual([
    expect.stringMatching(/^This run made .git\/commondir:/),
  ]);
});

test.skipIf(noSandbox)('an empty workspace stays empty, and what could run later is named', async () => {
  await using place = new Place();
  const script = `ls -A; git init -q; git config alias.x y; mkdir -p .vscode; echo {} > .vscode/tasks.json`;
  const runner = place.start(place.spec(script, { sandbox: sandboxSpec() }));
  expect(await runner.final()).toMatchObject({ status: 'completed', text: '' });
  expect(runner.events('log').map(({ text }) => text)).toEqual([
    'This run made .git/config, .vscode: programs that you use here may run what is in there. Look at it first.',
  ]);
});

/** All ways to turn away from a run: session, double fork, environment, pipes, deafness. `mark` is in each command line. */
const family = (mark: string) => `
trap '' TERM
sleep ${mark} &
setsid sleep ${mark} &
(setsid sh -c 'trap "" TERM HUP; exec sleep ${mark}' &)
env -i PATH="$PATH" setsid sleep ${mark} </dev/null >/dev/null 2>&1 &
(env -i /bin/sh -c 'setsid sleep ${mark} </dev/null >/dev/null 2>&1 &')
while [ "$(grep -clza ${mark} /proc/[0-9]*/cmdline | wc -l)" -lt 5 ]; do :; done
echo ready; sleep ${mark}`;
const alive = (mark: string): string[] =>
  readdirSync('/proc').filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, 'latin1').startsWith(`sleep\0${mark}`);
    } catch {
      return false;
    }
  });

async function startFamily(at: Machine, mark: string) {
  const runner = at.start(at.spec(family(mark), { sandbox: sandboxSpec(), grace_seconds: 0.2 }));
  await until(() => runner.events('tool.output').some(({ text }) => text.includes('ready')), 'the family');
  return runner;
}

test.skipIf(noSandbox)('nothing of a run is left after a cancel', async () => {
  await using at = new Machine();
  const mark = `98${process.pid}1`;
  const runner = await startFamily(at, mark);
  expect(alive(mark).length).toBeGreaterThanOrEqual(5);
  await runner.say({ command: 'cancel' });
  expect(await runner.final()).toMatchObject({ status: 'cancelled' });
  expect(alive(mark)).toEqual([]);
  expect(list(at.workspace)).toEqual(['.git', 'file']);
});

test.skipIf(noSandbox)(
  'nothing of a run is left after kill -9 of the runner, and its placeholders can be cleared away',
  async () => {
    await using at = new Machine();
    const mark = `98${process.pid}2`;
    const runner = await startFamily(at, mark);
    expect(alive(mark).length).toBeGreaterThanOrEqual(5);
    runner.child.kill('SIGKILL');
    await until(() => alive(mark).length === 0, 'the end of all', 5000);
    expect(list(at.workspace)).toContain('.vscode');
    clearAway(at.folder);
    expect(list(at.workspace)).toEqual(['.git', 'file']);
  },
);

describe('what a box is made of', () => {
  test('bubblewrap is told all in arguments of its own, and nothing of the environment', () => {
    const args = bubblewrapArguments({
      mounts: [
        { kind: 'write', path: '/w/s' },
        { kind: 'read', path: '/w/s/a/b' },
        { kind: 'empty', path: '/tmp' },
        { kind: 'link', path: '/bin', to: 'usr/bin' },
        { kind: 'read', path: '/r', from: '/elsewhere' },
      ],
      cwd: '/w/s',
      command: ['/bin/sh', '; rm -rf /'],
    });
    expect(args.slice(args.lastIndexOf('/dev') + 1)).toEqual([
      '--tmpfs',
      '/tmp',
      '--symlink',
      'usr/bin',
      '/bin',
      '--ro-bind',
      '/elsewhere',
      '/r',
      '--bind',
      '/w/s',
      '/w/s',
      '--ro-bind',
      '/w/s/a/b',
      '/w/s/a/b',
      '--remount-ro',
      '/',
      '--chdir',
      '/w/s',
      '--',
      '/bin/sh',
      '; rm -rf /',
    ]);
    expect(args).toEqual(
      expect.arrayContaining(['--unshare-net', '--unshare-pid', '--die-with-parent', '--new-session']),
    );
    expect(args).not.toContain('--setenv');
  });

  test('never everything and never a home, whatever PATH says; what is hidden is hidden inside of what is shown, too', async () => {
    await using place = new Machine();
    const env = { PATH: `/:${place.root}:${place.home}:/bin`, HOME: place.home };
    const workspace = { path: place.root, revision: 1 };
    const shown = furnish(place.spec('', { env }), [place.data]).map(({ path }) => path);
    expect(shown).not.toContain('/');
    expect(shown).not.toContain(place.root);
    expect(shown).not.toContain(place.home);
    const wide = furnish(place.spec('', { env, workspace }), [place.data, '/nowhere']);
    expect(wide.filter(({ kind }) => kind === 'empty').map(({ path }) => path)).toEqual(
      expect.arrayContaining([place.data]),
    );
  });
});

describe('the guard of a workspace', () => {
  test('closes what is there and what is not, and leaves no trace', async () => {
    await using place = new Machine();
    mkdirSync(join(place.workspace, '.vscode'));
    const before = list(place.workspace);
    const guard = guardOf(place.workspace);
    const watched = ['.git/commondir', '.git/config.worktree'];
    expect(guard.open.map(({ path }) => path)).toEqual(watched);
    expect(guard.mounts.filter(({ kind }) => kind === 'read')).toHaveLength(guardedPaths.length - watched.length);
    const placed = place_(guard.placeholders, place);
    expect(list(place.workspace)).toEqual(
      [...before, '.claude', '.codex', '.gitmodules', '.idea', '.mcp.json'].toSorted(),
    );
    unplace(placed);
    unplace(placed);
    expect(list(place.workspace)).toEqual(before);
  });

  test('never takes away what the user made meanwhile', async () => {
    await using place = new Machine();
    const placed = place_(guardOf(place.workspace).placeholders, place);
    writeFileSync(join(place.workspace, '.vscode/mine'), '');
    execFileSync('rmdir', [join(place.workspace, '.idea')]);
    writeFileSync(join(place.workspace, '.idea'), 'a file of the user');
    unplace(placed);
    expect(list(place.workspace)).toEqual(['.git', '.idea', '.vscode', 'file']);
  });

  test('a link is not followed', async () => {
    await using place = new Machine();
    symlinkSync(join(place.home, '.ssh'), join(place.workspace, '.vscode'));
    linkSync(join(place.workspace, 'file'), join(place.workspace, '.mcp.json'));
    const guard = guardOf(place.workspace);
    expect(guard.open.map(({ path }) => path)).toEqual(['.git/commondir', '.git/config.worktree', '.vscode']);
    expect(guard.mounts.map(({ path }) => path)).not.toContain(join(place.workspace, '.vscode'));
  });

  const place_ = (placeholders: readonly string[], at: Place) => place(placeholders, join(at.folder, 'placed.json'));
});

describe('a machine without a sandbox', () => {
  const create = (find: () => string | null, at: Place) =>
    createSandbox({ find, folder: at.folder, relay: findRelay(), hidden: [] });

  test('says so, and how to have one', async () => {
    await using at = new Place();
    expect(create(() => null, at).state()).toMatchObject({ available: false, remedy: expect.any(String) });
  });

  test('is one, too, where bubblewrap may not make namespaces, or lets things through', async () => {
    await using at = new Place();
    const fake = join(at.root, 'bwrap');
    const write = (script: string) => writeFileSync(fake, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
    const sandbox = create(() => fake, at);
    write('echo "bwrap: setting up uid map: Permission denied" >&2; exit 1');
    expect(sandbox.state()).toMatchObject({ available: false, remedy: expect.stringContaining('apparmor') });
    write('while [ "$1" != -- ]; do [ "$1" = --chdir ] && cd "$2"; shift; done; shift; exec "$@"');
    expect(sandbox.state()).toMatchObject({
      available: false,
      reason: expect.stringContaining('read-outside, write-guarded, network, write-outside'),
    });
    write('exit 0');
    expect(sandbox.state()).toMatchObject({ available: false });
    expect(list(at.folder)).toEqual([]);
    await sandbox.warm();
    expect(sandbox.state()).toMatchObject({ available: false });
  });

  test.skipIf(noSandbox)('is asked again until it has one', async () => {
    await using at = new Place();
    let program: string | null = null;
    const sandbox = create(() => program, at);
    await sandbox.warm();
    expect(sandbox.state()).toMatchObject({ available: false });
    program = sandboxSpec().program;
    await sandbox.warm();
    expect(sandbox.state()).toEqual(machine);
  });
});
