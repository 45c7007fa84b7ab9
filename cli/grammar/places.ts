import type { Command } from 'commander';
import { type Does, listing, seconds, shown, whole } from '../options.ts';
import { checkpointCommands } from './checkpoints.ts';
import { fileCommands } from './files.ts';

/** Projects, workspaces and sessions, and what is in them. */
export function placeCommands(program: Command, does: Does): void {
  const places = () => import('../commands/projects.ts');
  const workspaces = () => import('../commands/workspaces.ts');
  const sessions = () => import('../commands/sessions.ts');
  program.commandsGroup('Projects, workspaces, sessions:');
  const projects = program.command('projects').description('projects hold workspaces and their runs');
  listing(projects.command('ls'))
    .description('list projects')
    .option('-a, --all', 'archived ones too')
    .action(does(places, 'ls'));
  shown(projects.command('new'))
    .description('create a project')
    .argument('<name>')
    .option('--description <text>')
    .action(does(places, 'create'));
  shown(projects.command('show'))
    .description('everything about a project')
    .argument('<project>')
    .action(does(places, 'show'));
  projects
    .command('rename')
    .description('give it another name')
    .argument('<project>')
    .argument('<name>')
    .action(does(places, 'rename'));
  projects
    .command('archive')
    .description('put it away; files and history stay')
    .argument('<project>')
    .action(does(places, 'archive'));
  projects
    .command('rm')
    .description('archive it and remove it for good later')
    .argument('<project>')
    .option('--after <time>', 'how long one may change one’s mind', seconds)
    .action(does(places, 'remove'));
  const ws = program.command('workspaces').description('trees of files that runs work in');
  listing(ws.command('ls')).description('list workspaces').argument('[project]').action(does(workspaces, 'ls'));
  shown(ws.command('new'))
    .description('create a workspace; without more an empty one')
    .argument('<project>')
    .argument('[name]')
    .option('--directory <path>', 'this directory itself')
    .option('--copy', 'a copy of --directory, or of the current directory')
    .option('--worktree', 'a git worktree of --directory, or of the current directory')
    .option('--git <url#ref>', 'a clone, of a branch, tag or commit if one is named')
    .option('--depth <n>', 'with --git: so many commits of the history', whole)
    .option('--from-checkpoint <checkpoint>', 'what a workspace was at a checkpoint')
    .action(does(workspaces, 'create'));
  shown(ws.command('show'))
    .description('everything about a workspace')
    .argument('<workspace>')
    .action(does(workspaces, 'show'));
  ws.command('rename')
    .description('give it another name')
    .argument('<workspace>')
    .argument('<name>')
    .action(does(workspaces, 'rename'));
  ws.command('path').description('print where its files are').argument('<workspace>').action(does(workspaces, 'path'));
  ws.command('rm')
    .description('remove it later; your own directory is never touched')
    .argument('<workspace>')
    .option('--after <time>', 'how long one may change one’s mind', seconds)
    .option('--undo', 'take a removal back')
    .action(does(workspaces, 'remove'));
  checkpointCommands(program, does);
  fileCommands(program.command('files').description('the files of a workspace'), does);
  const sessionsGroup = program.command('sessions').description('conversations that go on over several runs');
  listing(sessionsGroup.command('ls'))
    .description('list sessions')
    .option('-w, --workspace <workspace>', 'only of this workspace')
    .action(does(sessions, 'ls'));
  shown(sessionsGroup.command('show'))
    .description('a session and its runs')
    .argument('<session>')
    .action(does(sessions, 'show'));
  shown(sessionsGroup.command('new'))
    .description('begin a conversation without a run, in this directory')
    .argument('[title]')
    .option('-w, --workspace <workspace>', 'in this workspace')
    .option('-p, --project <project>', 'in a new workspace of this project')
    .option('-a, --agent <agent>', 'with this agent')
    .option('--harness <name>', 'with this harness')
    .option('-m, --model <model>', 'with this model')
    .action(does(sessions, 'create'));
  sessionsGroup
    .command('rename')
    .description('give it another title')
    .argument('<session>')
    .argument('<title>')
    .action(does(sessions, 'rename'));
  sessionsGroup
    .command('archive')
    .description('put it away: it takes no more messages')
    .argument('<session>')
    .option('--undo', 'take it back')
    .action(does(sessions, 'archive'));
  shown(sessionsGroup.command('fork'))
    .description('go on from there beside it, with the files as they were after its latest run')
    .argument('<session>')
    .option('--run <run>', 'after this run instead')
    .option('--title <title>')
    .action(does(sessions, 'fork'));
}
