import { lstatSync } from 'node:fs';
import { join } from 'node:path';
import { absent, readTags } from '../api/etag.ts';
import { Fault } from '../api/error.ts';
import type { FileListing, Transfer, TransferCreate } from '../api/files.ts';
import type { Operation } from '../api/operations.ts';
import type { Workspace } from '../api/workspaces.ts';
import type { Clock } from '../base/clock.ts';
import type { Db, Tx } from '../base/db.ts';
import type { Idempotency } from '../base/idempotency.ts';
import type { Logger } from '../base/log.ts';
import { createLoop } from '../base/loop.ts';
import type { TextPaging } from '../base/page.ts';
import type { PrivateUrls } from '../base/private-url.ts';
import type { Operations } from '../operations/operations.ts';
import { openFile, type Root } from './beneath.ts';
import type { Change } from './change.ts';
import { createEtags } from './etags.ts';
import { invalidPath, segmentsOf } from './grammar.ts';
import { listBeneath } from './listing.ts';
import { assertDirect, type Reading, readingOf } from './reading.ts';
import { removeStaged, tidyStaging } from './staging.ts';
import { createStore } from './store.ts';
import { createTransfers, stagedName } from './transfers.ts';
import { createWriting, type Record, type Trees } from './writing.ts';

interface Needs {
  db: Db;
  clock: Clock;
  log: Logger;
  operations: Operations;
  idempotency: Idempotency;
  urls: PrivateUrls;
  trees: Trees;
  /** The daemon's data folder: bytes on their way lie below it. */
  folder: string;
  /** Folders of the daemon, which are no files of a workspace wherever they turn up. */
  closed: string[];
}

/** How long a private download address is good for, in milliseconds. */
const downloadFor = 300_000;

/** What a write or delete is asked for, as it was sent. */
export interface Asked {
  organization: string;
  workspace: string;
  path: string;
  ifMatch: string | undefined;
  ifNoneMatch: string | undefined;
}

