import type { UsageBucket } from '../api/usage-report.ts';

/** The calendar of one time zone, as far as buckets need it. Times are milliseconds since 1970. */
export interface Zone {
  /** Where the bucket that holds this time begins. */
  floor(time: number, bucket: Exclude<UsageBucket, 'total'>): number;
  /** Where the bucket after the one that begins here begins. */
  next(start: number, bucket: Exclude<UsageBucket, 'total'>): number;
}

const minute = 60_000;
const hour = 60 * minute;

/** The zone of an IANA name; undefined when there is none of that name. */
export function zoneOf(name: string): Zone | undefined {
  let format: Intl.DateTimeFormat;
  try {
    format = new Intl.DateTimeFormat('en-US', {
      timeZone: name,
      calendar: 'iso8601',
      hourCycle: 'h23',
      year: 'numeric',
      month: '2-digit',
      day: '2-digit',
      hour: '2-digit',
      minute: '2-digit',
      second: '2-digit',
    });
  } catch {
    return undefined;
  }

  /** What the clock on the wall shows, as if that were UTC. */
  const wall = (time: number): number => {
    const parts: Record<string, number> = {};
    for (const { type, value } of format.formatToParts(time)) parts[type] = Number(value);
    const { year = 0, month = 1, day = 1, hour: h = 0, minute: m = 0, second: s = 0 } = parts;
    return Date.UTC(year, month - 1, day, h, m, s);
  };
  const offset = (time: number): number => wall(time) - Math.floor(time / 1000) * 1000;
  /** The first moment at which the clock on the wall shows this or, where it jumps over it, something later. */
  const moment = (shown: number): number => {
    // The offsets on both sides: around a change the earlier of the two moments is the first.
    const found = [offset(shown - 24 * hour), offset(shown + 24 * hour)]
      .map((one) => shown - one)
      .filter((time) => wall(time) === shown);
    if (found.length > 0) return Math.min(...found);
    // It is jumped over: the change itself is the first moment after it.
    let [before, after] = [shown - 26 * hour, shown + 26 * hour];
    while (after - before > 1) {
      const middle = Math.floor((before + after) / 2);
      if (wall(middle) >= shown) after = middle;
      else before = middle;
    }
    return after;
  };

  return {
    floor(time, bucket) {
      if (bucket === 'hour') {
        // By the clock on the wall, whose hours begin at half past in some zones; an hour that comes twice is two.
        const shown = time + offset(time);
        return time - (((shown % hour) + hour) % hour);
      }
      const shown = new Date(wall(time));
      return moment(
        bucket === 'day'
          ? Date.UTC(shown.getUTCFullYear(), shown.getUTCMonth(), shown.getUTCDate())
          : Date.UTC(shown.getUTCFullYear(), shown.getUTCMonth(), 1),
      );
    },
    next(start, bucket) {
      if (bucket === 'hour') return start + hour;
      const shown = new Date(wall(start));
      return moment(
        bucket === 'day'
          ? Date.UTC(shown.getUTCFullYear(), shown.getUTCMonth(), shown.getUTCDate() + 1)
          : Date.UTC(shown.getUTCFullYear(), shown.getUTCMonth() + 1, 1),
      );
    },
  };
}
