import type { Command } from 'commander';
import { type Does, pairs } from '../options.ts';

/** The API by hand, credentials and settings. */
export function upkeepCommands(program: Command, does: Does): void {
  const raw = () => import('../commands/raw.ts');
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
    .command('df')
    .description('where the room on the disk goes')
    .action(does(() => import('../commands/storage.ts'), 'df'));
  program
    .command('gc')
    .description('remove expired checkpoints, and what no checkpoint needs any more; the daemon does so once a day')
    .option('--dry-run', 'only say what would be removed')
    .action(does(() => import('../commands/storage.ts'), 'gc'));
  program
    .command('config')
    .description('settings')
    .command('path')
    .description('print where config.toml lies')
    .action(does(raw, 'configPath'));
}
