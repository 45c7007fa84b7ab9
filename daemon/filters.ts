import { Fault } from '../src/api/error.ts';

/** A comma list of words that must be known ones. Throws `invalid_parameter`. */
export function readList<Word extends string>(
  name: string,
  value: string | undefined,
  known: readonly Word[],
): Word[] | undefined {
  if (value === undefined) return undefined;
  const words = value.split(',');
  for (const word of words)
    if (!known.includes(word as Word))
      throw new Fault('invalid_parameter', `"${word}" is no ${name}; there are ${known.join(', ')}.`, { param: name });
  return [...new Set(words as Word[])];
}

/** A time range in the form that the store compares. Throws `invalid_parameter`. */
export function readRange({ from, to }: { from?: string; to?: string }): { from?: string; to?: string } {
  const read = (name: string, value: string | undefined) => {
    if (value === undefined) return {};
    const ms = Date.parse(value);
    if (Number.isNaN(ms)) throw new Fault('invalid_parameter', `"${value}" is no RFC 3339 time.`, { param: name });
    return { [name]: new Date(ms).toISOString() };
  };
  return { ...read('from', from), ...read('to', to) };
}
