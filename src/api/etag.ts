import { Fault } from './error.ts';

/** What an ETag header says of a file that does not exist, and what If-Match says to make one. */
export const absent = '"absent"';

/** What a precondition asks for: any representation, or one of these. */
export type Tags = '*' | { weak: boolean; value: string }[];

/**
 * Reads If-Match or If-None-Match: `*`, or a list of entity tags, weak ones included. Undefined when the header is absent; throws
 * `invalid_request` when it is malformed.
 */
export function readTags(name: string, header: string | undefined): Tags | undefined {
  if (header === undefined) return undefined;
  if (header.trim() === '*') return '*';
  if (list.test(header))
    return [...header.matchAll(tag)].map(([, weak, value]) => ({ weak: weak !== undefined, value: value! }));
  const message = `${name} must be *, or a list of entity tags in quotation marks, such as "sha256-…"`;
  throw new Fault('invalid_request', `${message}.`, { param: name, details: { errors: [{ path: name, message }] } });
}

const tag = /(W\/)?("[\x21\x23-\x7e\x80-\xff]*")/g;
const list = new RegExp(`^[ \\t,]*(?:${tag.source}[ \\t]*(?:,[ \\t,]*|$))+$`);

/** If-Match by strong comparison (RFC 9110, 13.1.1); `current` is null when there is no file. */
export const matches = (tags: Tags, current: string | null): boolean =>
  tags === '*' ? current !== null : tags.some(({ weak, value }) => !weak && value === (current ?? absent));

/** If-None-Match by weak comparison: whether one of the tags is the current one. */
export const matchesWeakly = (tags: Tags, current: string | null): boolean =>
  tags === '*' ? current !== null : current !== null && tags.some(({ value }) => value === current);
