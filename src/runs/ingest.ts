import { join } from 'node:path';
import { isTerminal, noIsolation } from '../api/runs.ts';
import type { Clock } from '../base/clock.ts';
import { crashPoint } from '../base/crash.ts';
import type { Db, Tx } from '../base/db.ts';
import type { Logger } from '../base/log.ts';
import type { Inputs } from '../inputs/inputs.ts';
import { type ControlRecord, runFiles } from '../runner/protocol.ts';
import { type Frame, readSpool, SpoolDamaged } from '../runner/spool.ts';
import type { UsageLedger } from '../usage/usage.ts';
import type { Sessions } from '../sessions/sessions.ts';
import type { Workspaces } from '../workspaces/workspaces.ts';
import { mergeChanges, toChanges } from './changes.ts';
import type { Gathering } from './gathering.ts';
import type { Snapshots } from './snapshots.ts';
import type { Entry, Runs } from './runs.ts';
import type { RunStore } from './store.ts';

interface Needs {
  db: Db;
  clock: Clock;
  log: Logger;
  store: RunStore;
  runs: Runs;
  workspaces: Workspaces;
  sessions: Sessions;
  inputs: Inputs;
  usage: UsageLedger;
  /** Whether the tree is to be kept before the run may end, and keeping it. */
  snapshots: Snapshots;
  /** Whether what the run has left is to be kept before, and keeping it. */
  gathering: Gathering;
  /** The folder of a run. */
  folderOf(run: string): string;
  /** After the commit of a run's end. */
  ended(run: string): void;
  /** A spool that cannot be read any further. */
  damaged(run: string, error: SpoolDamaged): void;
}

/** Bytes read of one spool in a turn, and of all of them: so that the event loop stays free for others. */
const perRun = 65_536;
const perTurn = 524_288;

/**
 * Brings what runners left in their spools into the log: events and how far was read in one transaction, so that each is
 * stored exactly once, whenever the daemon dies.
 */
