import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Numbers from 0 to 1, the same ones every time. */
function numbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/**
 * Grows a tree of so many files, the same one every time: about ten files a folder, sizes as in working copies (median 2.5 KB, mean
 * 6.7 KB), nine of ten files text that compresses like source, one of ten noise, one of twenty a copy of another. Answers the paths
 * of the files from the root.
 */
export function grow(root: string, count: number): string[] {
  const next = numbers(count);
  const below = (most: number) => Math.floor(next() * most);
  const word = () => Array.from({ length: 2 + below(9) }, () => String.fromCharCode(97 + below(26))).join('');
  const words = Array.from({ length: 4000 }, word);
  const lines = Array.from({ length: 3000 }, () => {
    const indent = '  '.repeat(below(4));
    return `${indent}${Array.from({ length: 1 + below(9) }, () => words[Math.floor(next() * next() * words.length)]).join(' ')}${['', ';', ' {', '();', ','][below(5)]}\n`;
  });
  const size = () => {
    const normal = Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next());
    return Math.min(2_000_000, Math.round(2500 * Math.exp(1.4 * normal)));
  };
  const text = (length: number) => {
    const parts: string[] = [];
    for (let made = 0; made < length;) {
      // A third of the lines are nowhere else.
      const line =
        next() < 0.33 ? `${words[below(4000)]} ${words[below(4000)]} = ${below(1e6)};\n` : lines[below(lines.length)]!;
      parts.push(line);
      made += line.length;
    }
    return Buffer.from(parts.join('').slice(0, length));
  };
  const noise = (length: number) =>
    Buffer.from(Uint32Array.from({ length: Math.ceil(length / 4) }, () => next() * 2 ** 32).buffer, 0, length);

  mkdirSync(root, { recursive: true });
  const folders = [''];
  const paths: string[] = [];
  let last = Buffer.alloc(0);
  while (paths.length < count) {
    const above = folders[Math.floor(next() * folders.length)]!;
    if (above.split('/').length > 9) continue;
    const folder = join(above, `${words[below(4000)]}-${folders.length}`);
    mkdirSync(join(root, folder));
    folders.push(folder);
    for (let file = 1 + below(20); file > 0 && paths.length < count; file--) {
      const kind = next();
      const bytes = kind < 0.05 ? last : kind < 0.15 ? noise(size()) : text(size());
      const path = join(folder, `${words[below(4000)]}-${file}.${['ts', 'js', 'json', 'md', 'c'][below(5)]}`);
      writeFileSync(join(root, path), bytes);
      paths.push(path);
      last = bytes;
    }
  }
  return paths;
}
