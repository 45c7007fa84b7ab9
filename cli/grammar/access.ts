import type { Command } from 'commander';
import { type Does, listing, seconds, shown } from '../options.ts';

/** Credentials and organizations. */
export function accessCommands(program: Command, does: Does): void {
  const keys = () => import('../commands/keys.ts');
  const orgs = () => import('../commands/orgs.ts');
  const auth = () => import('../commands/auth.ts');
  program.commandsGroup('Who may call:');
  const keyGroup = program.command('keys').description('API keys, for scripts and other programs');
  listing(keyGroup.command('ls')).description('list keys, revoked ones too').action(does(keys, 'ls'));
  shown(keyGroup.command('new'))
    .description('make a key; it is shown this once')
    .argument('<name>')
    .requiredOption('--scope <list>', 'what it may do, separated by commas; all for everything')
    .option('--expires <time>', 'for how long, such as 90d; for ever without it', seconds)
    .action(does(keys, 'create'));
  keyGroup.command('revoke').description('take a key’s rights away').argument('<key>').action(does(keys, 'revoke'));

  const orgGroup = program.command('orgs').description('organizations, to keep things apart');
  listing(orgGroup.command('ls')).description('list your organizations').action(does(orgs, 'ls'));
  shown(orgGroup.command('new'))
    .description('make an organization')
    .argument('<name>')
    .option('--prepaid', 'managed runs are paid from credits')
    .action(does(orgs, 'create'));
  orgGroup
    .command('use')
    .description('which one commands act in from now on')
    .argument('<organization>')
    .action(does(orgs, 'use'));
  orgGroup
    .command('rename')
    .description('give it another name')
    .argument('<organization>')
    .argument('<name>')
    .action(does(orgs, 'rename'));
  const members = orgGroup.command('members').description('users of OAuth issuers who may act in it');
  listing(members.command('ls')).description('list members').argument('<organization>').action(does(orgs, 'members'));
  members
    .command('add')
    .description('let a user of an issuer act in it')
    .argument('<organization>')
    .argument('<issuer>', '`iss` of the tokens')
    .argument('<subject>', '`sub` of the tokens')
    .option('--name <name>', 'what to call the user')
    .action(does(orgs, 'addMember'));
  members
    .command('rm')
    .description('take a member out')
    .argument('<organization>')
    .argument('<user>', 'the id that `members ls` shows')
    .action(does(orgs, 'removeMember'));

  const authGroup = program.command('auth').description('the local session');
  authGroup.command('token').description('print the token of the local session').action(does(auth, 'token'));
  authGroup
    .command('rotate')
    .description('replace the token; whoever has the old one, browsers too, is out')
    .action(does(auth, 'rotate'));
  program
    .command('open')
    .description('open the API reference in your browser, signed in')
    .option('--print', 'only print the address; it is good for one use within a minute')
    .action(does(auth, 'openPage'));
}
