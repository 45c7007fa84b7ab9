import type { Command } from 'commander';
import { type Does, listing } from '../options.ts';

/** Paths are the workspace's own; without -w it is the one in the current directory. */
export function fileCommands(files: Command, does: Does): void {
  const load = () => import('../commands/files.ts');
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
