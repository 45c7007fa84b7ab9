import { sign } from '../api/signature.ts';
import type { Delivery, DeliveryAttempt } from '../api/webhooks.ts';
import { type Clock, iso } from '../base/clock.ts';
import { crashPoint } from '../base/crash.ts';
import type { Db, Tx } from '../base/db.ts';
import type { Logger } from '../base/log.ts';
import { version } from '../base/root.ts';
import type { Events } from '../events/events.ts';
import type { Destinations } from './destinations.ts';
import type { Endpoints } from './endpoints.ts';
import { exchange, type Outcome } from './exchange.ts';
import { isGone, isGood, next, patience } from './schedule.ts';
import type { EndpointRow, WebhookStore } from './store.ts';

interface Needs {
  db: Db;
  clock: Clock;
  log: Logger;
  store: WebhookStore;
  endpoints: Endpoints;
  destinations: Destinations;
  events: Events;
  /** An attempt is over: its outcome is to be written down, and there is room for another one. */
  changed(): void;
}

/**
 * Exchanges at once with one endpoint; with one at which nothing arrives; and with all, where the first of each endpoint does not
 * count: however many hang, another one still has its turn.
 */
const perEndpoint = 4;
const perFailing = 1;
const inAll = 64;

interface Finished {
  delivery: Delivery;
  outcome: Outcome;
  began: number;
  lasted: number;
}

/** Sends what is due. Outcomes are written down by `record`, several in one transaction. */
export function createSender({ db, clock, log, store, endpoints, destinations, events, changed }: Needs) {
  const sending = new Map<string, { endpoint: string; done: Promise<void> }>();
  const breaking = new AbortController();
  let finished: Finished[] = [];

  const attempt = async (endpoint: EndpointRow, delivery: Delivery): Promise<void> => {
    const began = clock.now();
    const from = clock.monotonic();
    const timestamp = String(Math.floor(began / 1_000));
    const body = Buffer.from(store.bodyOf(delivery.event_id));
    let outcome: Outcome | undefined;
    try {
      const signature = sign(endpoints.signing(endpoint.id), { id: delivery.event_id, timestamp, body });
      crashPoint('webhook', 'before_send');
      outcome = await exchange({
        clock,
        body,
        signal: breaking.signal,
        destination: () => destinations.check(endpoint.url, endpoint),
        headers: {
          'content-type': 'application/json',
          'content-length': String(body.length),
          'user-agent': `agentctl/${version}`,
          'webhook-id': delivery.event_id,
          'webhook-timestamp': timestamp,
          'webhook-signature': signature,
          'webhook-delivery-id': delivery.id,
          'webhook-attempt': String(delivery.attempt_count + 1),
        },
      });
    } catch (error) {
      log.error({ delivery: delivery.id, err: error }, 'A delivery could not be attempted.');
      outcome = { kind: 'failed', code: 'internal_error', message: 'This failed inside agentctl.' };
    }
    crashPoint('webhook', 'sent');
    // Broken off by the end of the daemon: it is due as before.
    if (outcome) finished.push({ delivery, outcome, began, lasted: clock.monotonic() - from });
  };

  const write = (tx: Tx, { delivery, outcome, began, lasted }: Finished): void => {
    const number = delivery.attempt_count + 1;
    const now = clock.now();
    const at = iso(now);
    const { status, next: due } = next(number, outcome, now, clock.random(4).readUInt32BE() / 2 ** 32);
    const done: DeliveryAttempt = {
      number,
      at: iso(began),
      duration_ms: Math.round(lasted),
      response_status: outcome.status ?? null,
      response_excerpt: outcome.excerpt ?? null,
      error: outcome.kind === 'failed' ? { code: outcome.code, message: outcome.message } : null,
    };
    const isOpen = store.updateOpen(delivery.id, {
      status,
      attempt_count: number,
      attempts: [...delivery.attempts, done],
      next_attempt_at: due === null ? null : iso(due),
      updated_at: at,
    });
    const endpoint = store.findEndpoint(delivery.endpoint_id);
    if (!isOpen || endpoint?.status !== 'enabled') return;
    if (isGood(outcome)) {
      if (endpoint.failing_since !== null) store.updateEndpoint(endpoint.id, { failing_since: null });
      return;
    }
    const since = endpoint.failing_since ?? at;
    if (endpoint.failing_since === null) store.updateEndpoint(endpoint.id, { failing_since: since });
    const reason = isGone(outcome) ? 'gone' : Date.parse(since) <= now - patience ? 'failing' : undefined;
    if (!reason) return;
    endpoints.disable(endpoint.id, reason);
    log.warn({ endpoint: endpoint.id, reason }, 'A webhook endpoint was disabled.');
    events.announce(tx, {
      organization_id: endpoint.organization_id,
      run_id: null,
      type: 'webhook_endpoint.disabled',
      created_at: at,
      data: { object: 'webhook_endpoint', id: endpoint.id, reason },
    });
  };

  return {
    /** Writes down what has come of attempts. Throws what the store throws; nothing is lost by that. */
    record(): void {
      if (finished.length === 0) return;
      crashPoint('webhook', 'before_record');
      const batch = finished;
      db.write((tx) => {
        for (const one of batch) write(tx, one);
      });
      finished = [];
      for (const { delivery } of batch) sending.delete(delivery.id);
      crashPoint('webhook', 'recorded');
    },

    /** Begins what is due and has room. Answers in how many milliseconds the next is due, or null. */
    start(): number | null {
      const now = clock.now();
      const at = iso(now);
      let soonest: number | null = null;
      const enabled = store.enabled();
      // Whoever has fewest under way comes first, so that those who hang keep nobody waiting.
      const busy = (id: string) => [...sending.values()].filter(({ endpoint }) => endpoint === id).length;
      for (const { endpoint, under } of enabled
        .map((endpoint) => ({ endpoint, under: busy(endpoint.id) }))
        .toSorted((a, b) => a.under - b.under)) {
        const most = endpoint.failing_since === null ? perEndpoint : perFailing;
        const room = Math.min(most - under, Math.max(under === 0 ? 1 : 0, inAll - sending.size));
        const next = store.nextDue(endpoint.id, at);
        if (next !== null) soonest = Math.min(soonest ?? Infinity, Date.parse(next) - now);
        if (room <= 0) continue;
        const waiting = store.due(endpoint.id, at, room + under).filter(({ id }) => !sending.has(id));
        for (const delivery of waiting.slice(0, room)) {
          const done = attempt(endpoint, delivery).then(changed);
          sending.set(delivery.id, { endpoint: endpoint.id, done });
        }
      }
      return soonest;
    },

    /** Resolves when no exchange is under way. */
    async settle(): Promise<void> {
      await Promise.all([...sending.values()].map(({ done }) => done));
    },

    /** Whether some have ended and others have not. */
    hasMore: (): boolean => finished.length > 0 && finished.length < sending.size,

    busy: (): boolean => sending.size > 0,

    /** Breaks off what is under way: it is due as before. */
    async close(): Promise<void> {
      breaking.abort();
      await Promise.all([...sending.values()].map(({ done }) => done));
    },
  };
}
