import type { Command } from 'commander';
import { type Does, listing } from '../options.ts';

/** Agents, harnesses and models. */
export function agentCommands(program: Command, does: Does): void {
  const server = () => import('../commands/server.ts');
  program.commandsGroup('Agents and models:');
  listing(program.command('harnesses'))
    .description('the agents there are, and which are installed')
    .action(does(server, 'harnesses'));
  listing(program.command('models'))
    .description('the models that are known, with their prices')
    .action(does(server, 'models'));
}
