import type { ReplyOf } from '../../src/api/client.ts';
import type { Context } from '../context.ts';
import { exit, Stop } from '../exit.ts';
import { pageOf } from '../listing.ts';
import { cleanLine } from '../text.ts';
import { ago, count, duration, money, shortId } from '../words.ts';

type Report = ReplyOf<'getUsage'>;
type Row = Report['data'][number];

interface UsageOptions {
  by?: string;
  from?: string;
  to?: string;
  bucket?: Report['bucket'];
  csv?: boolean;
  limit: number;
}

/** A time as people write one: RFC 3339, a day such as 2026-11-01 (here), or how long ago, such as 7d. */
function timeOf(name: string, text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const days = /^(\d{1,4})d$/.exec(text);
  const local = /^\d{4}-\d\d-\d\d$/.test(text) ? `${text}T00:00:00` : text;
  const ms = days ? Date.now() - Number(days[1]) * 86_400_000 : Date.parse(local);
  if (Number.isNaN(ms))
    throw new Stop(exit.usage, `${name} “${cleanLine(text)}” is no time.`, 'give a day such as 2026-11-01, or 7d');
  return new Date(ms).toISOString();
}

/** Every row of the report, in as many requests as it takes. */
async function whole(context: Context, query: Record<string, string>, limit: number): Promise<Report> {
  const client = await context.client();
  let report: Report | undefined;
  let next_cursor: string | null = null;
  do {
    const more = {
      limit: Math.min(200, limit - (report?.data.length ?? 0)),
      ...(next_cursor ? { cursor: next_cursor } : {}),
    };
    const page: Report = await client.call('getUsage', { query: { ...query, ...more } as never });
    report = report ? { ...page, data: [...report.data, ...page.data] } : page;
    next_cursor = page.next_cursor;
  } while (next_cursor && report.data.length < limit);
  return { ...report, next_cursor };
}

/** `agentctl usage`: a table with a bar for each row's cost; `--csv` and `--json` for other programs. */
export async function usage(context: Context, options: UsageOptions): Promise<void> {
  const { out } = context;
  const from = timeOf('--from', options.from);
  const to = timeOf('--to', options.to);
  const bucket = options.bucket ?? 'day';
  const report = await whole(
    context,
    {
      bucket,
      time_zone: Intl.DateTimeFormat().resolvedOptions().timeZone,
      ...(options.by ? { group_by: options.by } : {}),
      ...(from ? { from } : {}),
      ...(to ? { to } : {}),
    },
    options.limit,
  );
  if (out.isJson) return out.json(report);
  if (options.csv) return out.print(csv(report));
  const most = Math.max(1, ...report.data.map(({ cost_micro_usd }) => Number(cost_micro_usd ?? 0)));
  const names = await namesOf(context, report);
  await out.list(
    { data: report.data, next_cursor: null },
    {
      id: ({ start }) => start,
      empty: 'Nothing was used in this time. --from 30d looks further back.',
      columns: [
        ...(bucket === 'total' ? [] : [{ title: 'TIME', value: ({ start }: Row) => labelOf(start, bucket) }]),
        ...report.group_by.map((group) => ({
          title: group.toUpperCase().replace('_', ' '),
          value: ({ group: values }: Row) => names(values[group] ?? null),
          flex: true,
        })),
        { title: 'RUNS', value: ({ runs }) => String(runs), right: true },
        { title: 'CALLS', value: ({ calls }) => String(calls), right: true },
        { title: 'IN', value: ({ input_tokens: n }) => count(n), right: true },
        { title: 'CACHED', value: ({ cached_input_tokens: n }) => count(n), right: true, wide: true },
        { title: 'OUT', value: ({ output_tokens: n }) => count(n), right: true },
        { title: 'TIME SPENT', value: ({ duration_ms }) => duration(duration_ms), right: true, wide: true },
        { title: 'COST', value: ({ cost_micro_usd }) => money(cost_micro_usd), right: true },
        { title: '', value: ({ cost_micro_usd }) => bar(Number(cost_micro_usd ?? 0) / most), style: () => 'cyan' },
      ],
    },
  );
  const { runs, calls, cost_micro_usd, unpriced_calls } = report.totals;
  if (report.data.length === 0) return;
  const unknown = unpriced_calls > 0 ? `, and ${unpriced_calls} calls whose cost nobody knows` : '';
  out.note(`In all ${runs} runs, ${calls} calls, ${money(cost_micro_usd)}${unknown}.`);
  if (report.next_cursor) out.note(`The first ${report.data.length} rows; --limit shows more.`);
}

