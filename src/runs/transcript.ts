import type { EventData } from '../api/events.ts';
import type { Events } from '../events/events.ts';
import type { RunRow } from './store.ts';

/** Events read at once. */
const batch = 200;
/** What a whole that follows repeats, or what the result has. */
const left = new Set(['message.started', 'usage.updated']);

type Delta = EventData['message.delta'];
interface Piece {
  type: string;
  data: Delta;
}

/**
 * A run as JSON Lines: first what it was asked, then its events as the history has them, without pieces of messages that were
 * completed. A message that never was is one line with all its text. What the history keeps no more is missing here, too.
 */
export async function* transcriptOf(run: RunRow, events: Pick<Events, 'stretch'>): AsyncGenerator<Buffer> {
  const { id: run_id, session_id, workspace_id, harness, model, created_at, prompt } = run;
  const asked = {
    type: 'prompt',
    run_id,
    session_id,
    workspace_id,
    harness,
    model,
    created_at,
    data: { text: prompt },
  };
  yield Buffer.from(`${JSON.stringify(asked)}\n`);
  const open = new Map<string, Piece>();
  for (let after = 0; ;) {
    const rows = events.stretch(run.key, after, batch);
    const lines: string[] = [];
    for (const { type, body } of rows) {
      if (left.has(type)) continue;
      if (type === 'message.delta' || type === 'reasoning.delta') {
        const piece = JSON.parse(body) as Piece;
        const before = open.get(piece.data.message_id);
        if (before) before.data.text += piece.data.text;
        else open.set(piece.data.message_id, piece);
        continue;
      }
      if (type === 'message.completed' || type === 'reasoning.completed')
        open.delete((JSON.parse(body) as Piece).data.message_id);
      lines.push(body);
    }
    const last = rows.at(-1);
    if (!last) break;
    after = last.sequence;
    if (lines.length > 0) yield Buffer.from(`${lines.join('\n')}\n`);
    await new Promise(setImmediate);
  }
  for (const piece of open.values()) yield Buffer.from(`${JSON.stringify(piece)}\n`);
}
