import { type Command, Option } from 'commander';
import { type Does, listing, money, shown } from '../options.ts';

/** What was used, and what there is to spend. */
export function moneyCommands(program: Command, does: Does): void {
  const load = () => import('../commands/usage.ts');
  program.commandsGroup('Money:');
  listing(program.command('usage'))
    .description('what was used, by day and by whom')
    .option('--by <list>', 'project, workspace, session, agent, harness, model, api_key, billing_mode')
    .option('--from <time>', 'a day such as 2026-11-01, or 7d ago; without it this month')
    .option('--to <time>', 'before this day or time; without it until now')
    .addOption(new Option('--bucket <stretch>', 'how long a row is').choices(['total', 'hour', 'day', 'month']))
    .option('--csv', 'for a spreadsheet')
    .action(does(load, 'usage'));
  const credits = shown(program.command('credits')).description('what there is to spend on managed runs');
  credits.action(does(load, 'credits'));
  credits
    .command('grant')
    .description('add to the credits')
    .argument('<amount>', 'US dollars, such as 20', money)
    .option('--note <text>')
    .action(does(load, 'grant'));
  listing(credits.command('ledger')).description('what happened to them').action(does(load, 'ledger'));
}
