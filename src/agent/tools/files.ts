import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { placeOf, writablePlaceOf } from './place.ts';
import { bounded, countOf, textOf, type Tool, ToolError } from './tool.ts';

const longestFile = 16 * 1_048_576;
const linesAtOnce = 2000;
const longestLine = 2000;

function textAt(place: string, path: string): string {
  const { size } = statSync(place);
  if (size > longestFile) throw new ToolError(`${path} has ${size} bytes; read parts of it with the shell.`);
  const bytes = readFileSync(place);
  if (bytes.subarray(0, 8192).includes(0)) throw new ToolError(`${path} is not a text file (${size} bytes).`);
  return bytes.toString('utf8');
}

const readable = (error: unknown, path: string): never => {
  const { code } = error as NodeJS.ErrnoException;
  if (code === 'ENOENT' || code === 'ENOTDIR') throw new ToolError(`There is no ${path}.`);
  if (code === 'EACCES') throw new ToolError(`${path} may not be opened.`);
  if (code === 'EISDIR') throw new ToolError(`${path} is a folder.`);
  throw error;
};

const listing = (place: string): string => {
  const entries = readdirSync(place, { withFileTypes: true });
  const names = entries.map((entry) => (entry.isDirectory() ? `${entry.name}/` : entry.name)).toSorted();
  return names.length === 0 ? 'The folder is empty.' : bounded(names.join('\n'));
};

/** `read`: lines of a file with their numbers, or the names in a folder. */
export const read: Tool = {
  name: 'read',
  kind: 'read',
  description:
    'Read a text file, with line numbers, or list a folder. At most 2000 lines at once: give offset and limit for more.',
  schema: {
    properties: {
      path: { type: 'string', description: 'Relative to the workspace, or absolute.' },
      offset: { type: 'integer', minimum: 1, description: 'The first line to read; 1 when left out.' },
      limit: { type: 'integer', minimum: 1, description: 'How many lines.' },
    },
    required: ['path'],
  },
  title: ({ path }) => `Read ${String(path)}`,
  path: ({ path }) => String(path),
  asks: false,
  async run(input, { root }) {
    const path = textOf(input, 'path');
    const offset = countOf(input, 'offset', 1);
    const limit = Math.min(countOf(input, 'limit', linesAtOnce), linesAtOnce);
    try {
      const place = placeOf(root, path);
      if (statSync(place).isDirectory()) return { text: listing(place) };
      const text = textAt(place, path);
      if (text === '') return { text: 'The file is empty.' };
      const lines = text.split('\n');
      if (lines.at(-1) === '') lines.pop();
      if (offset > lines.length) throw new ToolError(`${path} has only ${lines.length} lines.`);
      const shown = lines.slice(offset - 1, offset - 1 + limit).map((line, index) => {
        const cut = line.length > longestLine ? `${line.slice(0, longestLine)}…` : line;
        return `${offset + index}\t${cut}`;
      });
      const left = lines.length - (offset - 1 + shown.length);
      const more = left > 0 ? `\n[${left} more lines; the next is ${offset + shown.length}]` : '';
      return { text: bounded(shown.join('\n')) + more };
    } catch (error) {
      return readable(error, path);
    }
  },
};

/** `write`: a whole file. */
export const write: Tool = {
  name: 'write',
  kind: 'edit',
  description: 'Write a whole file; one that is there is replaced, and folders are made. To change parts, use edit.',
  schema: {
    properties: { path: { type: 'string' }, content: { type: 'string', description: 'All of the file.' } },
    required: ['path', 'content'],
  },
  title: ({ path }) => `Write ${String(path)}`,
  path: ({ path }) => String(path),
  asks: true,
  async run(input, { root }) {
    const path = textOf(input, 'path');
    const newText = textOf(input, 'content');
    const place = writablePlaceOf(root, path);
    let oldText: string | null = null;
    try {
      oldText = textAt(place, path);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'EISDIR') throw new ToolError(`${path} is a folder.`);
      if (code !== 'ENOENT' && !(error instanceof ToolError)) return readable(error, path);
    }
    mkdirSync(dirname(place), { recursive: true });
    writeFileSync(place, newText);
    const lines = newText === '' ? 0 : newText.replace(/\n$/, '').split('\n').length;
    return { text: `Written: ${path} (${lines} lines).`, diff: { path: place, oldText, newText } };
  },
};

const occurrences = (text: string, part: string): number => text.split(part).length - 1;

/** `edit`: an exact piece of a file replaced. */
export const edit: Tool = {
  name: 'edit',
  kind: 'edit',
  description:
    'Replace an exact piece of a text file. old_string must occur exactly once, unless replace_all is true; take enough lines around it.',
  schema: {
    properties: {
      path: { type: 'string' },
      old_string: { type: 'string', description: 'As it stands in the file, without line numbers.' },
      new_string: { type: 'string' },
      replace_all: { type: 'boolean', default: false },
    },
    required: ['path', 'old_string', 'new_string'],
  },
  title: ({ path }) => `Edit ${String(path)}`,
  path: ({ path }) => String(path),
  asks: true,
  async run(input, { root }) {
    const path = textOf(input, 'path');
    const old = textOf(input, 'old_string');
    const fresh = textOf(input, 'new_string');
    const place = writablePlaceOf(root, path);
    let oldText = '';
    try {
      oldText = textAt(place, path);
    } catch (error) {
      return readable(error, path);
    }
    if (old === '') throw new ToolError('old_string is empty; use write for a new file.');
    if (old === fresh) throw new ToolError('old_string and new_string are the same.');
    const count = occurrences(oldText, old);
    if (count === 0) throw new ToolError(`old_string does not occur in ${path}. Read the file and take it exactly.`);
    if (count > 1 && input.replace_all !== true)
      throw new ToolError(
        `old_string occurs ${count} times in ${path}. Take more lines around it, or set replace_all.`,
      );
    const newText = oldText.split(old).join(fresh);
    writeFileSync(place, newText);
    return {
      text: `Edited ${path} (${count === 1 ? 'once' : `${count} times`}).`,
      diff: { path: place, oldText, newText },
    };
  },
};
