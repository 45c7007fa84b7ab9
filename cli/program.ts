import { Command, CommanderError } from 'commander';
import { contextOf, type Flags, type Process } from './context.ts';
import { exit, report } from './exit.ts';
import { clean } from './text.ts';
import { accessCommands } from './grammar/access.ts';
import { agentCommands } from './grammar/agents.ts';
import { daemonCommands } from './grammar/daemon.ts';
import { humanCommands } from './grammar/human.ts';
import { moneyCommands } from './grammar/money.ts';
import { placeCommands } from './grammar/places.ts';
import { upkeepCommands } from './grammar/upkeep.ts';
import { webhookCommands } from './grammar/webhooks.ts';
import { workCommands } from './grammar/work.ts';
import type { Action, Does } from './options.ts';

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

/** Every command is described in `grammar` and loaded when it is used: `agentctl --help` reads none of them. */
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
    .option('--org <organization>', 'act in this one of several (also: AGENTCTL_ORG, `agentctl orgs use`)')
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

  workCommands(program, does);
  humanCommands(program, does);
  placeCommands(program, does);
  agentCommands(program, does);
  moneyCommands(program, does);
  accessCommands(program, does);
  webhookCommands(program, does);
  daemonCommands(program, does);
  upkeepCommands(program, does);
  return program;
}
