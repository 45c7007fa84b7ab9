import { existsSync, statSync } from 'node:fs';
import { glob as walk } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { placeOf } from './place.ts';
import { runProcess } from './process.ts';
import { bounded, longestAnswer, textOf, type Tool, ToolError } from './tool.ts';

const passedOver = ['.git', 'node_modules'];
const mostFiles = 500;
const longestLine = 400;

const folderOf = (input: Record<string, unknown>, root: string): string => {
  const path = input.path === undefined || input.path === null ? '.' : textOf(input, 'path');
  const place = placeOf(root, path);
  if (!existsSync(place)) throw new ToolError(`There is no ${path}.`);
  return place;
};

/** `glob`: files by the pattern of their names. */
export const glob: Tool = {
  name: 'glob',
  kind: 'search',
  description: 'Find files by a pattern of their paths, such as src/**/*.ts. Passes over .git and node_modules.',
  schema: {
    properties: {
      pattern: { type: 'string' },
      path: { type: 'string', description: 'The folder to search; the workspace when left out.' },
    },
    required: ['pattern'],
  },
  title: ({ pattern }) => `Find ${String(pattern)}`,
  path: ({ path }) => (typeof path === 'string' ? path : null),
  asks: false,
  async run(input, { root, signal }) {
    const pattern = textOf(input, 'pattern');
    const cwd = folderOf(input, root);
    if (pattern.startsWith('/') || pattern.split('/').includes('..'))
      throw new ToolError('The pattern must be relative, without "..".');
    const found: string[] = [];
    let more = false;
    const exclude = (name: string): boolean => passedOver.includes(name.split('/').at(-1) ?? '');
    for await (const name of walk(pattern, { cwd, exclude })) {
      if (signal.aborted) break;
      if (found.length === mostFiles) {
        more = true;
        break;
      }
      found.push(relative(root, join(cwd, name)));
    }
    if (found.length === 0) return { text: 'No file fits.' };
    return {
      text: bounded(found.toSorted().join('\n')) + (more ? `\n[more than ${mostFiles}; narrow the pattern]` : ''),
    };
  },
};

/** `grep`: lines by a regular expression. */
export const grep: Tool = {
  name: 'grep',
  kind: 'search',
  description:
    'Search file contents for an extended regular expression (grep -E); answers file:line:text. Passes over binary files and, in a git repository, over what is ignored.',
  schema: {
    properties: {
      pattern: { type: 'string' },
      path: { type: 'string', description: 'A folder or file; the workspace when left out.' },
      include: { type: 'string', description: 'Only files whose names fit this, such as *.ts.' },
      ignore_case: { type: 'boolean', default: false },
    },
    required: ['pattern'],
  },
  title: ({ pattern }) => `Search ${String(pattern)}`,
  path: ({ path }) => (typeof path === 'string' ? path : null),
  asks: false,
  async run(input, { root, env, signal }) {
    const pattern = textOf(input, 'pattern');
    const place = relative(root, folderOf(input, root)) || '.';
    const include = input.include === undefined || input.include === null ? null : textOf(input, 'include');
    const flags = ['-nIE', ...(input.ignore_case === true ? ['-i'] : []), '-e', pattern];
    const inGit = existsSync(join(root, '.git'));
    // No program that a repository's own configuration names is started.
    const [command, args] = inGit
      ? [
          'git',
          [
            '-c',
            'core.fsmonitor=false',
            'grep',
            '--untracked',
            '--no-color',
            ...flags,
            '--',
            ...gitPaths(root, place, include),
          ],
        ]
      : [
          'grep',
          [
            '-r',
            ...flags,
            ...passedOver.map((name) => `--exclude-dir=${name}`),
            ...(include ? [`--include=${include}`] : []),
            '--',
            place,
          ],
        ];
    const plain = { ...env, GREP_COLORS: '', GIT_OPTIONAL_LOCKS: '0' };
    const ended = await runProcess(command as string, args as string[], {
      cwd: root,
      env: plain,
      signal,
      timeout: 60_000,
      most: longestAnswer * 4,
    });
    if (ended.timed_out) throw new ToolError('The search took longer than a minute; narrow it.');
    if (ended.code !== 0 && ended.code !== 1)
      throw new ToolError(bounded(ended.output.trim(), 2000) || 'The search failed.');
    const lines = ended.output.split('\n').filter(Boolean);
    if (lines.length === 0) return { text: 'Nothing was found.' };
    const cut = lines.map((line) => (line.length > longestLine ? `${line.slice(0, longestLine)}…` : line));
    return { text: bounded(cut.join('\n').replaceAll(/^\.\//gm, '')) };
  },
};

const gitPaths = (root: string, place: string, include: string | null): string[] => {
  if (include === null) return [place];
  const folder = statSync(join(root, place)).isDirectory();
  return [folder ? `:(glob)${place === '.' ? '' : `${place}/`}**/${include}` : place];
};
