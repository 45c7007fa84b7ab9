import type { Command } from 'commander';
import { type Does, listing } from '../options.ts';

/** What agents ask a person. */
export function humanCommands(program: Command, does: Does): void {
  const inputs = () => import('../commands/inbox.ts');
  program.commandsGroup('Questions to you:');
  listing(program.command('inbox')).description('what waits for your answer').action(does(inputs, 'inbox'));
  program
    .command('answer')
    .description('answer a question')
    .argument('<request>', 'its id, or that of the run that asks')
    .option('--allow', 'allow it this once')
    .option('--always', 'allow it from now on; what exactly is said first')
    .option('--reject', 'do not allow it')
    .option('--option <id>', 'take this option')
    .option('--text <text>', 'answer with words')
    .action(does(inputs, 'answer'));
  const grants = () => import('../commands/grants.ts');
  const group = program.command('grants').description('what you have allowed for good');
  listing(group.command('ls'))
    .description('list them, newest first')
    .option('-p, --project <project>', 'only of this project')
    .action(does(grants, 'ls'));
  group.command('rm').description('take some back').argument('<grants...>').action(does(grants, 'remove'));
}
