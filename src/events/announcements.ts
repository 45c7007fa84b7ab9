import type { EventType, StoredEvent } from '../api/events.ts';
import type { WebhookEventType } from '../api/webhooks.ts';

/** Something that others may want to be told of. */
export interface Announcement {
  key: number;
  /** Null where a run says it: the run's. */
  organization_id: string | null;
  run_id: string | null;
  type: WebhookEventType;
  created_at: string;
  /** A short summary, without a word of what an agent or a tool has written. */
  data: Record<string, unknown>;
}

type Data = StoredEvent['data'];

/** The events of a run that are announced: under which type, and what of their data. */
const announced: { [T in EventType]?: { type: WebhookEventType; pick(data: Data): Data } } = {
  'run.started': {
    type: 'run.started',
    pick: ({ harness, model, attempt }) => ({ status: 'running', harness, model, attempt }),
  },
  'input.requested': {
    type: 'run.awaiting_input',
    pick: ({ id, kind, expires_at }) => ({ status: 'awaiting_input', input_request_id: id, kind, expires_at }),
  },
  'limit.warning': { type: 'run.limit_warning', pick: ({ limit, percent }) => ({ limit, percent }) },
  'checkpoint.created': {
    type: 'checkpoint.created',
    pick: ({ checkpoint_id, trigger }) => ({ object: 'checkpoint', id: checkpoint_id, trigger }),
  },
  'run.completed': { type: 'run.completed', pick: (data) => ending('completed', data) },
  'run.failed': { type: 'run.failed', pick: (data) => ending('failed', data) },
  'run.cancelled': { type: 'run.cancelled', pick: (data) => ending('cancelled', data) },
};

/** An error's message may quote what a harness printed: its code says enough. */
const ending = (status: string, { stop_reason, error, usage }: Data): Data => ({
  status,
  stop_reason,
  error_code: (error as { code: string } | null)?.code ?? null,
  usage,
});

/** What is announced of a run's event, given as its JSON text; undefined for most types. */
export function announcementOf(type: string, text: string): Omit<Announcement, 'key'> | undefined {
  const rule = Object.hasOwn(announced, type) ? announced[type as EventType] : undefined;
  if (!rule) return undefined;
  const { created_at, data } = JSON.parse(text) as StoredEvent;
  return { organization_id: null, run_id: null, type: rule.type, created_at, data: rule.pick(data) };
}
