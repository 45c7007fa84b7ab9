import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { open, rm } from 'node:fs/promises';
import { basename } from 'node:path';
import { type Client, failureOf, type ReplyOf } from '../../src/api/client.ts';
import type { Context } from '../context.ts';
import { exit, Stop } from '../exit.ts';
import { idOf } from '../ids.ts';
import { pageOf } from '../listing.ts';
import { cleanLine } from '../text.ts';
import { ago, shortId, size } from '../words.ts';

type Artifact = ReplyOf<'getArtifact'>;

/** `agentctl artifacts ls [RUN]`, `agentctl runs artifacts RUN`. */
export async function ls(context: Context, options: { limit: number }, text = '@last'): Promise<void> {
  const client = await context.client();
  const run_id = await idOf(client, 'run', text);
  await context.out.list(await pageOf(client, 'listArtifacts', { path: { run_id } }, options.limit), {
    id: ({ id }: Artifact) => id,
    name: ({ path }: Artifact) => path,
    empty: 'This run has left nothing yet. agentctl run --artifact GLOB names files to keep.',
    columns: [
      // Those of one run are made in one millisecond: the beginnings of their ids are the same.
      { title: 'ARTIFACT', value: ({ id }) => id, wide: true },
      { title: 'KIND', value: ({ kind }) => kind },
      { title: 'SIZE', value: ({ size_bytes }) => size(size_bytes), right: true },
      { title: 'MADE', value: ({ created_at }) => ago(created_at, Date.now()), wide: true },
      { title: 'TYPE', value: ({ media_type }) => media_type, wide: true },
      { title: 'SHA256', value: ({ sha256 }) => sha256, wide: true },
      { title: 'PATH', value: ({ path }) => path, flex: true },
    ],
  });
}

/** The artifact that `text` names: its id, or in a run its path, its name or the beginning of its id. */
async function find(client: Client, run: string, text: string): Promise<Artifact> {
  if (/^[0-9a-f-]{36}$/i.test(text)) return client.call('getArtifact', { path: { artifact_id: text } });
  const run_id = await idOf(client, 'run', run);
  const all: Artifact[] = [];
  for await (const one of client.each('listArtifacts', { path: { run_id }, query: { limit: 200 } })) all.push(one);
  const start = /^[0-9a-f-]{4,}$/i.test(text) ? text.toLowerCase() : undefined;
  const tests = [
    ({ path }: Artifact) => path === text,
    ({ name }: Artifact) => name === text,
    ({ id }: Artifact) => start !== undefined && id.startsWith(start),
  ];
  const found = tests.map((test) => all.filter(test)).find(({ length }) => length > 0) ?? [];
  const [only] = found;
  if (only && found.length === 1) return only;
  if (!only)
    throw new Stop(
      exit.notFound,
      `The run ${shortId(run_id)} has no artifact “${cleanLine(text)}”.`,
      `agentctl artifacts ls ${shortId(run_id)}`,
    );
  const shown = found.slice(0, 10).map(({ id, kind, path }) => `\n  ${id}  ${kind}  ${cleanLine(path)}`);
  throw new Stop(exit.usage, `“${cleanLine(text)}” could be any of ${found.length}:${shown.join('')}`, 'give the id');
}

/** `agentctl artifacts get ARTIFACT`: into a file of its name, into another one, or with `-o -` to standard output. */
export async function get(context: Context, options: { run?: string; output?: string }, text: string): Promise<void> {
  const { out } = context;
  const client = await context.client();
  const artifact = await find(client, options.run ?? '@last', text);
  const { url, sha256, size_bytes, file_name } = await client.call('downloadArtifact', {
    path: { artifact_id: artifact.id },
  });
  const target = options.output ?? basename(file_name);
  if (options.output === undefined && existsSync(target))
    throw new Stop(exit.conflict, `${cleanLine(target)} is here already.`, 'name another file, or this one, with -o');
  // The same daemon, by whatever way this program reaches it.
  const answer = await client.open('GET', new URL(url).pathname);
  if (answer.status !== 200) {
    const parts: Uint8Array[] = [];
    for await (const piece of answer.body) parts.push(piece);
    throw failureOf({ ...answer, text: Buffer.concat(parts).toString('utf8') });
  }
  const sum = createHash('sha256');
  async function* summed() {
    for await (const piece of answer.body) {
      sum.update(piece);
      yield piece;
    }
    if (sum.digest('hex') !== sha256) throw new Stop(exit.failed, 'The bytes that came are not those of the artifact.');
  }
  if (target === '-') {
    const stdout = out.streams.stdout as NodeJS.WriteStream;
    for await (const piece of summed()) if (!stdout.write(piece)) await once(stdout, 'drain');
    return;
  }
  await into(target, options.output === undefined ? 'wx' : 'w', summed());
  if (out.isJson) out.json(artifact);
  else if (out.quiet) out.print(target);
  else out.note(`Wrote ${cleanLine(target)}, ${size(size_bytes)}.`);
}

async function into(target: string, flag: 'w' | 'wx', pieces: AsyncIterable<Uint8Array>): Promise<void> {
  const isNew = !existsSync(target);
  let file;
  try {
    file = await open(target, flag);
  } catch (error) {
    throw new Stop(exit.failed, `${cleanLine(target)} cannot be written: ${(error as Error).message}`);
  }
  try {
    for await (const piece of pieces) await file.writeFile(piece);
  } catch (error) {
    if (isNew) await rm(target, { force: true });
    throw error;
  } finally {
    await file.close();
  }
}
