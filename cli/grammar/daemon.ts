import type { Command } from 'commander';
import { type Does, seconds } from '../options.ts';

/** The daemon itself. */
export function daemonCommands(program: Command, does: Does): void {
  const daemon = () => import('../commands/daemon.ts');
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
    .action(does(() => import('../commands/doctor.ts'), 'doctor'));
  program
    .command('version')
    .description('print the versions of this program and of the daemon')
    .action(does(daemon, 'version'));
}
