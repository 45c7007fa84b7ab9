import type { Ending, Following } from './follow.ts';
import { followInLines } from './lines.ts';

/** How a run is shown while it is followed. */
export interface WatchOptions {
  /** Plain lines also on a terminal. */
  lines?: boolean;
  /** Takes the result instead of standard output. */
  result?: (text: string) => void;
}

/** Follows a run: the live view on a terminal, plain lines elsewhere. */
export async function watchRun(
  following: Following,
  { lines = false, result }: WatchOptions = {},
): Promise<{ ending: Ending; cancelledByUs: boolean }> {
  const { context, interrupt, runId } = following;
  const { out, stdin, flags, env } = context;
  const live = !lines && !out.isJson && out.streams.stdout.isTTY && stdin.isTTY && env.TERM !== 'dumb';
  if (live) {
    const { liveView } = await import('./tui/view.tsx');
    return liveView(following);
  }
  const leaving = interrupt === 'cancel' ? 'Ctrl-C cancels the run, twice leaves it' : 'Ctrl-C leaves; the run goes on';
  if (!out.isJson) out.note(out.paint('dim', `Run ${runId} · ${leaving}`));
  const noInput = flags.input === false;
  return followInLines({ ...following, json: out.isJson, noInput, ...(result ? { result } : {}) });
}
