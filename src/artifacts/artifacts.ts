import { createReadStream, lstatSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import type { Artifact, ArtifactKind, Download } from '../api/artifacts.ts';
import type { Page } from '../api/common.ts';
import { Fault } from '../api/error.ts';
import { type Clock, iso } from '../base/clock.ts';
import { crashPoint } from '../base/crash.ts';
import type { Db, Tx } from '../base/db.ts';
import { isActive, mediaTypeOf } from '../base/media.ts';
import { type Paging, toPage } from '../base/page.ts';
import type { PrivateUrls } from '../base/private-url.ts';
import { type Bytes, openBlobs } from './blobs.ts';
import { createStore, toArtifact } from './store.ts';

interface Needs {
  db: Db;
  clock: Clock;
  urls: PrivateUrls;
  /** The daemon's data folder: the bytes lie below it. */
  folder: string;
}

/** How long a download address is good for, in milliseconds. */
const downloadFor = 300_000;

/** Whose artifacts they are. */
export interface Owner {
  id: string;
  organization_id: string;
  workspace_id: string;
}

/** Artifacts of a run that are being made: first all bytes, then all rows at once. Whoever begins it ends it. */
export interface Making {
  /** Copies bytes that become an artifact. Throws TooMany after `most` of them; what came before is not touched by that. */
  take(path: string, kind: ArtifactKind, bytes: AsyncIterable<Uint8Array>, most: number): Promise<Bytes>;
  /** To be called before `add`: everything is on disk. */
  flush(): Promise<void>;
  /** Writes the rows, in the order in which the bytes were taken. */
  add(tx: Tx): Artifact[];
  /** Removes what did not become an artifact. */
  end(): Promise<void>;
}

/** Bytes that are being read. Whoever asked for them closes them, unless the stream is taken. */
export interface Opened {
  name: string;
  size: number;
  active: boolean;
  tag: string;
  stream(first: number, last: number): Readable;
  close(): void;
}

/** What runs have left: copied once, named by its content, and handed out at short-lived addresses. */
export function createArtifacts({ db, clock, urls, folder }: Needs) {
  const store = createStore(db);
  const blobs = openBlobs(join(folder, 'artifacts'), store.isUsed);

  const find = (organization: string, id: string): Artifact => {
    const artifact = store.find(id);
    if (!artifact || artifact.organization_id !== organization)
      throw new Fault('not_found', `There is no artifact ${id}.`);
    return artifact;
  };

  return {
    get: find,

    /** The caller knows that the run is the organization's. */
    list: (run: string, paging: Paging): Page<Artifact> =>
      toPage(store.list(run, paging.after, paging.limit + 1), paging, toArtifact),

    /** Whether the run's have been made. */
    has: (run: string): boolean => store.has(run),

    /** The artifacts of a run, in the order in which they were made. */
    idsOf: (run: string): string[] => store.ofRun(run).map(({ id }) => id),

    /** An address at which the bytes can be fetched for five minutes. `origin` is how the caller reaches this server. */
    download(organization: string, id: string, origin: string): Download {
      const { size_bytes, sha256, media_type, name: file_name } = find(organization, id);
      const expires = clock.now() + downloadFor;
      const url = origin + urls.seal({ organization, artifact: id }, expires);
      return { url, expires_at: iso(expires), size_bytes, sha256, media_type, file_name };
    },

    /** Opens what a private address stands for; undefined when that is no artifact. Throws `not_found`. */
    openPrivate(token: string): Opened | undefined {
      const { organization, artifact } = urls.open(token);
      if (!organization || !artifact) return undefined;
      const { name, sha256, size_bytes: size } = find(organization, artifact);
      const path = blobs.pathOf(sha256);
      if (lstatSync(path, { throwIfNoEntry: false })?.size !== size)
        throw new Fault('not_found', `The bytes of the artifact ${artifact} are not in the data folder any more.`);
      return {
        name,
        size,
        active: isActive(name),
        tag: `"sha256-${sha256}"`,
        stream: (first, last) => createReadStream(path, { start: first, end: last, highWaterMark: 262_144 }),
        close: () => {},
      };
    },

    /** Begins to make the artifacts of a run that has just ended. */
    begin({ id: run_id, organization_id, workspace_id }: Owner): Making {
      const moving = blobs.begin(run_id);
      const drafts: (Pick<Artifact, 'path' | 'kind'> & Bytes)[] = [];
      return {
        async take(path, kind, bytes, most) {
          const kept = await moving.take(bytes, most);
          drafts.push({ path, kind, ...kept });
          return kept;
        },
        flush: moving.flush,
        add(_tx) {
          const now = iso(clock.now());
          return drafts.map(({ path, kind, size_bytes, sha256 }) => {
            const name = path.slice(path.lastIndexOf('/') + 1);
            const artifact: Artifact = {
              id: clock.id(),
              organization_id,
              run_id,
              workspace_id,
              name,
              path,
              kind,
              media_type: mediaTypes[kind] ?? mediaTypeOf(name),
              size_bytes,
              sha256,
              created_at: now,
              updated_at: now,
            };
            store.add(artifact);
            return artifact;
          });
        },
        end: moving.end,
      };
    },

    /** Removes all that a run has left. May be repeated. */
    async purge(run: string): Promise<void> {
      const gone = store.ofRun(run);
      if (gone.length === 0) return;
      const moving = blobs.begin(run);
      for (const { sha256 } of gone) moving.release(sha256);
      crashPoint('artifact.purge', 'released');
      db.write(() => store.removeOf(run));
      crashPoint('artifact.purge', 'committed');
      await moving.end();
    },
  };
}
export type Artifacts = ReturnType<typeof createArtifacts>;

/** Where the name says less than what is known. */
const mediaTypes: { [kind in ArtifactKind]?: string } = {
  diff: 'text/x-diff',
  transcript: 'application/jsonl',
  output: 'text/plain',
};
