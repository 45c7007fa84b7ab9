import { type Clock, iso } from '../base/clock.ts';
import type { Config } from '../base/config.ts';
import type { Db } from '../base/db.ts';
import type { Logger } from '../base/log.ts';
import { createLoop } from '../base/loop.ts';
import type { Events } from '../events/events.ts';
import type { Idempotency } from '../base/idempotency.ts';
import type { RunStore } from './store.ts';

interface Needs {
  db: Db;
  clock: Clock;
  log: Logger;
  config: Config;
  store: RunStore;
  events: Events;
  idempotency: Idempotency;
}

const every = 3_600_000;
const day = 86_400_000;
/** Rows removed in one transaction, so that nobody waits long for it. */
const batch = 5_000;

/** Trims the detailed history of runs that ended long ago, all but their last event (contract section 8). */
export function createRetention({ db, clock, log, config, store, events, idempotency }: Needs) {
  // What finished before this time has been seen to since the start.
  let done = '';

  const loop = createLoop({
    name: 'retention',
    clock,
    log,
    async step() {
      idempotency.expire();
      const cutoff = iso(clock.now() - config.events.retention_days * day);
      for (let after = 0; ;) {
        const runs = store.ended(done, cutoff, after, 100);
        for (const { key, last_sequence } of runs)
          while (db.write(() => events.trim(key, last_sequence, batch)) === batch) await new Promise(setImmediate);
        const last = runs.at(-1);
        if (!last) break;
        after = last.key;
        await new Promise(setImmediate);
      }
      done = cutoff;
      return every;
    },
  });
  return { loop };
}
