import type { Command } from 'commander';
import { type Does, listing } from '../options.ts';

/** Agents, harnesses and models. */
export function agentCommands(program: Command, does: Does): void {
  const server = () => import('../commands/server.ts');
  program.commandsGroup('Agents and models:');
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
