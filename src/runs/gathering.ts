import { closeSync, existsSync, openSync, readdirSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { ArtifactKind } from '../api/artifacts.ts';
import { Fault } from '../api/error.ts';
import { isTerminal } from '../api/runs.ts';
import type { Artifacts, Making } from '../artifacts/artifacts.ts';
import { piecesOf, TooMany } from '../artifacts/blobs.ts';
import type { Config } from '../base/config.ts';
import { crashPoint } from '../base/crash.ts';
import type { Db } from '../base/db.ts';
import { readGlob } from '../base/glob.ts';
import type { Logger } from '../base/log.ts';
import type { Events } from '../events/events.ts';
import { openFile, type Root } from '../files/beneath.ts';
import { matching } from '../files/matching.ts';
import { faultOf } from '../files/refusal.ts';
import { runFiles } from '../runner/protocol.ts';
import { Exclusions } from '../trees/exclusions.ts';
import { toBytes } from '../trees/name.ts';
import type { Workspaces } from '../workspaces/workspaces.ts';
import type { Runs } from './runs.ts';
import type { RunRow, RunStore } from './store.ts';
import { transcriptOf } from './transcript.ts';

interface Needs {
  db: Db;
  log: Logger;
  config: Config;
  store: RunStore;
  runs: Runs;
  events: Events;
  workspaces: Workspaces;
  artifacts: Artifacts;
  /** A folder as a root to stay in. */
  rootOf(folder: string): Root;
  folderOf(run: string): string;
}

const MiB = 1_048_576;
/** Files of which each gets a line of its own in the run's log when it is not kept. */
const mostNotes = 20;

/** What a run has left is copied before its end is said. Whatever fails in this is a line in the run's log, and no more. */
export function createGathering(needs: Needs) {
  const { db, log, config, store, runs, events, workspaces, artifacts, rootOf, folderOf } = needs;
  const limits = config.artifacts;
  const exclusions = new Exclusions(config.checkpoints.exclude);
  const leavesOut = (folder: string, name: string) => exclusions.leavesOut(toBytes(folder), toBytes(name), true);
  const everything = [readGlob('**', { hidden: true })];

  /** Collects all that one run has left; answers the folders that are needed no more, as all in them was taken. */
  const collect = async (row: RunRow, making: Making, note: (text: string) => void): Promise<string[]> => {
    const spent: string[] = [];
    let failures = 0;
    /** Says that something is not kept. */
    const miss = (text: string) => {
      failures += 1;
      note(text);
    };
    let [files, bytes] = [limits.max_files, limits.max_megabytes * MiB];

    const take = async (path: string, kind: ArtifactKind, from: AsyncIterable<Uint8Array>, most = Infinity) => {
      try {
        return (await making.take(path, kind, from, most)).size_bytes;
      } catch (error) {
        if (error instanceof TooMany) miss(tooLarge(path, most));
        else miss(`${path} could not be kept as an artifact: ${explain(row.id, error, path)}`);
        return 0;
      }
    };
    const tooLarge = (path: string, most: number) => {
      const setting = most < limits.max_file_megabytes * MiB ? 'max_megabytes' : 'max_file_megabytes';
      return `${path} is too large to be kept as an artifact; artifacts.${setting} is ${limits[setting]}.`;
    };

    const file = async (root: Root, path: string) => {
      const most = Math.min(bytes, limits.max_file_megabytes * MiB);
      try {
        const opened = openFile(root, path);
        if (!opened) return miss(`${path} could not be kept as an artifact: it is not there any more.`);
        if (opened.stat.size > BigInt(most)) {
          closeSync(opened.fd);
          return miss(tooLarge(path, most));
        }
        files -= 1;
        try {
          bytes -= await take(path, 'file', piecesOf(opened.fd), most);
        } finally {
          closeSync(opened.fd);
        }
      } catch (error) {
        miss(`${path} could not be kept as an artifact: ${explain(row.id, error, path)}`);
      }
    };

    const output = async (name: string, path: string) => {
      const shown = `output/${name}.log`;
      try {
        const fd = openSync(path, 'r');
        try {
          await take(shown, 'output', piecesOf(fd));
        } finally {
          closeSync(fd);
        }
      } catch (error) {
        miss(`${shown} could not be kept as an artifact: ${explain(row.id, error, shown)}`);
      }
    };

    const search = async (where: string, folder: string, globs: typeof everything, isOwn: boolean) => {
      const root = rootOf(folder);
      let found;
      try {
        found = await matching(root, globs, isOwn ? { most: files } : { most: files, leavesOut });
      } catch (error) {
        return miss(`Artifacts could not be looked for in ${where}: ${explain(row.id, error, where)}`);
      }
      if (!isOwn) for (const text of found.unmatched) note(`No file matches ${text}, so there is no artifact of it.`);
      for (const path of found.paths) await file(root, path);
      if (found.more === null) miss(`${where} has too many files to look at all of them for artifacts.`);
      else if (found.more > 0)
        miss(`${found.more} more files were not kept as artifacts; artifacts.max_files is ${limits.max_files}.`);
    };

    const folder = folderOf(row.id);
    const own = join(folder, runFiles.artifacts);
    if (existsSync(own)) await search('$AGENTCTL_ARTIFACTS', own, everything, true);
    if (failures === 0) spent.push(own);
    const workspace = workspaces.find(row.workspace_id);
    if (row.artifacts.length > 0 && workspace)
      await search(
        'the workspace',
        workspace.path,
        row.artifacts.map((text) => readGlob(text)),
        false,
      );
    failures = 0;
    const outputs = join(folder, runFiles.output);
    for (const name of existsSync(outputs) ? readdirSync(outputs).toSorted() : [])
      await output(name, join(outputs, name));
    if (failures === 0) spent.push(outputs);
    const { before, after } = row.checkpoint_ids;
    if (before !== null && after !== null) await take('changes.diff', 'diff', patchOf(row));
    await take('transcript.jsonl', 'transcript', transcriptOf(row, events));
    return spent;
  };

  async function* patchOf({ organization_id, id }: RunRow) {
    yield Buffer.from(await runs.diff(organization_id, id));
  }

  /** What went wrong, for a person; a defect of ours says nothing of its inside. */
  const explain = (run: string, error: unknown, path: string): string => {
    const fault = faultOf(error, path);
    if (fault instanceof Fault) return fault.message;
    log.error({ run, err: error }, 'An artifact could not be kept.');
    return 'this is a defect of agentctl; its log says more.';
  };

  const keep = async (row: RunRow): Promise<void> => {
    const { id } = row;
    const notes: string[] = [];
    let unsaid = 0;
    const note = (text: string) => void (notes.length < mostNotes ? notes.push(text) : (unsaid += 1));
    const making = artifacts.begin(row);
    try {
      const spent = await collect(row, making, note);
      await making.flush();
      crashPoint('artifact', 'flushed');
      db.write((tx) => {
        const current = store.find(id);
        if (!current || isTerminal(current.status)) return;
        const entry = runs.open(current);
        if (unsaid > 0) notes.push(`There are ${unsaid} more messages about artifacts like these.`);
        for (const text of notes) runs.say(entry, 'log', 'daemon', { level: 'warn', stream: 'daemon', text });
        for (const artifact of making.add(tx)) runs.say(entry, 'artifact.created', 'daemon', artifact);
        runs.close(tx, entry);
      });
      crashPoint('artifact', 'committed');
      for (const path of spent)
        await rm(path, { recursive: true, force: true }).catch((error: unknown) =>
          log.warn({ run: id, err: error }, 'Files that became artifacts could not be removed.'),
        );
    } finally {
      await making.end();
    }
  };

  /** Says that there are none, if even that can be said. */
  const despair = (id: string, error: unknown): void => {
    const text = `The artifacts of this run could not be kept: ${explain(id, error, 'what it left')}`;
    try {
      db.write((tx) => {
        const current = store.find(id);
        if (!current || isTerminal(current.status)) return;
        const entry = runs.open(current);
        runs.say(entry, 'log', 'daemon', { level: 'error', stream: 'daemon', text });
        runs.close(tx, entry);
      });
    } catch (again) {
      log.error({ run: id, err: again }, 'The log of a run could not be written.');
    }
  };

  const busy = new Map<string, Promise<void>>();

  return {
    /** Whether there may be something to keep: not of a run that never began, and not twice. */
    wants: (row: RunRow): boolean => row.runner !== null && !artifacts.has(row.id),

    /** Keeps what a run that is about to end has left. Never rejects. */
    keep(id: string): Promise<void> {
      const row = store.find(id);
      if (!row || isTerminal(row.status) || !this.wants(row)) return Promise.resolve();
      const known = busy.get(id);
      if (known) return known;
      const kept = keep(row)
        .catch((error: unknown) => despair(id, error))
        .finally(() => busy.delete(id));
      busy.set(id, kept);
      return kept;
    },
  };
}
export type Gathering = ReturnType<typeof createGathering>;
