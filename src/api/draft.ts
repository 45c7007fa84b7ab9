import type { EventDraft } from './events.ts';

/**
 * The JSON text of an event before it has its place: `type` comes first, so that it can be read off without parsing. In a file
 * of its own, because a runner starts without the schemas.
 */
export const draftText = ({ type, source, created_at, data }: EventDraft): string =>
  JSON.stringify({ type, source, created_at, data });
