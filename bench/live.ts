import { draftText } from '../src/api/draft.ts';
import { now } from './measure.ts';

/** What the servers of P2 are asked: to append so many events to their run, one every so many milliseconds. */
export interface Append {
  events: number;
  every: number;
}
/** What they answer: when each sequence was on the disk. */
export interface Appended {
  commits: [sequence: number, at: number][];
}

/** The text of one live event, about 300 bytes once it is stored. */
export const liveText = (): string =>
  draftText({
    type: 'message.delta',
    source: 'harness',
    created_at: new Date().toISOString(),
    data: { message_id: 'm-1', text: 'and then it says some thirty words more, as such a model does' },
  });

/** Serves an `Append` of the parent: `commit` stores one event and answers its sequence and the moment after its commit. */
export function serveAppends(commit: () => [sequence: number, at: number]): void {
  process.on('disconnect', () => process.exit(0));
  process.on('message', (question: object) => {
    if (!('events' in question)) return;
    const { events, every } = question as Append;
    const commits: Appended['commits'] = [];
    const from = now();
    const next = () => {
      commits.push(commit());
      if (commits.length < events) setTimeout(next, Math.max(0, from + commits.length * every - now()));
      else process.send!({ commits } satisfies Appended);
    };
    next();
  });
}
