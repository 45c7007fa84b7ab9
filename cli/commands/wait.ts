import type { ReplyOf } from '../../src/api/client.ts';
import type { Context } from '../context.ts';
import { exit, exitOfRun } from '../exit.ts';
import { idOf } from '../ids.ts';
import { runLook } from '../words.ts';

/** `agentctl wait RUN…`: ends when all have ended; the code is that of the first that did not complete. */
export async function wait(context: Context, options: { timeout?: number }, texts: string[]): Promise<number> {
  const { out, flags } = context;
  const client = await context.client();
  const ids: string[] = [];
  for (const text of texts) ids.push(await idOf(client, 'run', text));
  const abort = new AbortController();
  let waitedOut = false;
  let interrupted = false;
  const timer =
    options.timeout === undefined
      ? undefined
      : setTimeout(() => {
          waitedOut = true;
          abort.abort();
        }, options.timeout * 1000);
  process.once('SIGINT', () => {
    interrupted = true;
    abort.abort();
  });
  const one = async (run_id: string): Promise<ReplyOf<'getRun'>> => {
    const before = await client.call('getRun', { path: { run_id } });
    if (runLook[before.status] && !['completed', 'failed', 'cancelled'].includes(before.status)) {
      for await (const event of client.follow(run_id, { after: before.last_sequence, signal: abort.signal })) {
        if (event.type === 'input.requested' && flags.input === false) break;
      }
    }
    return abort.signal.aborted ? before : client.call('getRun', { path: { run_id } });
  };
  const runs = await Promise.all(ids.map(one));
  clearTimeout(timer);
  if (interrupted) return exit.interrupted;
  if (waitedOut) {
    out.note(`Not ended after ${options.timeout} s. The runs go on.`);
    return exit.waitedOut;
  }
  if (out.isJson) out.json(runs.length === 1 ? runs[0] : { data: runs, next_cursor: null });
  else for (const { id, status } of runs) out.print(out.quiet ? id : `${id}  ${runLook[status].word}`);
  const codes = runs.map((run) => (run.status === 'awaiting_input' ? exit.waiting : exitOfRun(run)));
  return codes.find((code) => code !== 0) ?? exit.good;
}
