import type { Command } from 'commander';
import { type Does, listing, seconds, several, shown } from '../options.ts';

/** Who is told what happens. */
export function webhookCommands(program: Command, does: Does): void {
  const endpoints = () => import('../commands/webhooks.ts');
  const deliveries = () => import('../commands/deliveries.ts');
  const types = 'of these types, separated by commas; * for all';
  program.commandsGroup('Webhooks:');
  const hooks = program.command('webhooks').description('addresses that are told what happens');
  listing(hooks.command('ls'))
    .description('list endpoints')
    .option('-a, --all', 'those that were removed, too')
    .action(does(endpoints, 'ls'));
  shown(hooks.command('add'))
    .description('register an address; its signing secret is shown this once')
    .argument('<url>')
    .option('--events <list>', types)
    .option('--description <text>')
    .action(does(endpoints, 'add'));
  shown(hooks.command('show'))
    .description('everything about an endpoint')
    .argument('<endpoint>')
    .action(does(endpoints, 'show'));
  shown(hooks.command('edit'))
    .description('change an endpoint')
    .argument('<endpoint>')
    .option('--url <url>')
    .option('--events <list>', types)
    .option('--description <text>')
    .option('--enable', 'send to it again')
    .option('--disable', 'send nothing more to it')
    .action(does(endpoints, 'edit'));
  hooks
    .command('rm')
    .description('send nothing more to an endpoint, and forget it later')
    .argument('<endpoint>')
    .action(does(endpoints, 'remove'));
  hooks
    .command('rotate')
    .description('make a new signing secret; it is shown this once')
    .argument('<endpoint>')
    .option('--overlap <time>', 'how long the old one signs as well, such as 24h', seconds)
    .action(does(endpoints, 'rotate'));
  hooks
    .command('test')
    .description('send an endpoint an event, and say whether it arrived')
    .argument('<endpoint>')
    .action(does(endpoints, 'test'));
  hooks
    .command('listen')
    .description('print events as they come, until Ctrl-C')
    .option('--forward <url>', 'and pass each on to this address, with its signature')
    .option('--events <list>', types)
    .action(does(() => import('../commands/listen.ts'), 'listen'));
  hooks
    .command('verify')
    .description('check the signature of a delivery; the secret is read from AGENTCTL_WEBHOOK_SECRET or a file')
    .argument('[body]', 'a file with the body as it came; - or nothing reads standard input')
    .requiredOption('--id <id>', 'the header Webhook-Id')
    .requiredOption('--timestamp <seconds>', 'the header Webhook-Timestamp')
    .requiredOption('--signature <text>', 'the header Webhook-Signature')
    .option('--secret-file <path>', 'a file with the signing secret')
    .option('--tolerance <time>', 'how old it may be; 5m when absent', seconds)
    .action(does(endpoints, 'verifyDelivery'));

  const sent = program.command('deliveries').description('what was sent to webhooks, and what came of it');
  listing(sent.command('ls'))
    .description('list deliveries, newest first')
    .option('--status <list>', 'only these, separated by commas')
    .option('--endpoint <endpoint>', 'only to this one')
    .option('--event <list>', 'only events of these types')
    .action(does(deliveries, 'ls'));
  shown(sent.command('show'))
    .description('a delivery and its attempts')
    .argument('<delivery>')
    .action(does(deliveries, 'show'));
  sent
    .command('replay')
    .description('deliver again: these, or with --since all that were given up')
    .argument('[deliveries...]')
    .option('--since <time>', 'what was made in this time and has not arrived, such as 2h', seconds)
    .option('--endpoint <endpoint>', 'with --since: only to this one', several)
    .action(does(deliveries, 'replay'));
}
