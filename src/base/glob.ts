/** A pattern that cannot be used; the message says why, for a person. */
export class GlobError extends Error {}

/** `**`, or what one segment of a path must be. */
type Piece = '**' | { test(name: readonly string[]): boolean; hidden: boolean };

/** A pattern of relative paths. */
export interface Glob {
  text: string;
  /** What it stands for without its braces. */
  alternatives: Piece[][];
  /** Whether `*`, `?` and `**` stand for names that begin with a dot, too. */
  hidden: boolean;
}

/** What a path could still become: places in a glob's alternatives. Empty when nothing below can match. */
export type Progress = ReadonlySet<number>;

const maxAlternatives = 64;
const maxPieces = 128;
/** A place is a number: an alternative, and a piece of it. */
const width = 256;

/**
 * Reads a pattern: `*` and `?` within a segment, `**` for any number of folders, `[a-z]`, `[!a]`, `{one,two}`, a backslash before
 * what is meant as it is. As in a shell, a name that begins with a dot must be written so, unless `hidden`. Throws GlobError.
 *
 * Matching never goes back further than to the last star, so that no pattern takes longer than its length times the name's.
 */
export function readGlob(text: string, { hidden = false } = {}): Glob {
  if (text.includes('\0') || !text.isWellFormed()) throw new GlobError('is no text that a path could have');
  const alternatives = expand(text).map((one) => {
    if (one.startsWith('/')) throw new GlobError('is absolute; give one that is relative to the workspace');
    const pieces = split(one.replace(/^(?:\.\/)+/, '')).map((segment): Piece => {
      if (segment === '') throw new GlobError('has an empty segment');
      if (segment === '.' || segment === '..') throw new GlobError(`has a segment "${segment}"`);
      return segment === '**' ? segment : pieceOf(segment);
    });
    return pieces.filter((piece, index) => piece !== '**' || pieces[index + 1] !== '**');
  });
  if (alternatives.reduce((sum, { length }) => sum + length, 0) > maxPieces) throw new GlobError('is too long');
  return { text, alternatives, hidden };
}

/** Before the first segment. */
export function begin({ alternatives }: Glob): Progress {
  const places = new Set<number>();
  for (const [index] of alternatives.entries()) reach(alternatives, index, 0, places);
  return places;
}

/**
 * Goes on by one name: whether a file of this name matches, and what a folder of this name leads to. `open` is whether `**` may
 * stand for this folder.
 */
export function step(
  { alternatives, hidden }: Glob,
  progress: Progress,
  name: string,
  open: boolean,
): { matches: boolean; below: Progress } {
  const below = new Set<number>();
  const letters = Array.from(name);
  const dotted = letters[0] === '.' && !hidden;
  let matches = false;
  for (const place of progress) {
    const at = place % width;
    const index = (place - at) / width;
    const pieces = alternatives[index]!;
    const piece = pieces[at]!;
    const isLast = at === pieces.length - 1;
    if (piece === '**') {
      if (dotted) continue;
      matches ||= isLast;
      if (open) reach(alternatives, index, at, below);
    } else if ((piece.hidden || !dotted) && piece.test(letters)) {
      if (isLast) matches = true;
      else reach(alternatives, index, at + 1, below);
    }
  }
  return { matches, below };
}

/** Whether a whole path matches. */
export function matchesGlob(glob: Glob, path: string): boolean {
  const names = path.split('/');
  const last = names.pop()!;
  let progress = begin(glob);
  for (const name of names) progress = step(glob, progress, name, true).below;
  return step(glob, progress, last, false).matches;
}

/** A place, and what follows it: `**` may stand for no folder at all. */
function reach(alternatives: Piece[][], index: number, at: number, into: Set<number>): void {
  into.add(index * width + at);
  if (alternatives[index]![at] === '**' && at + 1 < alternatives[index]!.length) into.add(index * width + at + 1);
}

/** All that a text with `{one,two}` stands for. Braces without a comma are meant as they are. */
function expand(text: string): string[] {
  for (let start = 0; start < text.length; start++) {
    if (text[start] === '\\') {
      start++;
      continue;
    }
    if (text[start] !== '{') continue;
    const commas: number[] = [];
    let [depth, end] = [0, -1];
    for (let at = start; at < text.length && end < 0; at++) {
      if (text[at] === '\\') at++;
      else if (text[at] === '{') depth++;
      else if (text[at] === ',' && depth === 1) commas.push(at);
      else if (text[at] === '}' && --depth === 0) end = at;
    }
    if (end < 0 || commas.length === 0) continue;
    const edges = [start, ...commas, end];
    const found: string[] = [];
    for (const [index, edge] of edges.slice(0, -1).entries()) {
      found.push(...expand(text.slice(0, start) + text.slice(edge + 1, edges[index + 1]) + text.slice(end + 1)));
      if (found.length > maxAlternatives) throw new GlobError(`stands for more than ${maxAlternatives} patterns`);
    }
    return found;
  }
  return [text];
}

/** At slashes. One in brackets, or after a backslash, parts segments all the same: no name has one. */
const split = (text: string): string[] => text.replaceAll('\\/', '/').split('/');

type Token = { kind: 'star' } | { kind: 'one'; test(letter: string): boolean };

function pieceOf(segment: string): Exclude<Piece, '**'> {
  const letters = Array.from(segment);
  const tokens: Token[] = [];
  for (let at = 0; at < letters.length; at++) {
    const letter = letters[at]!;
    if (letter === '*') {
      if (tokens.at(-1)?.kind !== 'star') tokens.push({ kind: 'star' });
    } else if (letter === '?') tokens.push({ kind: 'one', test: () => true });
    else if (letter === '[') {
      const set = setOf(letters, at);
      tokens.push({ kind: 'one', test: set ? set.test : (given) => given === '[' });
      at = set?.end ?? at;
    } else {
      const meant = letter === '\\' ? (letters[++at] ?? '\\') : letter;
      tokens.push({ kind: 'one', test: (given) => given === meant });
    }
  }
  const hidden = letters[0] === '.' || (letters[0] === '\\' && letters[1] === '.');
  return { hidden, test: (name) => matches(tokens, name) };
}

/** `[abc]`, `[a-z]`, `[!a]`, `[^a]`; a bracket that comes first is one of the set. Undefined when it is not closed. */
function setOf(letters: string[], start: number): { test(letter: string): boolean; end: number } | undefined {
  let at = start + 1;
  const not = letters[at] === '!' || letters[at] === '^';
  if (not) at++;
  const ranges: [string, string][] = [];
  for (let first = true; at < letters.length; at++, first = false) {
    let from = letters[at]!;
    if (from === ']' && !first) {
      const has = (letter: string) => ranges.some(([low, high]) => low <= letter && letter <= high);
      return { test: (letter) => has(letter) !== not, end: at };
    }
    if (from === '\\') from = letters[++at] ?? '\\';
    const to = letters[at + 2];
    if (letters[at + 1] === '-' && to !== undefined && to !== ']') {
      ranges.push([from, to]);
      at += 2;
    } else ranges.push([from, from]);
  }
  return undefined;
}

function matches(tokens: Token[], name: readonly string[]): boolean {
  let [token, at] = [0, 0];
  let retry: { token: number; at: number } | undefined;
  while (at < name.length) {
    const now = tokens[token];
    if (now?.kind === 'star') {
      retry = { token: ++token, at };
    } else if (now?.test(name[at]!)) {
      token++;
      at++;
    } else if (retry) {
      token = retry.token;
      at = ++retry.at;
    } else return false;
  }
  while (tokens[token]?.kind === 'star') token++;
  return token === tokens.length;
}
