import type { RunStatus } from '../src/api/runs.ts';
import { cleanLine } from './text.ts';

/** A colour of the terminal's own palette, as util.styleText and Ink name it. */
export type Colour = 'green' | 'red' | 'yellow' | 'cyan' | 'blue' | 'magenta' | 'gray';

/** How a status looks: never by colour alone. */
export interface Look {
  symbol: string;
  word: string;
  colour: Colour;
}

/** How a run's status is shown, in tables and in the live view. */
export const runLook: Record<RunStatus, Look> = {
  queued: { symbol: '○', word: 'queued', colour: 'gray' },
  running: { symbol: '●', word: 'running', colour: 'cyan' },
  awaiting_input: { symbol: '?', word: 'needs you', colour: 'yellow' },
  cancelling: { symbol: '◌', word: 'cancelling', colour: 'yellow' },
  completed: { symbol: '✓', word: 'completed', colour: 'green' },
  failed: { symbol: '✗', word: 'failed', colour: 'red' },
  cancelled: { symbol: '⊘', word: 'cancelled', colour: 'gray' },
};

/** `$0.42`, `$0.0042`, `–` when nobody knows. Takes micro-US-dollars. */
export function money(micro: string | null): string {
  if (micro === null) return '–';
  const value = Number(micro) / 1e6;
  if (value === 0) return '$0.00';
  if (value < 0.0001) return '<$0.0001';
  return value >= 0.1 ? `$${value.toFixed(2)}` : `$${value.toFixed(4)}`;
}

/** Micro-US-dollars of `0.50`, as a string of digits; undefined when it is not an amount. */
export function microOf(amount: string): string | undefined {
  const match = /^\$?(\d{1,9})(?:\.(\d{1,6}))?$/.exec(amount.trim());
  if (!match) return undefined;
  return String(BigInt(match[1] ?? '0') * 1_000_000n + BigInt((match[2] ?? '').padEnd(6, '0')));
}

/** `850ms`, `4.2s`, `1m 03s`, `2h 05m`, `3d 04h`. */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))}ms`;
  if (ms < 9950) return `${(ms / 1000).toFixed(1)}s`;
  const s = Math.round(ms / 1000);
  if (s < 60) return `${s}s`;
  const two = (n: number) => String(n).padStart(2, '0');
  if (s < 3600) return `${Math.floor(s / 60)}m ${two(s % 60)}s`;
  if (s < 86_400) return `${Math.floor(s / 3600)}h ${two(Math.floor((s % 3600) / 60))}m`;
  return `${Math.floor(s / 86_400)}d ${two(Math.floor((s % 86_400) / 3600))}h`;
}

/** `0s`, `59s`, `1m 03s`: time that runs, and limits such as `20m`, without parts that are zero at the end. */
export const clock = (seconds: number): string =>
  seconds < 60 ? `${Math.floor(seconds)}s` : duration(Math.floor(seconds) * 1000).replace(/ 0+[smh]$/, '');

/** Seconds of `90`, `90s`, `20m`, `1h30m`, `2d`; undefined when it is none of these. */
export function secondsOf(text: string): number | undefined {
  if (/^\d+$/.test(text)) return Number(text);
  const match = /^(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?$/.exec(text.trim());
  if (!match || text.trim() === '') return undefined;
  const [d, h, m, s] = match.slice(1).map((part) => Number(part ?? 0)) as [number, number, number, number];
  return ((d * 24 + h) * 60 + m) * 60 + s;
}

/** `just now`, `12s ago`, `3m ago`, `in 2h`. */
export function ago(time: string | null, now: number): string {
  if (time === null) return '–';
  const s = Math.round((now - Date.parse(time)) / 1000);
  const n = Math.abs(s);
  if (n < 2) return 'just now';
  const text =
    n < 60
      ? `${n}s`
      : n < 3600
        ? `${Math.floor(n / 60)}m`
        : n < 86_400
          ? `${Math.floor(n / 3600)}h`
          : `${Math.floor(n / 86_400)}d`;
  return s >= 0 ? `${text} ago` : `in ${text}`;
}

/** `950`, `12.3k`, `4.5M`. */
export function count(n: number): string {
  if (n < 1000) return String(n);
  return n < 999_500 ? `${(n / 1000).toFixed(n < 99_950 ? 1 : 0)}k` : `${(n / 1e6).toFixed(1)}M`;
}

/** Enough of an id to tell it from others: the first 48 bits of a UUIDv7 are the millisecond it was made in. */
export const shortId = (id: string): string => id.slice(0, 13);

/** `1 run`, `2 runs`. */
export const plural = (n: number, noun: string): string => `${n} ${noun}${n === 1 ? '' : 's'}`;

/** 12 → "12 B", 4200 → "4.1 KiB". */
export function size(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  let amount = bytes;
  while (amount >= 1024 && unit < units.length - 1) {
    amount /= 1024;
    unit += 1;
  }
  return `${unit === 0 || amount >= 100 ? Math.round(amount) : amount.toFixed(1)} ${units[unit]}`;
}

/** What a person has asked a run to leave, in a line; undefined when there is nothing. */
export function leftLine(all: { path: string; size_bytes: number }[], runId: string): string | undefined {
  if (all.length === 0) return undefined;
  const most = 5;
  const shown = all.slice(0, most).map(({ path, size_bytes }) => `${cleanLine(path)} (${size(size_bytes)})`);
  const more = all.length > most ? ` and ${all.length - most} more` : '';
  return `${plural(all.length, 'artifact')}: ${shown.join(', ')}${more} · agentctl artifacts get NAME -r ${shortId(runId)}`;
}
