import { spawn } from 'node:child_process';
import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, sep } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { Fault } from '../../../src/api/error.ts';
import { systemClock } from '../../../src/base/clock.ts';
import { beneath, openFile, openFolder, type Root } from '../../../src/files/beneath.ts';
import { createChanges } from '../../../src/files/change.ts';
import { createEtags } from '../../../src/files/etags.ts';
import { isReserved, segmentsOf } from '../../../src/files/grammar.ts';
import { openApp } from '../../kit/app.ts';
import { isLong, rounds, seed, seeded } from '../../kit/random.ts';
import { createGrounds, type Grounds, secrets, trace } from './grounds.ts';
import { gitNames, links, payloads } from './payloads.ts';

const races = rounds({ short: 100_000, long: 2_000_000 }, 'AGENTCTL_RACES');

let grounds: Grounds | undefined;
afterEach(() => {
  grounds?.remove();
  grounds = undefined;
});

const codeOf = (call: () => unknown): string => {
  try {
    return call() === undefined ? 'absent' : 'found';
  } catch (error) {
    if (error instanceof Fault) return error.code;
    throw error;
  }
};

const readAll = (root: Root, path: string): string | undefined => {
  const file = openFile(root, path);
  if (!file) return undefined;
  try {
    return readFileSync(file.fd, 'utf8');
  } finally {
    closeSync(file.fd);
  }
};

describe('the grammar of paths', () => {
  test.each([
    'a',
    'a/b',
    '.a',
    'a.',
    '..a',
    'a..',
    '...',
    ' ',
    'a b',
    'ä/ö',
    'git',
    '.gitignore',
    '.github/x',
    '.gitmodules',
    'x.git',
    'a\\b',
    'a:b',
    '~',
    'git~',
    'a'.repeat(4096),
  ])('%s is one', (path) => expect(segmentsOf(path).join('/')).toBe(path));

  test.each([
    '/',
    '/a',
    'a/',
    'a//b',
    '.',
    '..',
    './a',
    'a/./b',
    'a/..',
    '../a',
    '\0',
    'a\0b',
    '\ud800',
    'a'.repeat(4097),
    'é'.repeat(2049),
  ])('%j is none', (path) => expect(codeOf(() => segmentsOf(path))).toBe('invalid_path'));

  test('git’s own folder is refused in every spelling and at every depth', () => {
    for (const name of gitNames.filter((one) => !one.includes('/')))
      for (const path of [name, `a/${name}`, `a/${name}/b`])
        expect({ path, code: codeOf(() => segmentsOf(path)) }).toEqual({ path, code: 'invalid_path' });
    expect(isReserved('.agentctl-tmp-1')).toBe(true);
    expect(isReserved('.agentctl')).toBe(false);
  });
});

describe.each([
  ['by descriptors', false],
  ['by paths, as on macOS', true],
])('a walk %s', (_name, byPath) => {
  test.each(links)('over the link %s → %s stays inside, or is refused', (name, _target, inside) => {
    grounds = createGrounds();
    const root = { path: grounds.ws, byPath };
    const good = name === 'to-sub' ? 'invalid_state' : name === 'dangling' ? 'absent' : 'found';
    expect(codeOf(() => readAll(root, name))).toBe(inside ? good : 'invalid_path');
  });

  test('finds what is there, and what is not is absent', () => {
    grounds = createGrounds();
    const root = { path: grounds.ws, byPath };
    expect(readAll(root, 'sub/inside')).toBe('inside');
    expect(readAll(root, 'to-sub/inside')).toBe('inside');
    expect(readAll(root, 'sub/nothing')).toBeUndefined();
    expect(readAll(root, 'nothing/at/all')).toBeUndefined();
    expect(readAll(root, 'sub/inside/more')).toBeUndefined();
    expect(codeOf(() => beneath(root, 'sub/inside/more', { strict: true }, () => true))).toBe('invalid_state');
    expect(codeOf(() => readAll(root, 'fifo'))).toBe('invalid_state');
    expect(codeOf(() => readAll(root, 'sub'))).toBe('invalid_state');
    expect(codeOf(() => openFolder(root, 'sub/inside'))).toBe('invalid_state');
    for (const path of ['', 'sub', 'to-sub']) {
      const folder = openFolder(root, path)!;
      expect(readdirSync(folder.path).length).toBeGreaterThan(0);
      closeSync(folder.fd);
    }
    expect(codeOf(() => readAll({ path: join(grounds!.folder, 'gone'), byPath }, 'x'))).toBe('invalid_state');
  });

  test('over more than 40 links is refused, over 40 is not', () => {
    grounds = createGrounds();
    symlinkSync('sub/inside', join(grounds.ws, 'l0'));
    for (let n = 1; n <= 41; n++) symlinkSync(`l${n - 1}`, join(grounds.ws, `l${n}`));
    const root = { path: grounds.ws, byPath };
    expect(readAll(root, 'l39')).toBe('inside');
    expect(codeOf(() => readAll(root, 'l40'))).toBe('invalid_path');
  });

  test('leaves no descriptor behind, whatever happens', () => {
    grounds = createGrounds();
    const root = { path: grounds.ws, byPath };
    const before = readdirSync('/proc/self/fd').length;
    for (let n = 0; n < 50; n++) for (const [name] of links) codeOf(() => readAll(root, `${name}/x`));
    for (let n = 0; n < 50; n++) for (const [name] of links) codeOf(() => readAll(root, name));
    expect(readdirSync('/proc/self/fd').length).toBe(before);
  });

  test('does not enter the daemon’s own folders', () => {
    grounds = createGrounds();
    const own = join(grounds.ws, 'own');
    mkdirSync(own);
    writeFileSync(join(own, 'token'), 'x');
    const { dev, ino } = openFolderStat(own);
    const root = { path: grounds.ws, byPath, closed: new Set([`${dev}:${ino}`]) };
    expect(codeOf(() => readAll(root, 'own/token'))).toBe('invalid_path');
  });
});

