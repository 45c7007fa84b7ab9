import { isAbsolute, normalize, relative, sep } from 'node:path';
import type { GrantPattern } from '../api/grants.ts';
import { list, type Loose, record, text } from '../harness/loose.ts';

/** Characters of a tool's name, and of what it is given, that a person can be expected to read. */
const longest = { tool: 200, pattern: 8192 };

/** What cannot be seen, or looks like something else: whoever allows it would not know what. Line feeds and tabs are seen. */
const unseen = /(?![\n\t])[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/u;

/** JSON with sorted names: equal exactly when the values are. */
const canonical = (value: unknown): string =>
  JSON.stringify(value, (_, inner: unknown) => {
    const object = record(inner);
    return object ? Object.fromEntries(Object.entries(object).toSorted(([a], [b]) => (a < b ? -1 : 1))) : inner;
  });

/** Files that a call names, wherever it does. */
const pathsOf = (call: Loose, input: Loose | null): string[] => {
  const places = [...list(call.locations), ...list(call.content)].map((entry) => text(record(entry)?.path));
  const given = [input?.path, input?.file_path, input?.filepath].map(text);
  return [...new Set([...places, ...given].filter((path) => path !== null))];
};

/** Within the workspace from its root, so that it is the same file in another workspace of the project. */
const shownPath = (path: string, workspace: string): string => {
  if (!isAbsolute(path) || normalize(path) !== path) return path;
  const way = relative(workspace, path);
  return way === '' || way === '..' || way.startsWith(`..${sep}`) ? path : way;
};

/** The category of a call that does something to one file. */
const aboutFiles = ['edit', 'read', 'delete'];

/**
 * What "always" would allow of this call: two calls have the same exactly when nothing that matters differs between them. Null
 * where that cannot be said, or not be shown in full.
 */
export function subjectOf(call: Loose | null, category: string | null, workspace: string): GrantPattern | null {
  if (!call) return null;
  const input = record(call.rawInput);
  const found = find(call, input, category, workspace);
  if (!found) return null;
  const { tool, pattern } = found;
  if (tool.length > longest.tool || pattern.length > longest.pattern || pattern.trim() === '') return null;
  return unseen.test(tool) || unseen.test(pattern) ? null : found;
}

function find(call: Loose, input: Loose | null, category: string | null, workspace: string): GrantPattern | null {
  const name = text(call.name);
  if (category === 'execute') {
    // A command's description is for the reader and does nothing.
    const { description: _, ...given } = input ?? {};
    const command = text(given.command);
    const tool = name ?? category;
    if (command !== null && Object.keys(given).length === 1) return { kind: 'command', tool, pattern: command };
    if (input) return { kind: 'call', tool, pattern: canonical(given) };
    // An agent that gives nothing but words: then these are what is shown, and what counts.
    const words = list(call.content).map((entry) => text(record(record(entry)?.content)?.text));
    return { kind: 'call', tool, pattern: canonical([call.title ?? null, ...words]) };
  }
  if (category !== null && aboutFiles.includes(category)) {
    const paths = pathsOf(call, input);
    const [path] = paths;
    if (path !== undefined && paths.length === 1)
      return /[\n\t]/.test(path) ? null : { kind: 'path', tool: category, pattern: shownPath(path, workspace) };
  }
  const tool = name ?? text(call.title);
  return input && tool ? { kind: 'call', tool, pattern: canonical(input) } : null;
}

/** The grant that lets this call through: the same, letter for letter. */
export const grantFor = <G extends GrantPattern>(subject: GrantPattern | null, grants: readonly G[]): G | undefined =>
  subject === null
    ? undefined
    : grants.find(
        ({ kind, tool, pattern }) => kind === subject.kind && tool === subject.tool && pattern === subject.pattern,
      );
