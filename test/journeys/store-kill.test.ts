import { createHash } from 'node:crypto';
import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { openTrees } from '../../src/trees/trees.ts';
import { until } from '../kit/app.ts';
import { createHome, type TestDaemon } from '../kit/daemon.ts';
import { freePort } from '../kit/port.ts';
import { rounds, seed as freshSeed, seeded } from '../kit/random.ts';
import { look } from '../src/trees/forest.ts';

const kills = rounds({ short: 4, long: 100 });
const seed = freshSeed();
const sha = (text: string) => createHash('sha256').update(text).digest('hex');
/** A text that shows whether it is whole. */
const selfProving = (words: string) => `${sha(words)} ${words}`;
const isWhole = (text: string) => selfProving(text.slice(65)) === text;

test(
  `a daemon killed at any moment of writes, checkpoints, restores and collections loses and breaks nothing (AGENTCTL_SEED=${seed})`,
  { timeout: 60_000 + kills * 10_000 },
  async () => {
    const random = seeded(seed);
    const home = createHome('[runs]\nwarm_runners = 0\n');
    home.env.AGENTCTL_PORT = String(await freePort());
    let daemon: TestDaemon = await home.serve();
    const headers = { authorization: `Bearer ${home.token()}` };
    // oxlint-disable-next-line typescript/no-explicit-any -- bodies of many shapes
    type Reply = { status: number; body: any } | undefined;
    /** One request; undefined when the daemon died before it had answered. */
    const ask = async (
      method: string,
      path: string,
      body?: unknown,
      more: Record<string, string> = {},
    ): Promise<Reply> => {
      try {
        const type = typeof body === 'string' ? 'application/octet-stream' : 'application/json';
        const answer = await fetch(`${daemon.url}${path}`, {
          method,
          headers: { ...headers, ...(body === undefined ? {} : { 'content-type': type }), ...more },
          ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
        });
        return { status: answer.status, body: await answer.json() };
      } catch {
        return undefined;
      }
    };
    const call = async (method: string, path: string, body?: unknown) => (await ask(method, path, body))!.body;
    const settled = () =>
      until('all operations to end', async () => {
        const { data } = await call('GET', '/v1/operations?status=queued,running');
        return data.length === 0;
      });
    const all = async (path: string) => {
      const found: { id: string; status: string; tree_hash: string }[] = [];
      for (let cursor = ''; ;) {
        const page = await call('GET', `${path}?limit=200${cursor && `&cursor=${cursor}`}`);
        found.push(...page.data);
        if (page.next_cursor === null) return found;
        cursor = page.next_cursor;
      }
    };

    const counts = { kills: 0, writes: 0, checkpoints: 0, verified: 0, restores: 0, finished: 0, collections: 0 };
    /** What a file may hold: what was acknowledged last, and what was sent after it and never answered; null is no file. */
    const written = new Map<string, (string | null)[]>();
    const promised = new Set<string>();
    const proven = new Set<string>();
    try {
      const { id: project } = await call('POST', '/v1/projects', { name: 'kill' });
      const make = async () => {
        const { resource } = await call('POST', `/v1/projects/${project}/workspaces`, {});
        await settled();
        return {
          at: `/v1/workspaces/${resource.id}`,
          root: (await call('GET', `/v1/workspaces/${resource.id}`)).path as string,
        };
      };
      const [mine, other] = [await make(), await make()];
      for (let n = 0; n < 60; n++) {
        mkdirSync(join(other.root, `${n % 7}`), { recursive: true });
        writeFileSync(join(other.root, `${n % 7}/${n}`), selfProving(`${n} `.repeat(500)));
      }
      const { resource: goal } = await call('POST', `${other.at}/checkpoints`, {});
      await settled();
      const wanted = look(other.root);
      const store = join(home.folder, 'data/trees', project);

      /** Everything that must be so between two lives. */
      const check = async (restore: string | null) => {
        await settled();
        for (const [path, texts] of written) {
          const file = join(mine.root, path);
          const text = existsSync(file) ? readFileSync(file, 'utf8') : null;
          expect({ path, text, isExpected: texts.includes(text) }).toEqual({ path, text, isExpected: true });
          written.set(path, [text]);
        }
        const found = readdirSync(mine.root, { recursive: true, withFileTypes: true }).filter((one) => one.isFile());
        for (const one of found)
          expect({ name: one.name, isWhole: isWhole(readFileSync(join(one.parentPath, one.name), 'utf8')) }).toEqual({
            name: one.name,
            isWhole: true,
          });
        for (const root of [mine.root, other.root])
          expect(readdirSync(root).filter((name) => name.startsWith('.agentctl'))).toEqual([]);
        const checkpoints = [...(await all(`${mine.at}/checkpoints`)), ...(await all(`${other.at}/checkpoints`))];
        const status = new Map(checkpoints.map((one) => [one.id, one.status]));
        for (const id of promised) expect({ id, status: status.get(id) }).toEqual({ id, status: 'verified' });
        const trees = openTrees(store);
        for (const { id, status: said, tree_hash } of checkpoints) {
          expect({ id, said }).toEqual({ id, said: 'verified' });
          const bad = proven.has(tree_hash) ? [] : (await trees.verify(tree_hash)).bad;
          expect({ id, bad }).toEqual({ id, bad: [] });
          proven.add(tree_hash);
        }
        await trees.close();
        counts.verified = checkpoints.length;
        // One that was accepted has been finished; of one that was not, nothing is known.
        const operation = restore && (await call('GET', `/v1/operations/${restore}`));
        expect(operation?.status ?? 'succeeded').toBe('succeeded');
        expect(restore === null ? wanted : look(other.root)).toEqual(wanted);
        if (restore !== null) counts.finished += 1;
        for (const { at } of [mine, other])
          expect(await call('GET', at)).toMatchObject({ status: 'ready', writer: null });
      };

      for (let round = 0; round < kills; round++) {
        for (let n = 0; n < 60; n += 1 + Math.floor(random() * 4)) {
          const file = join(other.root, `${n % 7}/${n}`);
          if (random() < 0.3) rmSync(file, { force: true });
          else if (existsSync(file)) appendFileSync(file, `${round}`);
        }
        writeFileSync(join(other.root, `more-${round}`), selfProving(`${round}`));
        let isOver = false;
        const writing = async () => {
          for (let n = 0; !isOver; n++) {
            const path = `f/${round}-${n % 5}`;
            const text = selfProving(`${round} ${n} `.repeat(1 + Math.floor(random() * 3000)));
            const before = written.get(path) ?? [null];
            const reply = await ask('PUT', `${mine.at}/file?path=${path}`, text, {
              'idempotency-key': `w-${round}-${n}`,
              'if-match': before.includes(null) ? '"absent"' : '*',
            });
            if (reply?.status === 202) counts.writes += 1;
            if (reply?.status === 202) written.set(path, [text]);
            else if (reply === undefined) written.set(path, [...before, text]);
          }
        };
        const keeping = async () => {
          while (!isOver) {
            const reply = await ask('POST', `${mine.at}/checkpoints`, {});
            if (reply?.status === 202) {
              promised.add(reply.body.resource.id);
              counts.checkpoints += 1;
            }
            await ask('GET', `/v1/operations/${reply?.body.id}?wait=5`);
          }
        };
        let restore: string | null = null;
        const restoring = async () => {
          const reply = await ask('POST', `${other.at}/restore`, { checkpoint_id: goal.id });
          if (reply?.status !== 202) return;
          restore = reply.body.id as string;
          counts.restores += 1;
        };
        const collecting = async () => {
          await sleep(random() * 100);
          if ((await ask('POST', '/v1/maintenance/gc', {}))?.status === 202) counts.collections += 1;
        };
        const traffic = [writing(), keeping(), restoring(), ...(round % 2 === 0 ? [collecting()] : [])];
        await sleep(random() * 500);
        isOver = true;
        await daemon.kill();
        counts.kills += 1;
        await Promise.all(traffic);
        daemon = await home.serve();
        await check(restore);
        // A restore that was not accepted has touched nothing, or was accepted and is finished: now it is done for sure.
        const { id } = await call('POST', `${other.at}/restore`, { checkpoint_id: goal.id });
        await check(id);
      }
      console.log(JSON.stringify(counts));
    } finally {
      await daemon.kill();
      home.remove();
    }
  },
);
