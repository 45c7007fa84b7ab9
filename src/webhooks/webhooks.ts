import { type Clock, iso } from '../base/clock.ts';
import type { Config } from '../base/config.ts';
import { crashPoint } from '../base/crash.ts';
import type { Db } from '../base/db.ts';
import type { Logger } from '../base/log.ts';
import { createLoop } from '../base/loop.ts';
import type { Secrets } from '../base/secrets.ts';
import type { Events } from '../events/events.ts';
import type { Operations } from '../operations/operations.ts';
import { createDeliveries, type RunAbout } from './deliveries.ts';
import { createDestinations, type Resolve, systemResolve } from './destinations.ts';
import { createEndpoints } from './endpoints.ts';
import { createSender } from './sender.ts';
import { createStore } from './store.ts';

interface Needs {
  db: Db;
  clock: Clock;
  log: Logger;
  config: Config;
  events: Events;
  operations: Operations;
  secrets: Secrets;
  resolve?: Resolve;
  runOf(id: string): RunAbout | undefined;
}

const day = 86_400_000;
/** Announcements read, and rows removed, in one transaction, so that nobody waits long for it. */
const batch = 500;
/** Turns of the event loop in which outcomes are gathered before they are written down together. */
const turns = 8;
const tidyEvery = 3_600_000;

/**
 * Webhooks: reads what was announced, makes deliveries of it, and sends them until they have arrived. Nothing that happens here
 * can be seen from a run.
 */
export function createWebhooks(needs: Needs) {
  const { db, clock, log, config, events, operations, secrets, resolve = systemResolve, runOf } = needs;
  const store = createStore(db);
  const ownPorts = new Set<number>();
  const destinations = createDestinations({ allowPrivate: config.webhooks.allow_private, resolve, ownPorts });
  const changed = () => loop.wake();
  const endpoints = createEndpoints({ clock, store, secrets, destinations });
  const deliveries = createDeliveries({ clock, store, endpoints, operations, runOf, changed });
  const sender = createSender({ db, clock, log, store, endpoints, destinations, events, changed });
  let tidied = -Infinity;

  /** Reads announcements on from the last that was read; what comes of them is stored in the transaction that removes them. */
  const read = (): boolean => {
    const some = events.announcements(batch);
    const last = some.at(-1);
    if (!last) return false;
    const enabled = store.enabled();
    crashPoint('webhook', 'read');
    db.write((tx) => {
      for (const announcement of some) deliveries.spread(tx, announcement, enabled);
      events.forgetAnnouncements(tx, last.key);
      crashPoint('webhook', 'before_spread');
    });
    crashPoint('webhook', 'spread');
    return some.length === batch;
  };

  /** Forgets deliveries that were over long ago, with their events and the endpoints that were deleted. */
  const tidy = async (): Promise<void> => {
    const before = iso(clock.now() - config.events.retention_days * day);
    for (const remove of [store.removeOld, store.removeOldEvents])
      while (db.write(() => remove(before, batch)) === batch) await new Promise(setImmediate);
    db.write(() => {
      store.removeDeleted(before);
      store.removeExpiredSecrets(iso(clock.now()));
    });
  };

  const loop = createLoop({
    name: 'webhooks',
    clock,
    log,
    async step() {
      // A commit costs as much as many attempts: those that are about to end are waited for.
      for (let turn = 0; turn < turns && sender.hasMore(); turn++) await new Promise(setImmediate);
      sender.record();
      while (read()) await new Promise(setImmediate);
      const soonest = sender.start();
      if (clock.now() - tidied >= tidyEvery) {
        tidied = clock.now();
        await tidy();
      }
      const hourly = tidied + tidyEvery - clock.now();
      return soonest === null ? hourly : Math.min(soonest, hourly);
    },
  });
  const unfollow = events.followAnnouncements(changed);

  const { find: _f, disable: _d, signing: _s, ...resource } = endpoints;
  return {
    loop,
    endpoints: resource,
    deliveries,

    /** This daemon listens on a port: nothing is ever sent there. */
    listensOn(port: number): void {
      ownPorts.add(port);
    },

    /** Resolves when nothing is under way. */
    async settle(): Promise<void> {
      do {
        await sender.settle();
        await loop.settle();
      } while (sender.busy());
    },

    /** Breaks off what is under way; after a restart it is sent again. */
    async close(): Promise<void> {
      unfollow();
      await loop.stop();
      await sender.close();
      try {
        sender.record();
      } catch (error) {
        log.error({ err: error }, 'The last deliveries could not be noted; they are made again.');
      }
    },
  };
}
export type Webhooks = ReturnType<typeof createWebhooks>;
