import type { Command } from 'commander';
import { type Does, listing, shown } from '../options.ts';

/** Trees as they were; without -w those of the workspace in the current directory. */
export function checkpointCommands(program: Command, does: Does): void {
  const load = () => import('../commands/checkpoints.ts');
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
