import type { Client, Event } from '../src/api/client.ts';
import type { RunStatus, StopReason } from '../src/api/runs.ts';
import type { Context } from './context.ts';

/** How following a run came to its end. */
export type Ending =
  | { kind: 'ended'; status: RunStatus; stop_reason: StopReason | null; event: Event }
  /** The person left; the run goes on. `cancelling`: after asking for its cancellation. */
  | { kind: 'left'; cancelling: boolean }
  /** The run waits for an answer that this process may not ask for. */
  | { kind: 'waiting' };

/** What to follow, and how. */
export interface Following {
  context: Context;
  client: Client;
  runId: string;
  harness: string;
  after?: number;
  /** What Ctrl-C does first: `cancel` in `run`, `detach` in `attach` and `logs -f`. */
  interrupt: 'cancel' | 'detach';
}

const endings = { 'run.completed': 'completed', 'run.failed': 'failed', 'run.cancelled': 'cancelled' } as const;

/** The status that a terminal event stands for, null for the others. */
export function statusOf(event: Event): 'completed' | 'failed' | 'cancelled' | null {
  const { type } = event;
  return type === 'run.completed' || type === 'run.failed' || type === 'run.cancelled' ? endings[type] : null;
}

/** Follows a run until it ends, `each` seeing every event in order; Ctrl-C as `interrupt` says, a second one always leaves. */
export async function followRun(
  { context, client, runId, after, interrupt }: Following,
  each: (event: Event, control: { stop: (ending: Ending) => void }) => void | Promise<void>,
): Promise<{ ending: Ending; cancelledByUs: boolean }> {
  const { out } = context;
  const abort = new AbortController();
  let ending: Ending | undefined;
  let cancelledByUs = false;
  let lostTimer: NodeJS.Timeout | undefined;
  const stop = (with_: Ending) => {
    ending ??= with_;
    abort.abort();
  };
  const onInterrupt = () => {
    if (interrupt === 'detach' || cancelledByUs) return stop({ kind: 'left', cancelling: cancelledByUs });
    cancelledByUs = true;
    out.note('Cancelling … (Ctrl-C again leaves without waiting)');
    client
      .insist('cancelRun', { path: { run_id: runId }, body: {} })
      .catch((error: Error) => out.note(`The cancellation failed: ${error.message}`));
  };
  const onConnection = (state: 'open' | 'lost') => {
    if (state === 'lost') {
      lostTimer ??= setTimeout(() => {
        out.note(out.paint('yellow', 'No connection to the daemon for 10 s. The run goes on; trying again …'));
        lostTimer = undefined;
      }, 10_000);
      return;
    }
    clearTimeout(lostTimer);
    lostTimer = undefined;
  };
  const onGap = ({ from, to }: { from: number; to: number }) => out.note(`Events ${from} to ${to} are no longer kept.`);
  process.on('SIGINT', onInterrupt);
  try {
    for await (const event of client.follow(runId, { after: after ?? 0, signal: abort.signal, onConnection, onGap })) {
      await each(event, { stop });
      const status = statusOf(event);
      if (status) {
        const { stop_reason } = event.data as { stop_reason: StopReason };
        ending = { kind: 'ended', status, stop_reason, event };
      }
      if (ending) break;
    }
  } finally {
    clearTimeout(lostTimer);
    process.off('SIGINT', onInterrupt);
  }
  if (!ending) {
    // The stream said that there is nothing more (204): the run had ended before `after`.
    const { status, stop_reason, last_sequence } = await client.call('getRun', { path: { run_id: runId } });
    const page = await client.call('listRunEvents', {
      path: { run_id: runId },
      query: { after: String(last_sequence - 1) },
    });
    ending = { kind: 'ended', status, stop_reason, event: page.data.at(-1) as unknown as Event };
  }
  return { ending, cancelledByUs };
}