/** A bar of up to 20 cells, to an eighth of a cell. */
function bar(share: number): string {
  const eighths = Math.round(share * 160);
  const rest = eighths % 8;
  return '█'.repeat(Math.floor(eighths / 8)) + (rest > 0 ? String.fromCodePoint(0x2590 - rest) : '');
}

/** The begin of a bucket in the words of the machine's own time zone. */
function labelOf(start: string, bucket: Report['bucket']): string {
  const time = new Date(start);
  const two = (n: number) => String(n).padStart(2, '0');
  const month = `${time.getFullYear()}-${two(time.getMonth() + 1)}`;
  if (bucket === 'month') return month;
  const day = `${month}-${two(time.getDate())}`;
  return bucket === 'day' ? day : `${day} ${two(time.getHours())}:${two(time.getMinutes())}`;
}

/** Words for the values of groups: names of projects, short ids of what else has one. */
async function namesOf(context: Context, report: Report): Promise<(value: string | null) => string> {
  const known = new Map<string, string>();
  if (report.group_by.includes('project') && report.data.length > 0) {
    const { data } = await pageOf(await context.client(), 'listProjects', {}, 1_000);
    for (const { id, name } of data) known.set(id, name);
  }
  return (value) =>
    value === null ? '–' : (known.get(value) ?? (/^[0-9a-f]{8}-/.test(value) ? shortId(value) : value));
}

/** RFC 4180, with a line of names. */
function csv({ group_by, data }: Report): string {
  const { group: _g, start: _s, end: _e, ...figures } = data[0] ?? ({} as Row);
  const fields = Object.keys(figures) as (keyof typeof figures)[];
  const quote = (value: unknown) => {
    const text = value === null || value === undefined ? '' : String(value as string | number);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const lines = data.map((row) => [
    row.start,
    row.end,
    ...group_by.map((name) => row.group[name]),
    ...fields.map((name) => row[name]),
  ]);
  return [['start', 'end', ...group_by, ...fields], ...lines].map((line) => line.map(quote).join(',')).join('\n');
}

/** `agentctl credits`. */
export async function credits(context: Context): Promise<void> {
  const client = await context.client();
  const found = await client.call('getCredits');
  const { policy, balance_micro_usd, held_micro_usd, available_micro_usd } = found;
  context.out.one(found, policy, [
    [
      'policy',
      policy === 'prepaid' ? 'prepaid: managed runs are paid from here' : 'unlimited: nothing is held or charged',
    ],
    ['balance', money(balance_micro_usd)],
    ['held', money(held_micro_usd)],
    ['available', money(available_micro_usd)],
  ]);
}

/** `agentctl credits grant AMOUNT`. */
export async function grant(context: Context, { note }: { note?: string }, amount: string): Promise<void> {
  const client = await context.client();
  const body = { amount_micro_usd: amount, ...(note === undefined ? {} : { note }) };
  const entry = await client.insist('grantCredits', { body });
  if (context.out.isJson) return context.out.json(entry);
  context.out.note(`Granted ${money(entry.amount_micro_usd)}; the balance is ${money(entry.balance_after_micro_usd)}.`);
}

/** `agentctl credits ledger`. */
export async function ledger(context: Context, { limit }: { limit: number }): Promise<void> {
  const client = await context.client();
  const now = Date.now();
  await context.out.list(await pageOf(client, 'listCreditEntries', {}, limit), {
    id: ({ id }) => id,
    empty: 'Nothing has happened to the credits yet.',
    columns: [
      { title: 'WHEN', value: ({ created_at }) => ago(created_at, now) },
      { title: 'WHAT', value: ({ kind }) => kind },
      { title: 'AMOUNT', value: ({ amount_micro_usd }) => money(amount_micro_usd), right: true },
      { title: 'BALANCE', value: ({ balance_after_micro_usd }) => money(balance_after_micro_usd), right: true },
      { title: 'HELD', value: ({ held_after_micro_usd }) => money(held_after_micro_usd), right: true },
      { title: 'RUN', value: ({ run_id }) => (run_id ? shortId(run_id) : '–') },
      { title: 'NOTE', value: ({ note }) => note ?? '', flex: true },
    ],
  });
}
