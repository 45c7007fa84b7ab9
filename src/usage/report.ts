import { noUsage } from '../api/figures.ts';
import { type UsageGroup, type UsageQuery, type UsageReport, usageGroups, type UsageRow } from '../api/usage-report.ts';
import { Fault } from '../api/error.ts';
import { type Clock, iso } from '../base/clock.ts';
import type { TextPaging } from '../base/page.ts';
import { columnOf, type Figures, type RangeStore } from './store.ts';
import { type Zone, zoneOf } from './zone.ts';

interface Bucket {
  start: number;
  end: number;
}

/** Where a page ended: its last bucket, and the group in it. */
type Place = [start: number, group: string];

const invalid = (param: string, message: string) => new Fault('invalid_parameter', message, { param });

/** Reads the words of a query; throws `invalid_parameter` naming the one that is wrong. */
function read(query: UsageQuery, clock: Clock) {
  const zone = zoneOf(query.time_zone ?? 'UTC');
  if (!zone) throw invalid('time_zone', 'This is not the name of a time zone, such as Europe/Berlin.');
  const to = query.to === undefined ? clock.now() : Date.parse(query.to);
  const from = query.from === undefined ? zone.floor(to, 'month') : Date.parse(query.from);
  if (from >= to) throw invalid('from', '`from` must be before `to`.');
  const words = (query.group_by ?? '').split(',').filter((word) => word !== '');
  const unknown = words.find((word) => !(usageGroups as readonly string[]).includes(word));
  if (unknown !== undefined || new Set(words).size < words.length)
    throw invalid('group_by', `\`group_by\` is a comma list of ${usageGroups.join(', ')}, each once.`);
  return { zone, from, to, bucket: query.bucket ?? 'total', groups: words as UsageGroup[] };
}

/** What an organization used, in ranges of time and by whom (contract section 9): a page costs what its own buckets hold. */
export function createReport({ store, clock }: { store: RangeStore; clock: Clock }) {
  /** Throws `invalid_parameter`. */
  return (organization: string, query: UsageQuery, paging: TextPaging): UsageReport => {
    const { zone, from, to, bucket, groups } = read(query, clock);
    const range = (start: number, end: number) => ({ organization, from: iso(start), to: iso(end) });
    const columns = groups.map(columnOf);
    const place = paging.after === null ? null : (JSON.parse(paging.after) as Place);

    const data: UsageRow[] = [];
    let last: Place | undefined;
    let more = false;
    let next = place ? place[0] : from;
    page: for (;;) {
      const found = bucket === 'total' ? next : store.first(range(next, to));
      if (found === undefined || found >= to) break;
      const { start, end } = bucketOf(zone, bucket, found, from, to);
      const skip = place !== null && start === place[0] ? place[1] : null;
      for (const [key, figures] of sorted(store.sums(range(start, end), columns))) {
        if (skip !== null && key <= skip) continue;
        if (data.length === paging.limit) {
          more = true;
          break page;
        }
        const values = JSON.parse(key) as (string | null)[];
        const group = Object.fromEntries(groups.map((name, index) => [name, values[index] ?? null]));
        data.push({ start: iso(start), end: iso(end), group, ...figures });
        last = [start, key];
      }
      next = end;
      if (next >= to) break;
    }
    const totals = store.sums(range(from, to), []).get('[]') ?? nothing;
    return {
      from: iso(from),
      to: iso(to),
      bucket,
      group_by: groups,
      data,
      totals,
      next_cursor: more && last ? paging.seal(JSON.stringify(last)) : null,
    };
  };
}

/** The bucket that holds a time, cut to the range that was asked for. */
function bucketOf(zone: Zone, bucket: UsageReport['bucket'], time: number, from: number, to: number): Bucket {
  if (bucket === 'total') return { start: from, end: to };
  const start = zone.floor(time, bucket);
  return { start: Math.max(from, start), end: Math.min(to, zone.next(start, bucket)) };
}

const sorted = (sums: Map<string, Figures>): [string, Figures][] =>
  [...sums].sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));

const nothing: Figures = {
  ...noUsage,
  runs: 0,
  calls: 0,
  unpriced_calls: 0,
  cost_micro_usd: '0',
  cost_source: 'reported',
};
