import { Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import { type Context, contextOf, type Flags, type Process } from './context.ts';
import { exit, report } from './exit.ts';
import { clean } from './text.ts';
import { microOf, secondsOf } from './words.ts';

// Every command is described here and loaded when it is used: `agentctl --help` reads none of them.
// oxlint-disable-next-line typescript/no-explicit-any -- commander hands over strings and options, each command names its own
type Action = (context: Context, options: any, ...args: any[]) => Promise<number | void>;
type Loader = () => Promise<Record<string, unknown>>;
/** What commander calls for a command; `override` wins over flags of the same name that mean something else there. */
type Does = (load: Loader, name: string, override?: Partial<Flags>) => (...given: unknown[]) => Promise<void>;

/** Parses the arguments, does what they say and gives the exit code. Whatever fails is said on standard error. */
export async function run(argv: string[], process: Process): Promise<number> {
  let code = 0;
  let debug = false;
  const does: Does =
    (load, name, override) =>
    async (...given) => {
      const command = given.at(-1) as Command;
      const flags = { ...command.optsWithGlobals<Flags>(), ...override };
      debug = flags.debug ?? false;
      const action = (await load())[name] as Action;
      code = (await action(contextOf(flags, process), command.opts(), ...given.slice(0, -2))) ?? 0;
    };
  const program = tree(does, process);
  try {
    if (argv.length === 0) program.outputHelp();
    else await program.parseAsync(argv, { from: 'user' });
    return code;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : exit.usage;
    const { message, remedy, requestId, code: failed } = report(error);
    const { stderr } = process.streams;
    stderr.write(`error: ${clean(message)}\n`);
    if (remedy) stderr.write(`  try: ${clean(remedy)}\n`);
    if (requestId) stderr.write(`  request id: ${clean(requestId)}\n`);
    if (debug && error instanceof Error && error.stack) stderr.write(`${clean(error.stack)}\n`);
    return failed;
  }
}

const money = (text: string): string => {
  const micro = microOf(text);
  if (micro === undefined) throw new InvalidArgumentError('Give US dollars, such as 0.50.');
  return micro;
};
const seconds = (text: string): number => {
  const s = secondsOf(text);
  if (s === undefined) throw new InvalidArgumentError('Give a time, such as 90s, 20m or 1h30m.');
  return s;
};
const whole = (text: string): number => {
  if (!/^\d{1,15}$/.test(text)) throw new InvalidArgumentError('Give a whole number.');
  return Number(text);
};
const pairs = (text: string, before: Record<string, string> = {}): Record<string, string> => {
  const at = text.indexOf('=');
  if (at < 1) throw new InvalidArgumentError('Give name=value.');
  return { ...before, [text.slice(0, at)]: text.slice(at + 1) };
};

/** `-o table|wide|json|yaml|name` and `--limit`, for commands that list. */
const listing = (command: Command): Command => shown(command).option('--limit <n>', 'how many, at most', whole, 50);
const shown = (command: Command): Command =>
  command.addOption(
    new Option('-o, --output <format>', 'how to print').choices(['table', 'wide', 'json', 'yaml', 'name']),
  );

function tree(does: Does, process: Process): Command {
  const { streams, version } = process;
  const program = new Command('agentctl')
    .description('Coding agents that work for you on your own machine, under your control.')
    .version(version, '-V, --version', 'print the version')
    .option('--json', 'print the API’s answer unchanged; a followed run prints one event per line')
    .option('-q, --quiet', 'ids only')
    .option('--no-trunc', 'do not cut tables to the terminal’s width')
    .option('--no-color', 'no colours (also: NO_COLOR)')
    .option('--url <url>', 'another daemon than this machine’s (also: AGENTCTL_URL)')
    .option('--token-file <path>', 'a file with the credential (also: AGENTCTL_TOKEN)')
    .option('--no-start', 'do not start the daemon when it is not running')
    .option('--no-input', 'never ask; end with exit code 5 where an answer is needed')
    .option('-y, --yes', 'do not ask before removing things')
    .option('--debug', 'say more about failures')
    .configureHelp({ showGlobalOptions: true, sortSubcommands: false })
    .configureOutput({
      writeOut: (text) => streams.stdout.write(text),
      writeErr: (text) => streams.stderr.write(text),
      getOutHelpWidth: () => streams.stdout.columns ?? 80,
      getErrHelpWidth: () => streams.stderr.columns ?? 80,
    })
    .showSuggestionAfterError()
    .showHelpAfterError('(`agentctl help` shows the commands)')
    .exitOverride()
    .helpCommand('help [command]', 'show help for a command');
  program.addHelpText(
    'after',
    '\nExamples:\n  agentctl run "fix the failing test"    work in this directory and follow it\n  agentctl ps -a                          what runs and what ran\n  agentctl attach @last                   look at the newest run again\n',
  );

  const runs = () => import('./commands/runs.ts');
  program.commandsGroup('Work:');
  program
    .command('run')
    .description('start a run in this directory and follow it to its end')
    .argument('[prompt]', 'what to do; - reads standard input')
    .option('-p, --project <project>', 'in a new workspace of this project')
    .option('-w, --workspace <workspace>', 'in this workspace')
    .option('-s, --session <session>', 'as the next message of this session')
    .option('-c, --continue', 'as the next message of the latest session here')
    .option('-m, --model <model>', 'which model')
    .option('--harness <name>', 'which agent (`agentctl harnesses`); shell runs the prompt as a script')
    .option('--worktree', 'in a git worktree of its own, next to other runs')
    .option('--file <path>', 'read the prompt from a file')
    .option('--max-cost <usd>', 'stop at this cost, such as 0.50', money)
    .option('--timeout <time>', 'stop after this time, such as 20m', seconds)
    .option('-d, --detach', 'print the run’s id and come back at once')
    .addOption(
      new Option('--permission <mode>', 'what the agent may do unasked').choices(['ask', 'accept-edits', 'full']),
    )
    .addOption(new Option('--on-input <what>', 'when the agent asks something').choices(['ask', 'reject', 'fail']))
    .addOption(new Option('--sandbox <mode>', 'whether to run in a sandbox').choices(['auto', 'none', 'required']))
    .option('-o, --output <file>', 'write the result to a file')
    .option('--idempotency-key <key>', 'the same key starts the same run once')
    .option('--label <name=value>', 'metadata, may be repeated', pairs)
    .action(does(() => import('./commands/run.ts'), 'runCommand', { output: undefined }));
  program
    .command('attach')
    .description('follow a run live; leaving does not stop it')
    .argument('<run>')
    .action(does(() => import('./commands/attach.ts'), 'attach'));
  listing(program.command('ps'))
    .description('what is running and waiting')
    .option('-a, --all', 'finished runs too')
    .option('--status <list>', 'only these, separated by commas')
    .option('-w, --watch', 'keep the list up to date')
    .action(does(runs, 'ps'));
  program
    .command('logs')
    .description('what a run did, in plain lines; without a run the daemon’s log')
    .argument('[run]')
    .option('-f, --follow', 'go on with what comes')
    .option('--after <sequence>', 'only what came after this event', whole)
    .option('--raw', 'what the harness itself printed, and nothing else')
    .action(does(() => import('./commands/logs.ts'), 'logs'));
  program
    .command('wait')
    .description('wait until runs have ended; the exit code tells how')
    .argument('<runs...>')
    .option('--timeout <time>', 'give up after this time, with exit code 124', seconds)
    .action(does(() => import('./commands/wait.ts'), 'wait'));
  program.command('cancel').description('stop a run').argument('<runs...>').action(does(runs, 'cancel'));
  program
    .command('retry')
    .description('start a run again as it was, and follow it')
    .argument('<run>')
    .option('-d, --detach', 'print the new run’s id and come back at once')
    .action(does(() => import('./commands/run.ts'), 'retry'));
  const runsGroup = program.command('runs').description('list runs and look into one');
  listing(runsGroup.command('ls'))
    .description('list runs, newest first')
    .option('--status <list>', 'only these, separated by commas')
    .option('-w, --workspace <workspace>', 'only of this workspace')
    .option('-p, --project <project>', 'only of this project')
    .option('-s, --session <session>', 'only of this session')
    .action(does(runs, 'ls'));
  shown(runsGroup.command('show')).description('everything about a run').argument('<run>').action(does(runs, 'show'));
  shown(runsGroup.command('result')).description('what came of a run').argument('<run>').action(does(runs, 'result'));
  runsGroup
    .command('events')
    .description('a run’s history, one event a line')
    .argument('<run>')
    .option('--after <sequence>', 'only what came after this event', whole)
    .action(does(runs, 'events'));

  const inputs = () => import('./commands/inbox.ts');
  program.commandsGroup('Questions to you:');
  listing(program.command('inbox')).description('what waits for your answer').action(does(inputs, 'inbox'));
  program
    .command('answer')
    .description('answer a question')
    .argument('<request>', 'its id, or that of the run that asks')
    .option('--allow', 'allow it this once')
    .option('--always', 'allow it from now on')
    .option('--reject', 'do not allow it')
    .option('--option <id>', 'take this option')
    .option('--text <text>', 'answer with words')
    .action(does(inputs, 'answer'));

  const places = () => import('./commands/projects.ts');
  const workspaces = () => import('./commands/workspaces.ts');
  const sessions = () => import('./commands/sessions.ts');
  program.commandsGroup('Projects, workspaces, sessions:');
  const projects = program.command('projects').description('projects hold workspaces and their runs');
  listing(projects.command('ls'))
    .description('list projects')
    .option('-a, --all', 'archived ones too')
    .action(does(places, 'ls'));
  shown(projects.command('new'))
    .description('create a project')
    .argument('<name>')
    .option('--description <text>')
    .action(does(places, 'create'));
  shown(projects.command('show'))
    .description('everything about a project')
    .argument('<project>')
    .action(does(places, 'show'));
  projects
    .command('rename')
    .description('give it another name')
    .argument('<project>')
    .argument('<name>')
    .action(does(places, 'rename'));
  projects
    .command('archive')
    .description('put it away; files and history stay')
    .argument('<project>')
    .action(does(places, 'archive'));
  projects
    .command('rm')
    .description('archive it and remove it for good later')
    .argument('<project>')
    .option('--after <time>', 'how long one may change one’s mind', seconds)
    .action(does(places, 'remove'));
  const ws = program.command('workspaces').description('trees of files that runs work in');
  listing(ws.command('ls')).description('list workspaces').argument('[project]').action(does(workspaces, 'ls'));
  shown(ws.command('new'))
    .description('create a workspace; without --directory an empty one')
    .argument('<project>')
    .argument('[name]')
    .option('--directory <path>', 'this directory itself')
    .option('--worktree', 'a git worktree of --directory, or of the current directory')
    .action(does(workspaces, 'create'));
  shown(ws.command('show'))
    .description('everything about a workspace')
    .argument('<workspace>')
    .action(does(workspaces, 'show'));
  ws.command('rename')
    .description('give it another name')
    .argument('<workspace>')
    .argument('<name>')
    .action(does(workspaces, 'rename'));
  ws.command('path').description('print where its files are').argument('<workspace>').action(does(workspaces, 'path'));
  ws.command('rm')
    .description('remove it later; your own directory is never touched')
    .argument('<workspace>')
    .option('--after <time>', 'how long one may change one’s mind', seconds)
    .action(does(workspaces, 'remove'));
  checkpointCommands(program, does);
  fileCommands(program.command('files').description('the files of a workspace'), does);
  const sessionsGroup = program.command('sessions').description('conversations that go on over several runs');
  listing(sessionsGroup.command('ls'))
    .description('list sessions')
    .option('-w, --workspace <workspace>', 'only of this workspace')
    .action(does(sessions, 'ls'));
  shown(sessionsGroup.command('show'))
    .description('a session and its runs')
    .argument('<session>')
    .action(does(sessions, 'show'));

  const server = () => import('./commands/server.ts');
  program.commandsGroup('Agents and models:');
  listing(program.command('harnesses'))
    .description('the agents there are, and which are installed')
    .action(does(server, 'harnesses'));
  listing(program.command('models'))
    .description('the models that are known, with their prices')
    .action(does(server, 'models'));

  const daemon = () => import('./commands/daemon.ts');
  program.commandsGroup('The daemon:');
  program.command('up').description('start the daemon if it is not running').action(does(daemon, 'up'));
  program
    .command('down')
    .description('stop the daemon; runs go on without it')
    .option('--drain <time>', 'start nothing more and wait this long for runs to end', seconds)
    .action(does(daemon, 'down'));
  program
    .command('restart')
    .description('stop the daemon and start it again; runs go on meanwhile')
    .action(does(daemon, 'restart'));
  program.command('status').description('whether the daemon runs, and what it does').action(does(daemon, 'status'));
  program.command('serve').description('be the daemon, in the foreground').action(does(daemon, 'serve'));
  program
    .command('doctor')
    .description('check everything that agentctl needs')
    .action(does(() => import('./commands/doctor.ts'), 'doctor'));
  program
    .command('version')
    .description('print the versions of this program and of the daemon')
    .action(does(daemon, 'version'));

  const raw = () => import('./commands/raw.ts');
  program.commandsGroup('Raw and upkeep:');
  program
    .command('api')
    .description('send any request to the API')
    .argument('<method>')
    .argument('<path>', 'such as /v1/runs')
    .option('-f, --field <name=value>', 'a query value with GET, otherwise a body field; may be repeated', pairs)
    .option('--body <json>', 'the whole body; - reads standard input')
    .option('--paginate', 'all pages, as one list')
    .option('-i, --include', 'status and headers too, on standard error')
    .option('--idempotency-key <key>')
    .action(does(raw, 'api'));
  program.command('openapi').description('print the OpenAPI document').action(does(raw, 'openapi'));
  program
    .command('auth')
    .description('credentials')
    .command('token')
    .description('print the token of the local session')
    .action(does(raw, 'token'));
  program
    .command('config')
    .description('settings')
    .command('path')
    .description('print where config.toml lies')
    .action(does(raw, 'configPath'));
  return program;
}

/** Paths are the workspace's own; without -w it is the one in the current directory. */
function fileCommands(files: Command, does: Does): void {
  const load = () => import('./commands/files.ts');
  const at = (command: Command) => command.option('-w, --workspace <workspace>', 'not the one in this directory');
  const ifMatch = 'only if the file has this ETag; * for whatever is there, "absent" to make it';
  at(listing(files.command('ls')))
    .description('list a folder')
    .argument('[path]', 'a folder of the workspace', '')
    .option('-R, --recursive', 'everything below it')
    .option('--query <text>', 'only what has this in its path, at any depth')
    .action(does(load, 'ls'));
  at(files.command('cat')).description('print a file').argument('<path>').action(does(load, 'cat'));
  at(files.command('put'))
    .description('write a file, of up to 25 MiB')
    .argument('<path>')
    .argument('[file]', 'where the bytes are; - or nothing reads standard input')
    .option('--if-match <etag>', ifMatch)
    .option('--executable', 'make it executable')
    .option('--no-executable', 'make it not executable')
    .option('--idempotency-key <key>', 'the same key writes once')
    .action(does(load, 'put'));
  at(files.command('rm'))
    .description('delete a file')
    .argument('<path>')
    .option('--if-match <etag>', ifMatch)
    .action(does(load, 'remove'));
  at(files.command('edit'))
    .description('edit a file in $EDITOR, and write it back if nobody else changed it')
    .argument('<path>')
    .action(does(load, 'edit'));
}

/** Trees as they were; without -w those of the workspace in the current directory. */
function checkpointCommands(program: Command, does: Does): void {
  const load = () => import('./commands/checkpoints.ts');
  const at = (command: Command) => command.option('-w, --workspace <workspace>', 'not the one in this directory');
  at(shown(program.command('checkpoint')))
    .description('keep all files as they are now')
    .option('-m, --message <name>', 'what to call it')
    .action(does(load, 'create'));
  const group = program.command('checkpoints').description('workspaces as they were');
  at(listing(group.command('ls')))
    .description('list checkpoints, newest first')
    .action(does(load, 'ls'));
  at(shown(group.command('show')))
    .description('everything about a checkpoint')
    .argument('<checkpoint>')
    .action(does(load, 'show'));
  at(shown(group.command('diff')))
    .description('what has changed since a checkpoint, or up to another one')
    .argument('<checkpoint>')
    .argument('[other]', 'the files as they are now when it is left out')
    .action(does(load, 'compare'));
  at(group.command('rm')).description('remove a checkpoint').argument('<checkpoint>').action(does(load, 'remove'));
  at(program.command('restore'))
    .description('make the files what they were at a checkpoint; what is there is kept first')
    .argument('<checkpoint>', 'its id, its name, or @last')
    .argument('[paths...]', 'only these and what is below them, from the workspace’s root')
    .option('--dry-run', 'only say what would be done')
    .action(does(load, 'restore'));
  at(program.command('undo'))
    .description('make the files what they were before the latest run here, or before this run')
    .argument('[run]')
    .option('--dry-run', 'only say what would be done')
    .action(does(load, 'undo'));
  at(program.command('diff'))
    .description('what the latest run here, or this run, changed in the files')
    .argument('[run]')
    .action(does(load, 'diff'));
}
