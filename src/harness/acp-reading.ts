import { list, record, text } from './loose.ts';

const longestInput = 65_536;

/** Text of a tool call's `content`: only what reads as output; diffs and terminals are told elsewhere. */
export const contentText = (content: unknown): string =>
  list(content)
    .map((entry) => {
      const item = record(entry);
      return item?.type === 'content' ? (text(record(item.content)?.text) ?? '') : '';
    })
    .join('');

/** Output that came in a Markdown fence, as Claude sends it, without it. */
export const unfenced = (output: string): string => /^```[\w-]*\n([\s\S]*?)\n?```\s*$/.exec(output)?.[1] ?? output;

/** Text in a raw result, of which every agent has its own form. */
export function rawText(raw: unknown): string {
  if (typeof raw === 'string') return raw;
  const result = record(raw);
  if (!result) return '';
  for (const key of ['output', 'formatted_output', 'aggregated_output', 'text', 'error', 'message']) {
    const found = text(result[key]);
    if (found) return found;
  }
  const streams = `${text(result.stdout) ?? ''}${text(result.stderr) ?? ''}`;
  if (streams) return streams;
  const nested = result.content ?? record(result.result)?.content;
  return list(nested)
    .map((entry) => text(record(entry)?.text) ?? '')
    .join('\n');
}

/** The tool's name in a call's id, where an agent puts it (`read_file__fc_…`); null where it does not. */
export const nameInId = (id: string): string | null => /^([A-Za-z][\w.-]*?)__[\w-]{6,}$/.exec(id)?.[1] ?? null;

/** An input as it is, or its text cut to 64 KiB: a file that is written stands in the workspace anyway. */
export function shortened(input: unknown): unknown {
  if (input === null || input === undefined) return null;
  const json = JSON.stringify(input);
  if (json.length <= longestInput) return input;
  const entries = Object.entries(record(input) ?? {});
  if (entries.length === 0 || entries.length > 100) return { truncated: json.slice(0, longestInput) };
  const share = Math.floor(longestInput / entries.length);
  return Object.fromEntries(
    entries.map(([key, value]) => {
      const own = JSON.stringify(value) ?? '';
      if (own.length <= share) return [key, value];
      return [key, `${typeof value === 'string' ? value.slice(0, share) : own.slice(0, share)}…`];
    }),
  );
}
