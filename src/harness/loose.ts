/** Reading what somebody else sent, of which nothing is certain. */
export type Loose = Record<string, unknown>;

/** An object that is no list; otherwise null. */
export const record = (value: unknown): Loose | null =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Loose) : null;

/** A list; otherwise an empty one. */
export const list = (value: unknown): unknown[] => (Array.isArray(value) ? (value as unknown[]) : []);

/** A string; otherwise null. */
export const text = (value: unknown): string | null => (typeof value === 'string' ? value : null);

/** A finite number; otherwise null. */
export const number = (value: unknown): number | null =>
  typeof value === 'number' && Number.isFinite(value) ? value : null;

/** A value as JSON of at most `most` characters. */
export const bounded = (value: unknown, most: number): string =>
  (JSON.stringify(value) ?? String(value)).slice(0, most);
