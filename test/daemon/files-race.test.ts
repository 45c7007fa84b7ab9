import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openApp, type TestApp } from '../kit/app.ts';
import { rounds } from '../kit/random.ts';
import { createProject, createWorkspace } from './scene.ts';

const races = rounds({ short: 200, long: 5_000 }, 'AGENTCTL_ROUNDS');
const etagOf = (text: string) => `"sha256-${createHash('sha256').update(text).digest('hex')}"`;

let open: TestApp;
let id: string;
let root: string;
let keys = 0;

beforeAll(async () => {
  open = await openApp();
  const project = await createProject(open);
  ({ id, path: root } = await createWorkspace(open, project.id));
});
afterAll(() => open.close());

const change = (method: 'PUT' | 'DELETE', path: string, body: string | undefined, ifMatch: string) =>
  open.call(method, `/v1/workspaces/${id}/file?path=${path}`, body, {
    ...(body === undefined ? {} : { 'content-type': 'application/octet-stream' }),
    'idempotency-key': `race-${++keys}`,
    'if-match': ifMatch,
  });

/** A body that shows by itself whether it is whole. */
const bodyOf = (writer: number, round: number) =>
  `${writer}:${round};`.repeat(2000 + ((writer * 7919 + round * 104_729) % 20_000));

test.each([2, 20])(
  `of %i writers with one ETag exactly one wins, ${races} rounds over; the file is always one whole body`,
  { timeout: 300_000 },
  async (writers) => {
    const path = `contested-${writers}`;
    let current = '"absent"';
    const refusals: Record<string, number> = {};
    let reading = true;
    let reads = 0;
    const whole = new Set<string>();
    const half: number[] = [];
    const reader = (async () => {
      while (reading) {
        const { status, headers, text } = await open.call('GET', `/v1/workspaces/${id}/file?path=${path}`);
        if (status === 200) reads += 1;
        if (status === 200 && !(headers.etag === etagOf(text) && whole.has(headers.etag))) half.push(text.length);
        const disk = existsSync(join(root, path)) ? readFileSync(join(root, path), 'utf8') : undefined;
        if (disk !== undefined && !whole.has(etagOf(disk))) half.push(disk.length);
      }
    })();
    for (let round = 0; round < races; round++) {
      const bodies = Array.from({ length: writers }, (_, writer) => bodyOf(writer, round));
      for (const body of bodies) whole.add(etagOf(body));
      const answers = await Promise.all(bodies.map((body) => change('PUT', path, body, current)));
      const winners = answers.flatMap(({ status }, index) => (status === 202 ? [index] : []));
      expect(winners).toHaveLength(1);
      for (const { body } of answers.filter(({ status }) => status !== 202))
        refusals[body.error.code] = (refusals[body.error.code] ?? 0) + 1;
      const won = bodies[winners[0]!]!;
      expect(readFileSync(join(root, path), 'utf8') === won).toBe(true);
      current = etagOf(won);
      expect(answers[winners[0]!]!.body.result.etag).toBe(current);
    }
    reading = false;
    await reader;
    expect(half).toEqual([]);
    expect(Object.keys(refusals).filter((code) => !['etag_mismatch', 'workspace_busy'].includes(code))).toEqual([]);
    console.info(
      `${writers} writers, ${races} rounds: one winner each; refused ${JSON.stringify(refusals)}; ${reads} reads, all whole`,
    );
    expect((await open.call('GET', `/v1/workspaces/${id}`)).body).toMatchObject({ writer: null });
  },
);

test('a write and a delete with one ETag: one of them wins', { timeout: 120_000 }, async () => {
  for (let round = 0; round < races; round++) {
    const text = `round ${round}`;
    writeFileSync(join(root, 'either'), text);
    const [put, gone] = await Promise.all([
      change('PUT', 'either', `${text} new`, etagOf(text)),
      change('DELETE', 'either', undefined, etagOf(text)),
    ]);
    expect([put.status, gone.status].filter((status) => status === 202)).toHaveLength(1);
    const disk = existsSync(join(root, 'either')) ? readFileSync(join(root, 'either'), 'utf8') : null;
    expect(disk).toBe(put.status === 202 ? `${text} new` : null);
  }
});

test(
  'an editor that makes the file at the same moment is never overwritten by a write that expects none',
  { timeout: 120_000 },
  async () => {
    let theirs = 0;
    for (let round = 0; round < races; round++) {
      const path = `made-${round}`;
      const asked = change('PUT', path, 'ours', '"absent"');
      // Some time between the first check and the last step.
      await new Promise((resolve) => setTimeout(resolve, (round % 20) / 2));
      let made = false;
      try {
        writeFileSync(join(root, path), 'theirs', { flag: 'wx' });
        made = true;
        theirs += 1;
      } catch {
        // Ours was there first.
      }
      const { status } = await asked;
      expect({ status, text: readFileSync(join(root, path), 'utf8') }).toEqual(
        made ? { status: 412, text: 'theirs' } : { status: 202, text: 'ours' },
      );
    }
    console.info(`${theirs} of ${races} files were made by the editor`);
    expect(readdirSync(join(open.home.data, 'staging'))).toEqual([]);
  },
);

test('different files may be written at once', async () => {
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, n) => change('PUT', `many/${n}`, String(n), '"absent"')),
  );
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 202));
  const revisions = answers.map(({ body }) => body.result.workspace_revision as number);
  expect(new Set(revisions).size).toBe(20);
});