export function createIngest(needs: Needs) {
  const { db, log, store, runs, workspaces, sessions, inputs, snapshots, gathering, folderOf, ended, damaged } = needs;
  const { usage: ledger } = needs;
  const grown = new Set<string>();
  let scheduled = false;
  /** Runs that have said their last word, while their tree and their artifacts are kept; and those for which that has been tried. */
  const holding = new Map<string, Promise<void>>();
  const held = new Set<string>();

  const control = (tx: Tx, entry: Entry, record: ControlRecord): boolean => {
    const { row, fields } = entry;
    crashPoint(`record.${record.record}`, 'read');
    switch (record.record) {
      case 'started': {
        if (row.status !== 'queued') return false;
        runs.move(entry, 'running', 'daemon', 'started');
        Object.assign(fields, { started_at: record.at, model: record.model ?? row.model });
        const { harness, agent_id, agent_revision, attempt } = row;
        const workspace_revision = workspaces.find(row.workspace_id)?.revision ?? 0;
        const model = record.model ?? row.model;
        const isolation = row.isolation ?? noIsolation;
        runs.say(
          entry,
          'run.started',
          'daemon',
          {
            harness,
            harness_version: record.harness_version,
            harness_path: record.harness_path ?? null,
            model,
            agent_id,
            agent_revision,
            workspace_revision,
            isolation,
            attempt,
          },
          record.at,
        );
        if (row.cancel_requested_at !== null) runs.move(entry, 'cancelling', 'user', 'cancel_requested');
        return false;
      }
      case 'session':
        sessions.setNative(tx, row.session_id, record.native_session_id);
        return false;
      case 'usage': {
        fields.usage = ledger.summed(row.id, record.usage);
        runs.say(entry, 'usage.updated', 'daemon', { ...fields.usage, limit_percent: record.limit_percent }, record.at);
        return false;
      }
      case 'call':
        ledger.record(tx, row, record.call);
        fields.usage = ledger.summed(row.id, fields.usage ?? row.usage);
        return false;
      case 'changed': {
        const workspace_revision = workspaces.grow(
          tx,
          row.workspace_id,
          record.changes.map(({ path }) => path),
        );
        fields.changes = mergeChanges(fields.changes ?? row.changes, record.changes);
        runs.say(entry, 'file.changed', 'daemon', { changes: record.changes, workspace_revision }, record.at);
        return false;
      }
      case 'input': {
        const request = inputs.add(tx, row, record.request);
        if (!request) return false;
        runs.say(entry, 'input.requested', 'harness', request, record.at);
        if ((fields.status ?? row.status) === 'running') {
          runs.move(entry, 'awaiting_input', 'harness', 'input_requested');
          sessions.mark(tx, row.session_id, 'awaiting_input');
        }
        return false;
      }
      case 'input_closed': {
        const { request_id, status } = record;
        if (!inputs.close(tx, request_id, status)) return false;
        runs.say(entry, 'input.resolved', 'daemon', { request_id, status, answered_by: null }, record.at);
        if ((fields.status ?? row.status) === 'awaiting_input' && inputs.pending(row.id).length === 0) {
          runs.move(entry, 'running', 'daemon', `input_${status}`);
          sessions.mark(tx, row.session_id, 'running');
        }
        return false;
      }
      case 'final': {
        const { status, stop_reason, error, usage, text, structured_output = null, changes } = record;
        // The trees before and after say more than the run's own watch.
        const { before, after } = row.checkpoint_ids;
        const found = before !== null && after !== null ? row.changes : toChanges(changes);
        Object.assign(fields, {
          usage: ledger.summed(row.id, usage),
          text: text ?? fields.text ?? row.text,
          structured_output,
          changes: found,
        });
        runs.end(tx, entry, { status, stop_reason, error });
        return true;
      }
    }
  };

  /** Stores a stretch of a run's spool; answers whether the run has ended with it. */
  const storeFrames = (tx: Tx, id: string, frames: Frame[]): boolean => {
    const row = store.find(id);
    if (!row || isTerminal(row.status)) return true;
    const entry = runs.open(row);
    for (const { kind, text, end } of frames) {
      if (end <= row.spool_offset) continue;
      const record = kind === 'c' ? (JSON.parse(text) as ControlRecord) : undefined;
      const isFinal = record?.record === 'final' && !held.has(id);
      if (isFinal && (snapshots.wants(row, 'after') || gathering.wants(row))) {
        tx.after(() => hold(id));
        break;
      }
      entry.fields.spool_offset = end;
      if (record) {
        if (control(tx, entry, record)) {
          tx.after(() => {
            held.delete(id);
            ended(id);
          });
          return true;
        }
        continue;
      }
      entry.texts.push(text);
      if (text.startsWith('{"type":"message.completed"')) {
        const { data } = JSON.parse(text) as { data: { role: string; text: string } };
        if (data.role === 'assistant') entry.fields.text = data.text;
      }
    }
    runs.close(tx, entry);
    return false;
  };

  /** The run's last word waits until its tree and its artifacts have been kept: nothing may come after it. */
  const hold = (id: string): void => {
    if (holding.has(id)) return;
    const kept = snapshots
      .keep(id, 'after')
      .then(() => gathering.keep(id))
      .catch((error: unknown) => log.error({ run: id, err: error }, 'What a run leaves could not be kept.'))
      .finally(() => {
        held.add(id);
        holding.delete(id);
        grown.add(id);
        schedule();
      });
    holding.set(id, kept);
  };

  /** Reads once of every spool that has grown; what is left is done in the next turn. */
  const turn = (): void => {
    scheduled = false;
    let budget = perTurn;
    const read: { id: string; frames: Frame[] }[] = [];
    for (const id of grown) {
      if (budget <= 0) break;
      grown.delete(id);
      if (holding.has(id)) continue;
      const row = store.find(id);
      if (!row || isTerminal(row.status)) continue;
      try {
        const frames = readSpool(join(folderOf(id), runFiles.spool), row.spool_offset, perRun);
        const last = frames.at(-1);
        if (!last) continue;
        const size = last.end - row.spool_offset;
        budget -= size;
        if (size >= perRun / 2) grown.add(id);
        read.push({ id, frames });
      } catch (error) {
        if (!(error instanceof SpoolDamaged)) throw error;
        damaged(id, error);
      }
    }
    if (read.length > 0) {
      try {
        crashPoint('ingest', 'read');
        db.write((tx) => {
          for (const { id, frames } of read) storeFrames(tx, id, frames);
          crashPoint('ingest', 'before_commit');
        });
        crashPoint('ingest', 'committed');
      } catch (error) {
        // Nothing was stored, so nothing is lost: the spools are read again.
        log.error({ err: error }, 'Events could not be stored.');
        for (const { id } of read) grown.add(id);
        needs.clock.timer(500, schedule);
        return;
      }
    }
    if (grown.size > 0) schedule();
  };

  const schedule = () => {
    if (scheduled) return;
    scheduled = true;
    setImmediate(turn);
  };

  return {
    /** The run's spool has more. */
    grown(run: string): void {
      grown.add(run);
      schedule();
    },

    /** Stores all that a run has left. Throws what the store throws. */
    async drain(run: string): Promise<void> {
      for (;;) {
        await holding.get(run);
        const row = store.find(run);
        if (!row || isTerminal(row.status)) return;
        const frames = readSpool(join(folderOf(run), runFiles.spool), row.spool_offset, perTurn);
        if (frames.length === 0) return;
        db.write((tx) => storeFrames(tx, run, frames));
      }
    },

    idle: (): boolean => grown.size === 0 && !scheduled && holding.size === 0,
  };
}
export type Ingest = ReturnType<typeof createIngest>;