const openFolderStat = (path: string) => beneath({ path }, '', {}, ({ folderStat }) => folderStat)!;

test(
  'no payload escapes, and none is a failure of ours: list, read, write and delete',
  { timeout: 300_000 },
  async () => {
    const chosen = seed();
    const random = seeded(chosen);
    const known = payloads(random);
    expect(known.length).toBeGreaterThan(4000);
    // A quarter of them, another with each seed.
    const all = known.filter(() => isLong || random() < 0.25);
    grounds = createGrounds();
    const open = await openApp();
    const { body: project } = await open.call('POST', '/v1/projects', { name: 'Paths' });
    const source = { type: 'directory', path: grounds.ws, mode: 'in_place' };
    const { body: made } = await open.call('POST', `/v1/projects/${project.id}/workspaces`, { source });
    await open.app.settle();
    const before = grounds.around();
    const base = `/v1/workspaces/${made.resource.id}`;
    const statuses: Record<string, number> = {};
    const wrong: unknown[] = [];
    let key = 0;
    const ask = async (method: string, url: string, body?: string, more: Record<string, string> = {}) => {
      const headers = method === 'GET' ? {} : { 'idempotency-key': `p${++key}`, 'if-match': '*', ...more };
      const answer = await open.call(method, url, body, {
        ...headers,
        ...(body === undefined ? {} : { 'content-type': 'application/octet-stream' }),
      });
      const name = `${method} ${answer.status}`;
      statuses[name] = (statuses[name] ?? 0) + 1;
      if (answer.status >= 500 || secrets.some((secret) => answer.text.includes(secret)))
        wrong.push([method, url, answer.status, answer.text.slice(0, 300)]);
      return answer.status;
    };
    for (const payload of all) {
      const target = encodeURI(payload).replaceAll('%25', '%');
      await ask('GET', `${base}/files?path=${target}&limit=5`);
      await ask('GET', `${base}/file?path=${target}`);
      await ask('PUT', `${base}/file?path=${target}`, trace);
      await ask('PUT', `${base}/file?path=${target}`, trace, { 'if-match': '"absent"' });
      await ask('DELETE', `${base}/file?path=${target}`);
    }
    // Links go one by one as they are deleted: what they led to is still there.
    expect(wrong).toEqual([]);
    expect(grounds.around()).toBe(before);
    console.info(
      `seed ${chosen}: ${all.length} payloads, ${Object.values(statuses).reduce((sum, n) => sum + n)} requests: ${JSON.stringify(statuses)}`,
    );
    await open.close();
  },
);

