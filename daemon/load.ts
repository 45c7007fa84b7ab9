import { Fault } from '../src/api/error.ts';
import type { Clock } from '../src/base/clock.ts';
import type { Config } from '../src/base/config.ts';

/** How often the daemon looks whether it keeps up, in milliseconds. */
const lookEvery = 500;

/**
 * Sheds load before the daemon falls over: with too many requests at work, or when it was late twice in a row with its own clock,
 * new ones are told to come back (503). What has begun is finished.
 */
export function createLoad(clock: Clock, { waiting_requests, delay_ms }: Config['limits']) {
  let working = 0;
  let late = 0;
  const look = () => {
    const due = clock.monotonic() + lookEvery;
    clock.timer(lookEvery, () => {
      late = clock.monotonic() - due > delay_ms ? late + 1 : 0;
      look();
    });
  };
  look();

  return {
    /** Does the work of a request. Throws `unavailable` instead when there is too much. */
    async carry<T>(work: () => Promise<T>): Promise<T> {
      if (working >= waiting_requests || late >= 2)
        throw new Fault('unavailable', 'The daemon has too much to do just now.', { headers: { 'retry-after': '1' } });
      working += 1;
      try {
        return await work();
      } finally {
        working -= 1;
      }
    },
  };
}
