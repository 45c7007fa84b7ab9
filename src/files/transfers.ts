import { createHash } from 'node:crypto';
import { fsyncSync, openSync, closeSync, renameSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { Fault } from '../api/error.ts';
import type { Transfer, TransferCreate } from '../api/files.ts';
import type { Workspace } from '../api/workspaces.ts';
import { type Clock, iso } from '../base/clock.ts';
import { crashPoint } from '../base/crash.ts';
import type { Db, Tx } from '../base/db.ts';
import type { PrivateUrls } from '../base/private-url.ts';
import { removeStaged } from './staging.ts';
import type { Store, TransferRow } from './store.ts';
import { faultOf } from './refusal.ts';

/** How long a transfer may take from its creation to the write, in milliseconds. */
const lasts = 900_000;

/** The name under which a transfer's bytes are staged. */
export const stagedName = (transfer: string): string => `transfer-${transfer}`;

/** Large files on their way in: announced, uploaded to a private address, then taken by a write. */
export function createTransfers({
  db,
  clock,
  store,
  urls,
  staging,
}: {
  db: Db;
  clock: Clock;
  store: Store;
  urls: PrivateUrls;
  staging: string;
}) {
  const shown = (row: TransferRow, origin: string): Transfer => {
    const { id, organization_id, workspace_id, path, size_bytes, sha256, status, expires_at, created_at, updated_at } =
      row;
    const upload_url = origin + urls.seal({ upload: id }, Date.parse(expires_at));
    return {
      id,
      organization_id,
      workspace_id,
      path,
      size_bytes,
      sha256,
      status,
      upload_url,
      expires_at,
      created_at,
      updated_at,
    };
  };

  const find = (id: string): TransferRow => {
    const row = store.find(id);
    if (!row || Date.parse(row.expires_at) <= clock.now())
      throw new Fault('not_found', `There is no transfer ${id}, or it has expired.`);
    return row;
  };

  return {
    /** `origin` is how the caller reaches this server; the upload address begins with it. */
    create(_tx: Tx, { id, organization_id }: Workspace, body: TransferCreate, origin: string): Transfer {
      const now = iso(clock.now());
      const row: TransferRow = {
        id: clock.id(),
        organization_id,
        workspace_id: id,
        path: body.path,
        size_bytes: body.size_bytes,
        sha256: body.sha256.toLowerCase(),
        status: 'pending',
        expires_at: iso(clock.now() + lasts),
        created_at: now,
        updated_at: now,
      };
      store.add(row);
      return shown(row, origin);
    },

    /**
     * Takes a transfer's bytes, in pieces, and keeps them when they are the announced ones. They may be sent again until they
     * are used. `length` is what the sender announces, if it does.
     */
    async receive(
      id: string,
      bytes: AsyncIterable<Uint8Array>,
      length: number | undefined,
      origin: string,
    ): Promise<Transfer> {
      const row = find(id);
      assertOpen(row);
      const tooLarge = () =>
        new Fault('payload_too_large', `The transfer was announced with ${row.size_bytes} bytes.`, {
          details: { max_bytes: row.size_bytes },
        });
      if (length !== undefined && length > row.size_bytes) throw tooLarge();
      const part = `part-${clock.id()}`;
      try {
        const file = await open(join(staging, part), 'wx', 0o600);
        const sum = createHash('sha256');
        let size = 0;
        try {
          for await (const piece of bytes) {
            size += piece.length;
            if (size > row.size_bytes) throw tooLarge();
            sum.update(piece);
            await file.writeFile(piece);
          }
          assertAnnounced(row, size, sum.digest('hex'));
          await file.sync();
        } finally {
          await file.close();
        }
        crashPoint('transfer', 'received');
        // From here on nothing comes in between: a write may have used the transfer meanwhile.
        assertOpen(find(id));
        renameSync(join(staging, part), join(staging, stagedName(id)));
        const folder = openSync(staging, 'r');
        fsyncSync(folder);
        closeSync(folder);
        db.write(() => store.move(id, 'pending', 'uploaded', iso(clock.now())));
      } catch (error) {
        throw faultOf(error, 'The staging folder');
      } finally {
        removeStaged(staging, part);
      }
      return shown(find(id), origin);
    },

    /** The transfer, if a write of this file may take it. Throws `not_found` or `invalid_state`. */
    ready(organization: string, workspace: string, path: string, id: string): TransferRow {
      const row = find(id);
      if (row.organization_id !== organization || row.workspace_id !== workspace || row.path !== path)
        throw new Fault('not_found', `There is no transfer ${id} for this file.`);
      if (row.status !== 'uploaded')
        throw new Fault(
          'invalid_state',
          `The transfer is ${row.status}; its bytes must be uploaded, and are used once.`,
          {
            details: { state: row.status },
          },
        );
      return row;
    },

    used: (_tx: Tx, id: string): boolean => store.move(id, 'uploaded', 'used', iso(clock.now())),

    /** Forgets what has expired; answers in how many milliseconds the next one does, or null. */
    expire(): number | null {
      for (let some; (some = store.expired(iso(clock.now()))).length > 0;)
        for (const { id } of some) {
          db.write(() => store.remove(id));
          removeStaged(staging, stagedName(id));
        }
      const next = store.nextExpiry();
      return next === undefined ? null : Math.max(0, Date.parse(next) - clock.now());
    },

    /** The staged files of those that have not expired. */
    staged: (): string[] => store.uploaded().map(({ id }) => stagedName(id)),
  };
}
export type Transfers = ReturnType<typeof createTransfers>;

function assertOpen({ status }: TransferRow): void {
  if (status === 'used')
    throw new Fault('invalid_state', 'This transfer has been used; make a new one.', { details: { state: status } });
}

function assertAnnounced(row: TransferRow, size: number, sha256: string): void {
  const message =
    size !== row.size_bytes
      ? `${row.size_bytes} bytes were announced and ${size} have come`
      : sha256 !== row.sha256
        ? `the bytes have another SHA-256 than the announced one`
        : undefined;
  if (message)
    throw new Fault('invalid_request', `The transfer is not what was announced: ${message}.`, {
      details: { errors: [{ path: '', message }] },
    });
}
