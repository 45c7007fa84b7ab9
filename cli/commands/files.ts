import { once } from 'node:events';
import { failureOf, type Answer, type Client, type ReplyOf } from '../../src/api/client.ts';
import { Fault } from '../../src/api/error.ts';
import { confirmed } from '../ask.ts';
import type { Context } from '../context.ts';
import { exit, Stop } from '../exit.ts';
import { idOf } from '../ids.ts';
import { workspaceHere } from '../place.ts';
import { type Source, sourceOf, upload } from '../upload.ts';
import { ago, size } from '../words.ts';

type FileListing = ReplyOf<'listFiles'>;
type FileEntry = FileListing['data'][number];

interface Where {
  workspace?: string;
}

/** What a write may hold before it must be staged, in bytes. */
const maxDirect = 4_194_304;

const workspaceOf = (client: Client, { workspace }: Where): Promise<string> =>
  workspace ? idOf(client, 'workspace', workspace) : workspaceHere(client, process.cwd());

const address = (workspace: string): string => `/v1/workspaces/${workspace}/file`;

/** `agentctl files ls [PATH]`. */
export async function ls(
  context: Context,
  options: Where & { limit: number; recursive?: boolean; query?: string },
  path = '',
): Promise<void> {
  const client = await context.client();
  const workspace_id = await workspaceOf(client, options);
  const { limit, recursive, query } = options;
  let page: FileListing | undefined;
  do {
    const room = Math.min(200, Math.max(1, limit - (page?.data.length ?? 0)));
    const more = page?.next_cursor ? { cursor: page.next_cursor } : {};
    const asked = { path, limit: room, ...(recursive ? { recursive } : {}), ...(query ? { query } : {}), ...more };
    const next: FileListing = await client.call('listFiles', { path: { workspace_id }, query: asked });
    page = page ? { ...next, data: [...page.data, ...next.data] } : next;
  } while (page.next_cursor && page.data.length < limit);
  await context.out.list(page, {
    id: (entry: FileEntry) => entry.path,
    empty: query ? `Nothing here has “${query}” in its path.` : 'Nothing is here.',
    columns: [
      { title: 'TYPE', value: ({ type, executable }) => (executable ? 'program' : type) },
      { title: 'SIZE', value: ({ size_bytes }) => (size_bytes === null ? '–' : size(size_bytes)), right: true },
      { title: 'MODIFIED', value: ({ modified_at }) => ago(modified_at, Date.now()) },
      { title: 'ETAG', value: ({ etag }) => etag ?? '–', wide: true },
      { title: 'PATH', value: (entry) => (entry.type === 'directory' ? `${entry.path}/` : entry.path), flex: true },
    ],
  });
}

/** A file's bytes, by a download where it is too large to be read at once. Throws Fault. */
async function open(client: Client, workspace: string, path: string): Promise<Answer> {
  const url = address(workspace);
  const answer = await client.open('GET', url, { query: { path } });
  if (answer.status === 200) return answer;
  const fault = failureOf({ ...answer, text: await textOf(answer) });
  if (!(fault instanceof Fault) || fault.code !== 'download_required') throw fault;
  const redirect = await client.open('GET', url, { query: { path, download: true } });
  const text = await textOf(redirect);
  if (redirect.status !== 302) throw failureOf({ ...redirect, text });
  // The same daemon, by whatever way this program reaches it.
  const { pathname } = new URL(redirect.headers.location ?? '', 'http://localhost');
  const file = await client.open('GET', pathname);
  if (file.status !== 200) throw failureOf({ ...file, text: await textOf(file) });
  return file;
}

async function textOf({ body }: Answer): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of body) chunks.push(chunk);
  return Buffer.concat(chunks).toString('utf8');
}

/** `agentctl files cat PATH`: the bytes as they are, however many. */
export async function cat({ client: connect, out }: Context, options: Where, path: string): Promise<void> {
  const client = await connect();
  const { body } = await open(client, await workspaceOf(client, options), path);
  const stdout = out.streams.stdout as NodeJS.WriteStream;
  for await (const piece of body) if (!stdout.write(piece)) await once(stdout, 'drain');
}

/** The ETag that a file has now, `"absent"`, or `*` where it is too large to say. */
async function etagNow(client: Client, workspace: string, path: string): Promise<string> {
  const { status, headers } = await client.raw('HEAD', address(workspace), { query: { path } });
  if (headers.etag) return headers.etag;
  if (status === 413) return '*';
  // HEAD has no body: asked again for the words.
  const answer = await client.raw('GET', address(workspace), { query: { path } });
  throw failureOf(answer);
}

