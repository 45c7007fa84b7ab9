import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { systemClock } from '../../../src/base/clock.ts';
import { type Change, compare, inRecords, walk, Watch } from '../../../src/runner/tree.ts';
import { until } from '../../kit/runner.ts';

let root = '';
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'agentctl-tree-'));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const put = (path: string, text: string): void => {
  mkdirSync(join(root, path, '..'), { recursive: true });
  writeFileSync(join(root, path), text);
};

test('what was added, changed and deleted, in the order of paths', async () => {
  for (const path of ['a', 'b/c', 'b/d', 'z', 'same', '.git/HEAD', 'node_modules/x/y']) put(path, 'one');
  symlinkSync('a', join(root, 'link'));
  const before = await walk(root, systemClock);
  expect([...before.keys()].toSorted()).toEqual(['a', 'b/c', 'b/d', 'link', 'same', 'z']);
  put('b/c', 'another');
  // As long as before and as old, yet another file.
  put('new', 'two');
  utimesSync(join(root, 'new'), 0, 0);
  utimesSync(join(root, 'z'), 0, 0);
  renameSync(join(root, 'new'), join(root, 'z'));
  rmSync(join(root, 'b/d'));
  put('b/e/f', 'x');
  put('.git/HEAD', 'other');
  rmSync(join(root, 'link'));
  symlinkSync('b', join(root, 'link'));
  expect(compare(before, await walk(root, systemClock))).toEqual([
    { path: 'b/c', change: 'modified' },
    { path: 'b/d', change: 'deleted' },
    { path: 'b/e/f', change: 'added' },
    { path: 'link', change: 'modified' },
    { path: 'z', change: 'modified' },
  ]);
});

test('a watch tells changes since the last look, and at the end those since the first', async () => {
  put('a', '1');
  const told: Change[][] = [];
  const watch = await Watch.start({
    root,
    clock: systemClock,
    changed: (changes) => told.push(changes),
    gaveUp: () => {},
  });
  put('b', '1');
  watch.touched();
  await until(() => told.length > 0, 'look');
  expect(told).toEqual([[{ path: 'b', change: 'added' }]]);
  rmSync(join(root, 'b'));
  put('a', '22');
  expect(await watch.end()).toEqual({ changes: [{ path: 'a', change: 'modified' }], left: 0 });
  expect(told[1]).toEqual([
    { path: 'a', change: 'modified' },
    { path: 'b', change: 'deleted' },
  ]);
});

test('too many files are not watched, and that is said', async () => {
  for (let n = 0; n < 20; n++) put(`f${n}`, '');
  let said = '';
  const watch = await Watch.start({
    root,
    clock: systemClock,
    changed: () => {},
    gaveUp: (reason) => (said = reason),
    most: 10,
  });
  expect(said).toContain('more than 10 files');
  expect(await watch.end()).toEqual({ changes: [], left: 0 });
});

test('a long list of changes is told in records that fit', () => {
  const changes = Array.from({ length: 3000 }, (_, n): Change => ({
    path: `${n}${'\u0001'.repeat(900)}`,
    change: 'added',
  }));
  const groups = [...inRecords(changes)];
  expect(groups.flat()).toEqual(changes);
  expect(groups.length).toBeGreaterThan(10);
  for (const group of groups) expect(JSON.stringify(group).length).toBeLessThan(1_100_000);
});

test('a folder that is not there has no files', async () => {
  expect((await walk(join(root, 'none'), systemClock)).size).toBe(0);
});
