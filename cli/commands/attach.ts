import type { Context } from '../context.ts';
import { idOf } from '../ids.ts';
import { watchRun } from '../watch.ts';
import { codeOf, conversation } from './run.ts';

/** `agentctl attach RUN`: the run from its beginning, then live. Leaving never stops it. */
export async function attach(context: Context, _: object, text: string): Promise<number> {
  const client = await context.client();
  const runId = await idOf(client, 'run', text);
  const { harness, session_id } = await client.call('getRun', { path: { run_id: runId } });
  if (!context.out.isJson) context.out.note(context.out.paint('dim', await conversation(client, session_id)));
  const { ending, cancelledByUs } = await watchRun({ context, client, runId, harness, interrupt: 'detach' });
  return codeOf(context, runId, ending, cancelledByUs);
}
