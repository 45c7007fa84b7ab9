import type { FastifyReply } from 'fastify';
import { Fault } from '../src/api/error.ts';
import type { App } from '../src/app.ts';

type Principal = Awaited<ReturnType<App['access']['authenticate']>>;

/** What is left of a credential's minute. */
interface Bucket {
  tokens: number;
  /** When `tokens` was right, by the clock that never goes back. */
  at: number;
}

/**
 * How much one credential may ask (contract section 1, `rate_limited`): a bucket of a minute's requests that fills again evenly.
 * Told with each answer as the `RateLimit` fields of draft-ietf-httpapi-ratelimit-headers-10. The local session, which is the
 * user, has no limit.
 */
export function createLimits({ config, clock }: App) {
  const quota = config.limits.requests_per_minute;
  const perMillisecond = quota / 60_000;
  const policy = `"minute";q=${quota};w=60`;
  const buckets = new Map<string, Bucket>();

  return {
    /** Counts a request and says in the answer's headers what is left. Throws `rate_limited`. */
    admit({ credential, id }: Principal, reply: FastifyReply): void {
      if (quota === 0 || credential === 'session') return;
      const now = clock.monotonic();
      const bucket = buckets.get(id) ?? { tokens: quota, at: now };
      buckets.set(id, bucket);
      bucket.tokens = Math.min(quota, bucket.tokens + (now - bucket.at) * perMillisecond);
      bucket.at = now;
      const admitted = bucket.tokens >= 1;
      if (admitted) bucket.tokens -= 1;
      const full = Math.ceil((quota - bucket.tokens) / perMillisecond / 1_000);
      void reply.headers({
        'ratelimit-policy': policy,
        ratelimit: `"minute";r=${Math.floor(bucket.tokens)};t=${full}`,
      });
      if (admitted) return;
      const seconds = Math.max(1, Math.ceil((1 - bucket.tokens) / perMillisecond / 1_000));
      throw new Fault(
        'rate_limited',
        `This credential may send ${quota} requests a minute. Come back in ${seconds} s.`,
        {
          headers: { 'retry-after': String(seconds) },
        },
      );
    },
  };
}
