/** What a scripted model does. No conversation is kept: which step comes next is read off each request, so that retries, parallel runs and resumed sessions all behave. */
export interface Scenario {
  usage?: Partial<Tokens>;
  /** The answer to requests that offer no tools: titles, summaries. */
  side?: Step;
  scripts: {
    /** A pattern for the user's words; the latest match counts. Left out: any. */
    when?: string;
    /** Step n is played when the assistant has called tools n times since those words; the last one is used again. */
    steps: Step[];
  }[];
}

export interface Tokens {
  input: number;
  output: number;
  cached: number;
  reasoning: number;
}

/** One answer of the model. */
export interface Step {
  thinking?: string;
  text?: string;
  calls?: Intent[];
  usage?: Partial<Tokens>;
  /** Milliseconds between two chunks. */
  chunkMs?: number;
  /** Says its text and never finishes. */
  hang?: boolean;
  /** Says its text and breaks off: the connection, or as if that were all. With `times`, only so often. */
  cut?: { how: 'destroy' | 'end'; times?: number };
  /** Fails; with `times`, only so often. */
  error?: { status: number; message?: string; times?: number };
}

/** What to do, not with which tool: the server picks one that was offered and fills its own argument names in. */
export type Intent =
  | { do: 'write'; path: string; content: string }
  | { do: 'edit'; path: string; old: string; new: string }
  | { do: 'read'; path: string }
  | { do: 'shell'; command: string; escalated?: true };

/** A tool that an agent offers. `custom` tools take free text instead of arguments. */
export interface Tool {
  name: string;
  namespace?: string;
  custom?: boolean;
  schema: Schema;
}

export interface Schema {
  type?: string | string[];
  properties?: Record<string, Schema>;
  items?: Schema;
  required?: string[];
  default?: unknown;
  const?: unknown;
  enum?: unknown[];
  anyOf?: Schema[];
  oneOf?: Schema[];
}

/** A request in one shape, whatever dialect it came in. */
export interface Asked {
  turns: { role: string; text: string; calls: number }[];
  tools: Tool[];
  stream: boolean;
  model: string;
  /** The form that the answer must have, if one is asked for. */
  form?: Schema;
}

/** A tool call as it is sent back. */
export type Call = { name: string; namespace?: string } & ({ args: Record<string, unknown> } | { input: string });

/** A whole answer, ready to be written in a dialect. */
export interface Reply {
  model: string;
  thinking: string;
  text: string;
  calls: Call[];
  usage: Tokens;
  hang: boolean;
}

/** The step that answers a request, with a name for it. */
export function chooseStep(scenario: Scenario, asked: Asked): Step & { label: string } {
  if (asked.form) return { text: JSON.stringify(smallest(asked.form)), label: 'form' };
  if (asked.tools.length === 0) return { ...(scenario.side ?? { text: 'ok' }), label: 'side' };
  let best: { index: number; at: number; named: boolean } | null = null;
  for (const [index, { when }] of scenario.scripts.entries()) {
    const pattern = when === undefined ? null : new RegExp(when);
    const at = asked.turns.findLastIndex(({ role, text }) => role === 'user' && (!pattern || pattern.test(text)));
    if (at < 0) continue;
    const named = pattern !== null;
    if (!best || (named && !best.named) || (named === best.named && at > best.at)) best = { index, at, named };
  }
  if (!best) return { text: 'No script fits this prompt.', label: 'none' };
  const { index, at } = best;
  const count = asked.turns.slice(at + 1).filter(({ role, calls }) => role === 'assistant' && calls > 0).length;
  const steps = scenario.scripts[index]?.steps ?? [];
  return { ...steps[Math.min(count, steps.length - 1)], label: `script ${index} step ${count}` };
}

/** The smallest value that a JSON schema takes. */
export function smallest(schema: Schema | undefined, depth = 0): unknown {
  if (!schema || depth > 8) return null;
  if (schema.const !== undefined) return schema.const;
  if (schema.enum) return schema.enum[0];
  const [branch] = schema.anyOf ?? schema.oneOf ?? [];
  if (branch) return smallest(branch, depth + 1);
  const type = String(Array.isArray(schema.type) ? schema.type[0] : (schema.type ?? 'object')).toLowerCase();
  if (type === 'object') {
    return Object.fromEntries(
      Object.entries(schema.properties ?? {}).map(([name, one]) => [name, smallest(one, depth + 1)]),
    );
  }
  if (type === 'array') return [];
  return { string: 'fake', boolean: false, number: 1, integer: 1 }[type] ?? null;
}
