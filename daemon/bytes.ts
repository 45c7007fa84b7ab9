import type { Readable } from 'node:stream';
import { create as dispositionOf } from 'content-disposition';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { matchesWeakly, readTags } from '../src/api/etag.ts';
import { Fault } from '../src/api/error.ts';

/** An answer of raw bytes, or one without any. */
export interface BytesReply {
  status: number;
  headers: Record<string, string>;
  body: Buffer | Readable | null;
}

/** What is served: one file, as it is. */
export interface Served {
  name: string;
  size: number;
  etag: string;
  /** Whether a browser could be made to run it: then it is saved and never shown. */
  active: boolean;
}

/** Request headers that decide how much is sent. */
export interface Conditions {
  'if-none-match'?: string | undefined;
  range?: string | undefined;
  'if-range'?: string | undefined;
}

/** How the caller reaches this server. The host is one that the door has let in. */
export const originOf = (request: FastifyRequest): string => `http://${request.headers.host}`;

/** Says how a file is to be treated by whoever shows it. */
const caution = ({ name, active }: Served): Record<string, string> => ({
  'content-type': 'application/octet-stream',
  'content-disposition': dispositionOf(name, { type: active ? 'attachment' : 'inline' }),
  'content-security-policy': "sandbox; default-src 'none'",
});

/** The 304 for whoever has this very representation already. */
export function unchanged(conditions: Conditions, etag: string): BytesReply | undefined {
  const unwanted = readTags('If-None-Match', conditions['if-none-match']);
  return unwanted && matchesWeakly(unwanted, etag) ? { status: 304, headers: { etag }, body: null } : undefined;
}

/** All of a file, a part of it (206), or word that it is still the same (304). Throws `range_not_satisfiable`. */
export function replyWith(
  served: Served,
  conditions: Conditions,
  take: (first: number, last: number) => Buffer | Readable | null,
): BytesReply {
  const { size, etag } = served;
  const same = unchanged(conditions, etag);
  if (same) return same;
  const headers = { ...caution(served), etag, 'accept-ranges': 'bytes' };
  const heeded = conditions['if-range'] === undefined || conditions['if-range'] === etag;
  const range = heeded ? rangeOf(conditions.range, size) : undefined;
  if (!range) return { status: 200, headers: { ...headers, 'content-length': String(size) }, body: take(0, size - 1) };
  const [first, last] = range;
  const part = { 'content-range': `bytes ${first}-${last}/${size}`, 'content-length': String(last - first + 1) };
  return { status: 206, headers: { ...headers, ...part }, body: take(first, last) };
}

/** First and last byte that a Range header asks for; undefined for none, for several and for other units, which mean all. */
function rangeOf(header: string | undefined, size: number): [first: number, last: number] | undefined {
  const [, from = '', to = ''] = /^bytes=[ \t]*(\d*)-(\d*)[ \t]*$/i.exec(header ?? '') ?? [];
  if (from === '' && to === '') return undefined;
  if (from !== '' && to !== '' && Number(from) > Number(to)) return undefined;
  const first = from === '' ? Math.max(0, size - Number(to)) : Number(from);
  const last = from === '' || to === '' ? size - 1 : Math.min(Number(to), size - 1);
  if (first <= last) return [first, last];
  throw new Fault('range_not_satisfiable', `The file has ${size} bytes and none of these.`, {
    details: { size_bytes: size },
    headers: { 'content-range': `bytes */${size}` },
  });
}

/** Sends it. */
export function sendBytes(reply: FastifyReply, { status, headers, body }: BytesReply): FastifyReply {
  return reply
    .code(status)
    .headers(headers)
    .send(body ?? undefined);
}