/** `agentctl files put PATH [FILE]`. */
export async function put(
  context: Context,
  options: Where & { ifMatch?: string; executable?: boolean; idempotencyKey?: string },
  path: string,
  file = '-',
): Promise<void> {
  const client = await context.client();
  const workspace = await workspaceOf(client, options);
  const source = await sourceOf(context, file);
  const ifMatch = options.ifMatch ?? (await etagNow(client, workspace, path));
  const headers: Record<string, string> = { 'if-match': ifMatch };
  if (options.executable !== undefined) headers['x-file-executable'] = String(options.executable);
  const operation = await write(context, client, { workspace, path, source, headers, key: options.idempotencyKey });
  told(context, operation);
}

interface Write {
  workspace: string;
  path: string;
  source: Source;
  headers: Record<string, string>;
  key?: string | undefined;
}

async function write(context: Context, client: Client, { workspace, path, source, headers, key }: Write) {
  const into = { path: { workspace_id: workspace } };
  const call = key === undefined ? {} : { idempotencyKey: key };
  const input = { ...into, headers: headers as { 'if-match': string } };
  if (source.size <= maxDirect)
    return client.insist('writeFile', { ...input, query: { path }, bytes: await source.whole() }, call);
  const transfer_id = await upload(context, client, workspace, path, source);
  return client.insist('writeFile', { ...input, query: { path, transfer_id }, bytes: Buffer.alloc(0) }, call);
}

/** What an operation on a file came to. Throws what stands in it as an error. */
function told({ out }: Context, operation: ReplyOf<'getOperation'>): void {
  const { result, error } = operation;
  if (error) throw new Stop(exit.failed, error.message);
  if (out.isJson) return out.json(operation);
  const { path, etag, size_bytes, workspace_revision } = result as Record<string, string | number>;
  if (out.quiet) return out.print(String(etag));
  const what = operation.type === 'file.delete' ? 'Deleted' : 'Wrote';
  const much = operation.type === 'file.delete' ? '' : `, ${size(Number(size_bytes))}, ETag ${etag}`;
  out.note(`${what} ${path}${much}; the workspace is at revision ${workspace_revision}.`);
}

/** `agentctl files rm PATH`. */
export async function remove(context: Context, options: Where & { ifMatch?: string }, path: string): Promise<void> {
  const client = await context.client();
  const workspace_id = await workspaceOf(client, options);
  await confirmed(context, `Delete ${path}?`);
  const headers = { 'if-match': options.ifMatch ?? '*' };
  try {
    told(context, await client.insist('deleteFile', { path: { workspace_id }, query: { path }, headers }));
  } catch (error) {
    const gone = error instanceof Fault && error.code === 'etag_mismatch' && error.details.current_etag === null;
    throw gone && !options.ifMatch
      ? new Stop(exit.notFound, `There is no file ${path}.`, 'see `agentctl files ls`')
      : error;
  }
}

/** `agentctl files edit PATH`: a copy in the editor, written back if nobody else has changed the file meanwhile. */
export async function edit(context: Context, options: Where, path: string): Promise<void> {
  const client = await context.client();
  const workspace = await workspaceOf(client, options);
  const { editCopy } = await import('../editor.ts');
  const before = await current(client, workspace, path);
  const copy = await editCopy(context.env, path, before.bytes);
  if (copy.bytes.equals(before.bytes)) {
    copy.remove();
    return context.out.note(`${path} was not changed.`);
  }
  const source = { size: copy.bytes.length, whole: () => Promise.resolve(copy.bytes), pieces: () => [copy.bytes] };
  try {
    told(context, await write(context, client, { workspace, path, source, headers: { 'if-match': before.etag } }));
    copy.remove();
  } catch (error) {
    const conflict = error instanceof Fault && ['etag_mismatch', 'workspace_busy'].includes(error.code);
    const why = conflict ? (error as Fault).message : `It could not be written: ${(error as Error).message}`;
    throw new Stop(conflict ? exit.conflict : exit.failed, `${why} What you wrote is kept in ${copy.path}`);
  }
}

async function current(client: Client, workspace: string, path: string): Promise<{ bytes: Buffer; etag: string }> {
  try {
    const { headers, body } = await open(client, workspace, path);
    const chunks: Uint8Array[] = [];
    for await (const chunk of body) chunks.push(chunk);
    return { bytes: Buffer.concat(chunks), etag: headers.etag ?? '*' };
  } catch (error) {
    if (error instanceof Fault && error.code === 'not_found' && error.headers.etag === '"absent"')
      return { bytes: Buffer.alloc(0), etag: '"absent"' };
    throw error;
  }
}
