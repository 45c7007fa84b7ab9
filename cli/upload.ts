import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { failureOf, type Client } from '../src/api/client.ts';
import type { Context } from './context.ts';
import { exit, Stop } from './exit.ts';
import { size as sizeOf } from './words.ts';

/** What a file of a workspace may hold, in bytes. */
const maxStaged = 26_214_400;

/** Bytes to be written, from a file or from standard input. */
export interface Source {
  size: number;
  whole(): Promise<Buffer>;
  /** From the beginning, as often as it is asked for. */
  pieces(): Iterable<Uint8Array> | AsyncIterable<Uint8Array>;
}

/** Finds out what there is to write; `-` is standard input, which is read to its end. Throws Stop. */
export async function sourceOf({ stdin }: Context, file: string): Promise<Source> {
  if (file === '-') {
    const chunks: Buffer[] = [];
    let size = 0;
    for await (const chunk of stdin) {
      chunks.push(Buffer.from(chunk as Buffer));
      size += chunks.at(-1)!.length;
      if (size > maxStaged) throw tooLarge('Standard input');
    }
    const bytes = Buffer.concat(chunks);
    return { size, whole: () => Promise.resolve(bytes), pieces: () => [bytes] };
  }
  const found = await stat(file).catch((error: Error) => {
    throw new Stop(exit.usage, `${file} cannot be read: ${error.message}`);
  });
  if (!found.isFile()) throw new Stop(exit.usage, `${file} is not a file.`);
  if (found.size > maxStaged) throw tooLarge(file);
  return {
    size: found.size,
    whole: () => readFile(file),
    pieces: () => createReadStream(file) as AsyncIterable<Buffer>,
  };
}

const tooLarge = (what: string) =>
  new Stop(exit.usage, `${what} holds more than ${sizeOf(maxStaged)}, the most a file may.`);

/** Uploads a large file and answers the id of its transfer; says how far it is on standard error. */
export async function upload(
  { out }: Context,
  client: Client,
  workspace: string,
  path: string,
  source: Source,
): Promise<string> {
  const sum = createHash('sha256');
  for await (const piece of source.pieces()) sum.update(piece);
  const body = { path, size_bytes: source.size, sha256: sum.digest('hex') };
  const { id, upload_url } = await client.insist('createTransfer', { path: { workspace_id: workspace }, body });
  const { stderr } = out.streams;
  let sent = 0;
  const tell = (end: string) =>
    stderr.write(`${stderr.isTTY ? '\r' : ''}uploaded ${sizeOf(sent)} of ${sizeOf(source.size)}${end}`);
  async function* counted() {
    for await (const piece of source.pieces()) {
      yield piece;
      sent += piece.length;
      if (stderr.isTTY) tell('');
    }
  }
  // The same daemon, by whatever way this program reaches it.
  const { pathname } = new URL(upload_url);
  const answer = await client.open('PUT', pathname, {
    body: counted(),
    headers: { 'content-length': String(source.size) },
  });
  const chunks: Uint8Array[] = [];
  for await (const chunk of answer.body) chunks.push(chunk);
  if (answer.status !== 200) throw failureOf({ ...answer, text: Buffer.concat(chunks).toString('utf8') });
  tell('\n');
  return id;
}
