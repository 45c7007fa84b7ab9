import { type Command, Option } from 'commander';
import { type Does, listing, money, pairs, seconds, several, shown, whole } from '../options.ts';

/** Runs: to start, watch, list and end them. */
export function workCommands(program: Command, does: Does): void {
  const runs = () => import('../commands/runs.ts');
  program.commandsGroup('Work:');
  program
    .command('run')
    .description('start a run in this directory and follow it to its end')
    .argument('[prompt]', 'what to do; - reads standard input')
    .option('-p, --project <project>', 'in a new workspace of this project')
    .option('-w, --workspace <workspace>', 'in this workspace')
    .option('-s, --session <session>', 'as the next message of this session')
    .option('-c, --continue', 'as the next message of the latest session here')
    .option('-a, --agent <agent>', 'as this agent says (`agentctl agents ls`)')
    .option('-m, --model <model>', 'which model')
    .option('--harness <name>', 'which agent (`agentctl harnesses`); shell runs the prompt as a script')
    .option('--worktree', 'in a git worktree of its own, next to other runs')
    .option('--file <path>', 'read the prompt from a file')
    .option('--max-cost <usd>', 'stop at this cost, such as 0.50', money)
    .option('--timeout <time>', 'stop after this time, such as 20m', seconds)
    .option('-d, --detach', 'print the run’s id and come back at once')
    .addOption(
      new Option('--permission <mode>', 'what the agent may do unasked').choices(['ask', 'accept-edits', 'full']),
    )
    .addOption(new Option('--on-input <what>', 'when the agent asks something').choices(['ask', 'reject', 'fail']))
    .addOption(
      new Option('--billing <mode>', 'call models with a key of ours, or with the harness’s own login').choices([
        'managed',
        'external',
      ]),
    )
    .addOption(new Option('--sandbox <mode>', 'whether to run in a sandbox').choices(['auto', 'none', 'required']))
    .addOption(new Option('--network <policy>', 'what it reaches from the sandbox').choices(['allow', 'deny']))
    .option('--allow-host <host>', 'let it reach only this host (*.example.com: all below); may be repeated', several)
    .option('--artifact <glob>', 'keep these files when the run has ended; may be repeated', several)
    .option('--output-schema <file>', 'a JSON Schema that the answer must fit; the result is then that JSON')
    .option('-o, --output <file>', 'write the result to a file')
    .option('--idempotency-key <key>', 'the same key starts the same run once')
    .option('--webhook <endpoint>', 'tell only this endpoint of it; may be repeated', several)
    .option('--label <name=value>', 'metadata, may be repeated', pairs)
    .action(does(() => import('../commands/run.ts'), 'runCommand', { output: undefined }));
  program
    .command('attach')
    .description('follow a run live; leaving does not stop it')
    .argument('<run>')
    .action(does(() => import('../commands/attach.ts'), 'attach'));
  listing(program.command('ps'))
    .description('what is running and waiting')
    .option('-a, --all', 'finished runs too')
    .option('--status <list>', 'only these, separated by commas')
    .option('-w, --watch', 'keep the list up to date')
    .action(does(runs, 'ps'));
  program
    .command('logs')
    .description('what a run did, in plain lines; without a run the daemon’s log')
    .argument('[run]')
    .option('-f, --follow', 'go on with what comes')
    .option('--after <sequence>', 'only what came after this event', whole)
    .option('--raw', 'what the harness itself printed, and nothing else')
    .action(does(() => import('../commands/logs.ts'), 'logs'));
  program
    .command('wait')
    .description('wait until runs have ended; the exit code tells how')
    .argument('<runs...>')
    .option('--timeout <time>', 'give up after this time, with exit code 124', seconds)
    .action(does(() => import('../commands/wait.ts'), 'wait'));
  program.command('cancel').description('stop a run').argument('<runs...>').action(does(runs, 'cancel'));
  program
    .command('retry')
    .description('start a run again as it was, and follow it')
    .argument('<run>')
    .option('-d, --detach', 'print the new run’s id and come back at once')
    .action(does(() => import('../commands/run.ts'), 'retry'));
  program
    .command('send')
    .description('the next message of a session; it is followed to the end of its run')
    .argument('<session>')
    .argument('<text>')
    .option('--queue', 'while the session is at work: wait (as without this)')
    .option('--interrupt', 'while the session is at work: stop that first')
    .option('--reject', 'while the session is at work: do not send it')
    .option('-m, --model <model>', 'which model, for this once')
    .option('-d, --detach', 'print the run’s id and come back at once')
    .action(does(() => import('../commands/sessions.ts'), 'send'));
  program
    .command('export')
    .description('a run with its events and its result as one file')
    .argument('<run>')
    .addOption(new Option('--format <format>', 'json for programs, markdown for reading').choices(['json', 'markdown']))
    .option('-o, --output <file>', 'into this file')
    .action(does(() => import('../commands/export.ts'), 'exportRun', { output: undefined }));
  const runsGroup = program.command('runs').description('list runs and look into one');
  listing(runsGroup.command('ls'))
    .description('list runs, newest first')
    .option('--status <list>', 'only these, separated by commas')
    .option('-w, --workspace <workspace>', 'only of this workspace')
    .option('-p, --project <project>', 'only of this project')
    .option('-s, --session <session>', 'only of this session')
    .action(does(runs, 'ls'));
  shown(runsGroup.command('show')).description('everything about a run').argument('<run>').action(does(runs, 'show'));
  shown(runsGroup.command('result')).description('what came of a run').argument('<run>').action(does(runs, 'result'));
  runsGroup
    .command('events')
    .description('a run’s history, one event a line')
    .argument('<run>')
    .option('--after <sequence>', 'only what came after this event', whole)
    .action(does(runs, 'events'));
  const artifacts = () => import('../commands/artifacts.ts');
  listing(runsGroup.command('artifacts'))
    .description('what a run has left')
    .argument('<run>')
    .action(does(artifacts, 'ls'));
  const left = program.command('artifacts').description('what runs have left: files, diffs, transcripts, long output');
  listing(left.command('ls'))
    .description('list what a run has left')
    .argument('[run]', 'the latest one when it is left out')
    .action(does(artifacts, 'ls'));
  left
    .command('get')
    .description('write one into a file of its name')
    .argument('<artifact>', 'its path or name, or its id')
    .option('-r, --run <run>', 'not of the latest run')
    .option('-o, --output <file>', 'into this file; - prints it')
    .action(does(artifacts, 'get', { output: undefined }));
}