describe('while another process swaps a folder and a link that leads out', () => {
  /** The workspace with `x`, a folder with one file; `parked-link` leads to a folder with a file of that name. */
  async function swapping(use: (root: Root, folder: string) => void): Promise<number> {
    const folder = mkdtempSync(join(realpathSync(tmpdir()), 'agentctl-swap-'));
    const ws = join(folder, 'ws');
    const outer = join(folder, 'outer');
    for (const path of [join(ws, 'x'), outer]) mkdirSync(path, { recursive: true });
    writeFileSync(join(ws, 'x', 'file'), 'inside');
    writeFileSync(join(outer, 'file'), 'OUTSIDE');
    symlinkSync('../outer', join(ws, 'parked-link'));
    const child = spawn(process.execPath, [join(import.meta.dirname, 'swapper.js'), ws], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    let said = '';
    child.stdout.on('data', (text: Buffer) => (said += text.toString()));
    await new Promise((resolve) => setTimeout(resolve, 200));
    try {
      use({ path: ws }, folder);
    } finally {
      child.stdin.end();
      await new Promise((resolve) => child.once('close', resolve));
      rmSync(folder, { recursive: true, force: true });
    }
    return Number(said);
  }

  test(
    `${races.toLocaleString('en')} reads never come from outside; a check by realpath does`,
    { timeout: 120_000 },
    async () => {
      const seen: Record<string, number> = {};
      let naive = 0;
      let tries = 0;
      let seconds = 0;
      const swaps = await swapping((root) => {
        const began = performance.now();
        for (let n = 0; n < races; n++) {
          const word = (() => {
            try {
              return readAll(root, 'x/file') ?? 'absent';
            } catch (error) {
              return error instanceof Fault ? error.code : String(error);
            }
          })();
          seen[word] = (seen[word] ?? 0) + 1;
        }
        seconds = (performance.now() - began) / 1000;
        // What the walk is for: the usual way, in the same race, until it has happened.
        const end = performance.now() + 30_000;
        for (; tries < 20_000 || (naive === 0 && performance.now() < end); tries++)
          try {
            const path = join(root.path, 'x/file');
            if (realpathSync(path).startsWith(root.path + sep) && readFileSync(path, 'utf8') === 'OUTSIDE') naive += 1;
          } catch {
            // Gone for the moment.
          }
      });
      console.info(
        `${races} reads at ${Math.round(races / seconds)}/s against ${swaps} swaps: ${JSON.stringify(seen)}; by realpath ${naive} of ${tries} escaped`,
      );
      expect(seen.OUTSIDE).toBeUndefined();
      expect(seen.inside).toBeGreaterThan(races / 20);
      expect(
        Object.keys(seen).filter((word) => !['inside', 'absent', 'invalid_path', 'invalid_state'].includes(word)),
      ).toEqual([]);
      expect(naive).toBeGreaterThan(0);
    },
  );

  test('3,000 writes and deletes never land outside', { timeout: 120_000 }, async () => {
    const seen: Record<string, number> = {};
    let outside: string[] = [];
    const swaps = await swapping((root, folder) => {
      const staging = join(folder, 'staging');
      mkdirSync(staging);
      const changes = createChanges({ etags: createEtags({ clock: systemClock }), staging });
      for (let n = 0; n < 3000; n++) {
        const staged = `s${n}`;
        writeFileSync(join(staging, staged), trace);
        const wanted =
          n % 3 === 2 ? null : { sha256: '', size_bytes: trace.length, executable: null, staged, transfer_id: null };
        const path = n % 3 === 0 ? `x/new-${n}` : n % 3 === 1 ? `x/deep/new-${n}` : 'x/file';
        const change = { workspace_id: '', path, if_match: null, if_none_match: null, key: '', wanted };
        const code = codeOf(() => changes.apply(root, change, String(n)) ?? true);
        seen[code] = (seen[code] ?? 0) + 1;
        if (n % 3 === 2) {
          const inside = [join(root.path, 'x', 'file'), join(root.path, 'parked-folder', 'file')];
          for (const file of inside)
            try {
              writeFileSync(file, 'inside', { flag: 'wx' });
            } catch {
              // It is the other name just now, or was not deleted.
            }
        }
      }
      outside = readdirSync(join(folder, 'outer')).map(
        (name) => `${name}: ${readFileSync(join(folder, 'outer', name), 'utf8')}`,
      );
    });
    console.info(`3000 writes and deletes against ${swaps} swaps: ${JSON.stringify(seen)}`);
    expect(outside).toEqual(['file: OUTSIDE']);
    expect(seen.found).toBeGreaterThan(0);
  });
});
