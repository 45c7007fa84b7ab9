import { performance } from 'node:perf_hooks';
import { describe, expect, test } from 'vitest';
import { GlobError, matchesGlob, readGlob } from '../../../src/base/glob.ts';

const does = (pattern: string, path: string, hidden = false) => matchesGlob(readGlob(pattern, { hidden }), path);

describe('what a pattern matches', () => {
  test.each([
    ['report.txt', ['report.txt'], ['Report.txt', 'a/report.txt', 'report.txt2']],
    ['./report.txt', ['report.txt'], ['a/report.txt']],
    ['*.txt', ['a.txt', 'ü.txt'], ['a.md', 'x/a.txt', '.txt', '.a.txt']],
    ['.*', ['.env'], ['env']],
    ['[.]env', [], ['.env']],
    ['?.txt', ['a.txt', '😀.txt'], ['.txt', 'ab.txt']],
    ['a*b*c', ['abc', 'a123b45c', 'abcbc'], ['ab', 'acb']],
    ['[a-c]1', ['a1', 'c1'], ['d1', '-1', 'A1']],
    ['[!a-c]1', ['d1'], ['a1']],
    ['[^a]1', ['b1'], ['a1']],
    ['[]a]', [']', 'a'], ['[']],
    ['[a', ['[a'], ['a']],
    ['[a-]', ['a', '-'], ['b']],
    [String.raw`\*.txt`, ['*.txt'], ['a.txt']],
    [String.raw`a\{b,c\}`, ['a{b,c}'], ['ab']],
    ['**', ['a', 'a/b/c'], ['.a', 'a/.b', '.a/b']],
    ['**/*.log', ['a.log', 'x/y/a.log'], ['.x/a.log', 'x/.a.log', 'a.txt']],
    ['a/**', ['a/b', 'a/b/c'], ['a', 'b/a']],
    ['a/**/b', ['a/b', 'a/x/b', 'a/x/y/b'], ['a/x/c', 'b']],
    ['**/**/b', ['b', 'x/y/b'], ['c']],
    ['.github/**', ['.github/x', '.github/a/b'], ['.github/.x']],
    ['a**b', ['ab', 'axxb'], ['a/b']],
    ['*.{js,ts}', ['a.js', 'a.ts'], ['a.css', 'a.{js,ts}']],
    ['{a,b/{c,d}}/e', ['a/e', 'b/c/e', 'b/d/e'], ['b/e']],
    ['{a}', ['{a}'], ['a']],
    ['a{,.b}', ['a', 'a.b'], ['b']],
    ['{a,b', ['{a,b'], ['a']],
  ])('%s', (pattern, good, bad) => {
    expect(good.filter((path) => !does(pattern, path))).toEqual([]);
    expect(bad.filter((path) => does(pattern, path))).toEqual([]);
  });

  test('with `hidden`, stars stand for dots too', () => {
    expect(['.a', 'a/.b/c', '.a/.b'].filter((path) => !does('**', path, true))).toEqual([]);
    expect(does('*', '.env', true)).toBe(true);
  });
});

test.each([
  '/etc/passwd',
  '../x',
  'a/../b',
  'a//b',
  '',
  'a/',
  '{/etc,x}/y',
  'a\0b',
  '\ud800',
  '.',
  '{a,b}'.repeat(10),
  'a/'.repeat(200) + 'b',
])('a pattern that cannot be is refused: %j', (pattern) => {
  expect(() => readGlob(pattern)).toThrow(GlobError);
});

test('no pattern takes long, whatever it is', () => {
  const began = performance.now();
  expect(does('*a'.repeat(100) + 'b', 'a'.repeat(255))).toBe(false);
  expect(does(`${'**/a/'.repeat(50)}b`, `${'a/'.repeat(1000)}c`)).toBe(false);
  expect(() => readGlob('{a,'.repeat(300))).not.toThrow();
  expect(() => readGlob('{'.repeat(400) + 'a,b' + '}'.repeat(400))).not.toThrow();
  expect(performance.now() - began).toBeLessThan(1_000);
});