/** The files of workspaces: listed, read, written and deleted beneath the workspace's folder, whatever links lie there. */
export function createFiles({ db, clock, log, operations, idempotency, urls, trees, folder, closed }: Needs) {
  const staging = join(folder, 'staging');
  const etags = createEtags({ clock });
  const store = createStore(db);
  const transfers = createTransfers({ db, clock, store, urls, staging });
  const own = new Set(
    closed.flatMap((path) => {
      const stat = lstatSync(path, { bigint: true, throwIfNoEntry: false });
      return stat ? [`${stat.dev}:${stat.ino}`] : [];
    }),
  );
  const rootAt = (folder: string): Root => ({ path: folder, closed: own });
  const rootOf = ({ path }: Workspace): Root => rootAt(path);
  const { used } = transfers;
  const writing = createWriting({ db, clock, log, operations, idempotency, trees, etags, staging, rootOf, used });
  writing.recover();
  tidyStaging(staging, new Set([...transfers.staged(), ...writing.needed()]));

  const loop = createLoop({ name: 'transfers', clock, log, step: () => transfers.expire() });

  /** The workspace, if its files may be looked at. */
  const readable = (organization: string, id: string): Workspace => {
    const workspace = trees.get(organization, id);
    if (workspace.status === 'deleted' || workspace.status === 'failed')
      throw new Fault('invalid_state', `The workspace "${workspace.name}" is ${workspace.status}.`, {
        details: { state: workspace.status },
      });
    return workspace;
  };

  const missing = (path: string) =>
    new Fault('not_found', `There is no file ${path}.`, { param: 'path', headers: { etag: absent } });

  const open = (organization: string, id: string, path: string): Reading => {
    assertFile(path);
    const file = openFile(rootOf(readable(organization, id)), path);
    if (!file) throw missing(path);
    return readingOf(file, path, etags);
  };

  const changeOf = (
    { workspace, path, ifMatch, ifNoneMatch }: Asked,
    key: string,
    wanted: Change['wanted'],
  ): Change => ({
    workspace_id: workspace,
    path,
    if_match: ifMatch ?? null,
    if_none_match: ifNoneMatch ?? null,
    wanted,
    key,
  });

  return {
    loop,

    /** A folder as a root to stay in, which leads into none of the daemon's own. */
    rootAt,

    assertAsked,
    assertSource,
    assertDirect,

    /** A page of a folder, or of all below it. */
    async list(
      organization: string,
      id: string,
      { path, query, recursive }: { path: string; query?: string; recursive: boolean },
      { limit, after, seal }: TextPaging,
      signal: AbortSignal,
    ): Promise<FileListing> {
      segmentsOf(path);
      const workspace = readable(organization, id);
      const wanted = { path, query, recursive, after, limit, signal };
      const { data, next } = await listBeneath(rootOf(workspace), etags, wanted);
      const { revision } = workspace;
      return { workspace_id: workspace.id, revision, path, data, next_cursor: next === null ? null : seal(next) };
    },

    /** Opens a file. Throws `not_found` with the ETag `"absent"`. */
    open,

    /** A private path at which the file can be fetched for five minutes, as it is now. */
    async address(organization: string, workspace: string, path: string): Promise<string> {
      const file = open(organization, workspace, path);
      try {
        const claims = { organization, workspace, path, etag: await file.etag() };
        return urls.seal(claims, clock.now() + downloadFor);
      } finally {
        file.close();
      }
    },

    /** Opens what a private path stands for. Throws `not_found`, or `etag_mismatch` when the file is not what it was. */
    async openPrivate(token: string): Promise<Reading & { tag: string }> {
      const { organization, workspace, path, etag: tag } = urls.open(token);
      if (!organization || !workspace || !path || !tag)
        throw new Fault('not_found', 'This private address is not for reading.');
      const file = open(organization, workspace, path);
      try {
        const etag = await file.etag();
        if (etag !== tag)
          throw new Fault('etag_mismatch', `The file ${path} has changed since this address was made.`, {
            details: { current_etag: etag },
          });
      } catch (error) {
        file.close();
        throw error;
      }
      return { ...file, tag };
    },

    /** Gives a file new bytes: those of the body, or of a transfer. The operation has ended when it resolves. */
    async write(
      asked: Asked,
      { bytes, transfer, executable }: { bytes: Buffer; transfer?: string | undefined; executable: boolean | null },
      record: Record,
    ): Promise<Operation> {
      const { organization, workspace, path } = asked;
      const staged = transfer ? stagedName(transfer) : `small-${clock.id()}`;
      const ready = transfer ? transfers.ready(organization, workspace, path, transfer) : undefined;
      const wanted = {
        sha256: ready?.sha256 ?? '',
        size_bytes: ready?.size_bytes ?? bytes.length,
        executable,
        staged,
        transfer_id: transfer ?? null,
      };
      const change = changeOf(asked, record.key, wanted);
      await writing.expect(change, organization);
      if (transfer) {
        // While others had their turn it may have been used.
        transfers.ready(organization, workspace, path, transfer);
        const operation = writing.carryOut(organization, change, record);
        removeStaged(staging, staged);
        return operation;
      }
      wanted.sha256 = await writing.stage(staged, bytes);
      try {
        return writing.carryOut(organization, change, record);
      } finally {
        removeStaged(staging, staged);
      }
    },

    async remove(asked: Asked, record: Record): Promise<Operation> {
      const change = changeOf(asked, record.key, null);
      await writing.expect(change, asked.organization);
      return writing.carryOut(asked.organization, change, record);
    },

    /** Announces a large file. `origin` is how the caller reaches this server. */
    createTransfer(tx: Tx, organization: string, id: string, body: TransferCreate, origin: string): Transfer {
      assertFile(body.path);
      const workspace = trees.get(organization, id);
      trees.assertOpen(workspace);
      tx.after(loop.wake);
      return transfers.create(tx, workspace, body, origin);
    },

    /** Takes the bytes that were sent to a transfer's private address. */
    receive(
      token: string,
      bytes: AsyncIterable<Uint8Array>,
      length: number | undefined,
      origin: string,
    ): Promise<Transfer> {
      const { upload } = urls.open(token);
      if (!upload) throw new Fault('not_found', 'This private address is not for writing.');
      return transfers.receive(upload, bytes, length, origin);
    },
  };
}
export type Files = ReturnType<typeof createFiles>;

/** Throws unless this is the path of a file, and not of the workspace itself. */
function assertFile(path: string): void {
  if (path === '') throw invalidPath(path, 'is empty; name a file');
  segmentsOf(path);
}

/** Throws for preconditions that are missing or malformed: the syntax of a change. */
function assertAsked({ path, ifMatch, ifNoneMatch }: Asked): void {
  assertFile(path);
  const tags = readTags('If-Match', ifMatch);
  const none = readTags('If-None-Match', ifNoneMatch);
  if (tags === undefined && none !== '*')
    throw new Fault(
      'precondition_required',
      'This needs If-Match: the file’s ETag, * for whatever is there, or "absent" to make it.',
      { param: 'If-Match' },
    );
}

/** Throws unless the new bytes come in one way: a body, which may be empty, or a transfer. */
function assertSource(bytes: Buffer, transfer: string | undefined): void {
  if (transfer === undefined || bytes.length === 0) return;
  const message = 'send an empty body together with transfer_id';
  throw new Fault('invalid_request', `To use a transfer, ${message}.`, {
    param: 'transfer_id',
    details: { errors: [{ path: '', message }] },
  });
}
