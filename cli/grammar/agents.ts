import { type Command, Option } from 'commander';
import { type Does, listing, money, pairs, seconds, shown, whole } from '../options.ts';

/** Agents, harnesses and models. */
export function agentCommands(program: Command, does: Does): void {
  const server = () => import('../commands/server.ts');
  program.commandsGroup('Agents and models:');
  const load = () => import('../commands/agents.ts');
  const group = program
    .command('agents')
    .description('what you have agents do again and again: definitions in revisions');
  listing(group.command('ls'))
    .description('list agents')
    .option('-a, --all', 'archived ones too')
    .action(does(load, 'ls'));
  defining(shown(group.command('new')).argument('<name>'))
    .description('define an agent')
    .action(does(load, 'create'));
  shown(group.command('show'))
    .description('everything about an agent')
    .argument('<agent>')
    .option('--revision <n>', 'as it was then', whole)
    .action(does(load, 'show'));
  defining(shown(group.command('edit')).argument('<agent>').option('--name <name>'))
    .description('make its next revision; without options its instructions, in $EDITOR')
    .action(does(load, 'edit'));
  listing(group.command('revisions'))
    .description('how it came to be what it is')
    .argument('<agent>')
    .action(does(load, 'revisions'));
  group
    .command('diff')
    .description('what differs between two revisions; the newest two, unless named')
    .argument('<agent>')
    .argument('[from]')
    .argument('[to]')
    .action(does(load, 'diff'));
  group
    .command('rm')
    .description('archive it; sessions that began with it go on')
    .argument('<agent>')
    .action(does(load, 'remove'));
  program
    .command('apply')
    .description('make agents what a file says, by name')
    .requiredOption('-f, --file <path>', 'JSON: one agent, or a list; - reads standard input')
    .action(does(load, 'apply'));
  const install = () => import('../commands/harness-install.ts');
  const harnesses = listing(program.command('harnesses'))
    .description('the agents there are, and which are installed')
    .action(does(server, 'harnesses'));
  harnesses
    .command('install')
    .description('install claude, codex, gemini or opencode for agentctl alone, with npm')
    .argument('<id>')
    .action(does(install, 'installHarness'));
  harnesses
    .command('uninstall')
    .description('take away what install brought')
    .argument('<id>')
    .action(does(install, 'uninstallHarness'));
  listing(program.command('models'))
    .description('the models that are known, with their prices')
    .action(does(server, 'models'));
}

/** The options that say what an agent is; an empty text takes a value away. */
const defining = (command: Command): Command =>
  command
    .option('--description <text>')
    .option('--harness <name>', 'which harness; the configured one when there is none')
    .option('-m, --model <model>', 'which model')
    .option('--instructions <text>', 'what it is told before the first prompt')
    .option('--file <path>', 'a file with the instructions; - reads standard input')
    .option('--max-cost <usd>', 'stop a run at this cost', money)
    .option('--max-turns <n>', 'stop a run after so many turns', whole)
    .option('--timeout <time>', 'stop a run after this time', seconds)
    .addOption(new Option('--permission <mode>', 'what it may do unasked').choices(['ask', 'accept-edits', 'full']))
    .addOption(new Option('--on-input <what>', 'when it asks something').choices(['ask', 'reject', 'fail']))
    .option('--label <name=value>', 'metadata, may be repeated', pairs);
