/** What a tool works with. */
export interface Bench {
  /** The workspace, absolute, links resolved. */
  root: string;
  /** The environment of commands: without keys. */
  env: Record<string, string>;
  /** Aborted when the turn is cancelled. */
  signal: AbortSignal;
  /** Output as it comes, for people to see. */
  show(text: string): void;
}

/** What a tool answers. */
export interface Done {
  /** For the model, bounded. */
  text: string;
  exit_code?: number | null;
  /** What was changed in a file. */
  diff?: { path: string; oldText: string | null; newText: string };
}

type Input = Record<string, unknown>;

/** A tool that the model may call. */
export interface Tool {
  name: string;
  /** ACP's kind. */
  kind: 'read' | 'edit' | 'search' | 'execute' | 'think';
  description: string;
  /** JSON Schema of the input, an object. */
  schema: { properties: Record<string, { type: string; [more: string]: unknown }>; required: string[] };
  /** One line that says what this call does. */
  title(input: Input): string;
  /** The path that it is about, as it was given. */
  path?(input: Input): string | null;
  /** True when a person may want to be asked first. */
  asks: boolean;
  run(input: Input, bench: Bench): Promise<Done>;
}

/** Something that the model did wrong, or that is not so; the message is for it. */
export class ToolError extends Error {}

/** Characters that one answer of a tool may have: what is in the middle of a longer one is left out, and that is said. */
export const longestAnswer = 30_000;

/** A text of at most `most` characters: beginning and end, with what was left out named between them. */
export function bounded(text: string, most = longestAnswer): string {
  if (text.length <= most) return text;
  const half = Math.floor(most / 2);
  const start = text.slice(0, half);
  const end = text.slice(-half);
  return `${start}\n[… ${text.length - start.length - end.length} characters left out …]\n${end}`;
}

/** A string of the input; throws when it is something else. */
export function textOf(input: Input, name: string): string {
  const value = input[name];
  if (typeof value !== 'string') throw new ToolError(`"${name}" must be a string.`);
  return value;
}

/** A whole number of the input that is at least 1, or `other` when it is left out. */
export function countOf(input: Input, name: string, other: number): number {
  const value = input[name];
  if (value === undefined || value === null) return other;
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 1)
    throw new ToolError(`"${name}" must be a whole number of at least 1.`);
  return value;
}
