import { Fault } from '../api/error.ts';
import type { StoredEvent } from '../api/events.ts';
import type { Page } from '../api/common.ts';
import type { Db, Tx } from '../base/db.ts';
import { type Paging, toPage } from '../base/page.ts';
import { createSignal } from '../base/signal.ts';
import { type Announcement, announcementOf } from './announcements.ts';
import { createStore } from './store.ts';

/** What the log must know of a run to write for it. */
export interface RunRef {
  key: number;
  id: string;
  session_id: string;
  last_sequence: number;
}

/** Events of a run as one block of text/event-stream. */
export interface Block {
  bytes: Buffer;
  /** How many events. */
  count: number;
  /** The sequence of its last event. */
  last: number;
  /** Nothing comes after it. */
  terminal: boolean;
}

/**
 * The one log of what happened. Events get their place (1, 2, 3 … per run) in the transaction that stores them; whoever
 * follows a run is woken after the commit and reads for itself.
 */
export function createEvents({ db }: { db: Db }) {
  const store = createStore(db);
  const appended = createSignal<number>();
  const announced = createSignal<'announced'>();

  const announce = (tx: Tx, announcement: Omit<Announcement, 'key'>): void => {
    store.announce(announcement);
    tx.after(() => announced.wake('announced'));
  };

  return {
    /**
     * Appends events, given as JSON text that starts with `{"type":"<type>",`, and answers the run's new last sequence,
     * which the caller keeps with the run.
     */
    append(tx: Tx, run: RunRef, texts: string[]): number {
      let sequence = run.last_sequence;
      for (const text of texts) {
        sequence += 1;
        const type = text.slice(9, text.indexOf('"', 9));
        const head = `{"id":"${sequence}","sequence":${sequence},"run_id":"${run.id}","session_id":"${run.session_id}",`;
        store.add(run.key, sequence, type, head + text.slice(1));
        const announcement = announcementOf(type, text);
        if (announcement) announce(tx, { ...announcement, run_id: run.id });
      }
      if (texts.length > 0) tx.after(() => appended.wake(run.key));
      return sequence;
    },

    /**
     * A page of a run's history after a sequence, oldest first; null begins with the oldest that is kept. Throws
     * `cursor_expired` when some of what is asked for is gone.
     */
    page(run: RunRef, after: number | null, paging: Paging): Page<StoredEvent> {
      if (after !== null) this.assertRetained(run, after);
      const rows = store.page(run.key, after ?? 0, paging.limit + 1);
      return toPage(rows, paging, ({ body }) => JSON.parse(body) as StoredEvent);
    },

    /** The next events after a sequence, as they are stored. */
    stretch: (run: number, after: number, limit: number): { sequence: number; type: string; body: string }[] =>
      store.stretch(run, after, limit),

    /** The next events after a sequence as one block, or undefined when there are none yet. */
    block(run: number, after: number, limit: number): Block | undefined {
      const { bytes, count, last, terminal } = store.block(run, after, limit);
      return bytes === null ? undefined : { bytes, count, last, terminal: terminal === 1 };
    },

    /** Throws `cursor_expired` with the retained bounds when events after this sequence have been trimmed away. */
    assertRetained(run: RunRef, after: number): void {
      const oldest = store.oldest(run.key);
      if (oldest !== null && after < oldest - 1)
        throw new Fault('cursor_expired', `Events up to ${oldest - 1} are no longer kept. Go on after ${oldest - 1}.`, {
          details: { oldest_sequence: oldest, newest_sequence: run.last_sequence },
        });
    },

    /** Calls back after each commit that appended to this run (its integer key); the answer ends that. */
    follow: appended.follow,

    /**
     * Tells those outside of something that no run's history has. What a run's events say is announced when they are appended.
     */
    announce,

    /** The oldest announcements that nobody has taken, in the order of their commits, whichever run they come from. */
    announcements: store.announcements,

    /** Whoever reads them has stored what comes of them, in this transaction: announcements up to this key go. */
    forgetAnnouncements: (_tx: Tx, key: number): number => store.forgetAnnouncements(key),

    /** Calls back after each commit that announced something; the answer ends that. */
    followAnnouncements: (callback: () => void): (() => void) => announced.follow('announced', callback),

    /** Removes up to `limit` of a run's events that come before a sequence; answers how many. */
    trim: (run: number, before: number, limit: number): number => store.trim(run, before, limit),
  };
}
export type Events = ReturnType<typeof createEvents>;
