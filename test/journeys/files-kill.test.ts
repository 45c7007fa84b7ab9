import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { until } from '../kit/app.ts';
import { createHome, type TestDaemon, type TestHome } from '../kit/daemon.ts';
import { freePort } from '../kit/port.ts';
import { Mortal } from '../kit/mortal.ts';
import { rounds, seed, seeded } from '../kit/random.ts';

const kills = rounds({ short: 20, long: 300 });
const sha = (text: string) => createHash('sha256').update(text).digest('hex');
const etagOf = (text: string) => `"sha256-${sha(text)}"`;

let home: TestHome | undefined;
let daemon: TestDaemon | undefined;
afterEach(async () => {
  await daemon?.kill();
  home?.remove();
});

interface Reply {
  status: number;
  headers: Headers;
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into bodies of many shapes
  body: any;
}

/** One request; undefined when the daemon died before it had answered. */
async function ask(
  method: string,
  path: string,
  body?: string,
  headers: Record<string, string> = {},
): Promise<Reply | undefined> {
  try {
    const answer = await fetch(`${daemon!.url}${path}`, {
      method,
      headers: { authorization: `Bearer ${home!.token()}`, ...headers },
      ...(body === undefined ? {} : { body }),
    });
    const text = await answer.text();
    const isJson = answer.headers.get('content-type')?.startsWith('application/json');
    return { status: answer.status, headers: answer.headers, body: isJson ? JSON.parse(text) : text };
  } catch {
    return undefined;
  }
}

const octets = { 'content-type': 'application/octet-stream' };

async function begin(): Promise<{ id: string; root: string }> {
  const { body: project } = (await ask('POST', '/v1/projects', '{"name":"kill"}', {
    'content-type': 'application/json',
  }))!;
  const { body: made } = (await ask('POST', `/v1/projects/${project.id}/workspaces`, '{}', {
    'content-type': 'application/json',
  }))!;
  const id = made.resource.id as string;
  const root = await until('the workspace', async () => {
    const { body } = (await ask('GET', `/v1/workspaces/${id}`))!;
    return body.status === 'ready' && (body.path as string);
  });
  return { id, root };
}

// In an order in which a start, when it does what the last one left, does not go by the next point.
const points = {
  write: ['checked', 'before_intent', 'intended', 'applied', 'succeeded'].map((moment) => `file.write:${moment}`),
  both: ['file:before_success', 'file:renamed'],
  put: ['file:before_rename'],
  delete: ['checked', 'before_intent', 'intended', 'applied', 'succeeded'].map((moment) => `file.delete:${moment}`),
  transfer: ['transfer:received'],
};
const flows: { name: string; points: string[] }[] = [
  { name: 'make', points: [...points.write, ...points.both, ...points.put] },
  { name: 'replace', points: [...points.write, ...points.both, ...points.put] },
  { name: 'stage', points: [...points.write, ...points.both, ...points.put, ...points.transfer] },
  { name: 'delete', points: [...points.delete, ...points.both] },
];
const count = flows.reduce((sum, flow) => sum + flow.points.length, 0);

test(
  `a daemon that dies at any of ${count} named points of a change of a file is found whole by the next one`,
  { timeout: 400_000 },
  async () => {
    home = createHome('[runs]\nwarm_runners = 0\n');
    const mortal = new Mortal(home);
    const insist = async (...request: Parameters<typeof ask>): Promise<Reply> =>
      mortal.outlive(async () => {
        ({ daemon } = mortal);
        const answer = await ask(...request);
        if (!answer) throw new Error('The daemon died.');
        return answer;
      });
    let place: Awaited<ReturnType<typeof begin>> | undefined;

    const change = async (name: string): Promise<void> => {
      ({ daemon } = mortal);
      place ??= await begin();
      const { id, root } = place;
      const path = `${name}/${mortal.crashes}`;
      const old = `old ${path} `.repeat(500);
      const fresh = `new ${path} `.repeat(700);
      const onDisk = () => (existsSync(join(root, path)) ? readFileSync(join(root, path), 'utf8') : null);
      if (name !== 'make') {
        mkdirSync(dirname(join(root, path)), { recursive: true });
        writeFileSync(join(root, path), old);
      }
      // Whoever looks now has the old bytes or the new ones.
      mortal.died = () => expect([name === 'make' ? null : old, name === 'delete' ? null : fresh]).toContain(onDisk());
      mortal.back = async () => {
        expect((await mortal.daemon.call('GET', '/v1/operations?status=queued,running')).data).toEqual([]);
        expect((await mortal.daemon.call('GET', `/v1/workspaces/${id}`)).writer).toBeNull();
      };
      const match = { 'if-match': name === 'make' ? '"absent"' : etagOf(old), 'idempotency-key': path };
      let url = `/v1/workspaces/${id}/file?path=${path}`;
      if (name === 'stage') {
        const announced = JSON.stringify({ path, size_bytes: Buffer.byteLength(fresh), sha256: sha(fresh) });
        const { body: transfer } = await insist('POST', `/v1/workspaces/${id}/transfers`, announced, {
          'content-type': 'application/json',
        });
        const uploaded = await insist('PUT', new URL(transfer.upload_url).pathname, fresh, octets);
        if (uploaded.body.status !== 'uploaded') throw new Error(JSON.stringify(uploaded.body));
        url += `&transfer_id=${transfer.id}`;
      }
      const request: Parameters<typeof ask> =
        name === 'delete'
          ? ['DELETE', url, undefined, match]
          : ['PUT', url, name === 'stage' ? '' : fresh, { ...octets, ...match }];
      const answer = await insist(...request);

      expect({ status: answer.status, operation: answer.body.status }).toEqual({ status: 202, operation: 'succeeded' });
      expect(answer.body.result.etag).toBe(name === 'delete' ? '"absent"' : etagOf(fresh));
      expect(onDisk()).toBe(name === 'delete' ? null : fresh);
      const { body: operation } = await insist('GET', `/v1/operations/${answer.body.id}`);
      expect(operation).toEqual(answer.body);
      // The file that the test has put there may be noticed and counted later.
      const { body: workspace } = await insist('GET', `/v1/workspaces/${id}`);
      expect(workspace.revision).toBeGreaterThanOrEqual(answer.body.result.workspace_revision);
      const again = await insist(...request);
      expect(again.headers.get('idempotent-replayed')).toBe('true');
      expect(again.body).toEqual(answer.body);
      expect(readdirSync(join(home!.folder, 'data/staging'))).toEqual([]);
      const beside = existsSync(dirname(join(root, path))) ? readdirSync(dirname(join(root, path))) : [];
      expect(beside.filter((file) => file.startsWith('.agentctl'))).toEqual([]);
    };
    await mortal.through(flows.map(({ name, points: places }) => ({ points: places, flow: () => change(name) })));
    expect(mortal).toMatchObject({ missed: [], crashes: count });
  },
);

test(
  'what was intended and cannot be done any more is given up: the operation has failed, the key is free',
  { timeout: 60_000 },
  async () => {
    home = createHome('[runs]\nwarm_runners = 0\n');
    home.env.AGENTCTL_PORT = String(await freePort());
    daemon = await home.serve();
    const { id, root } = await begin();
    await daemon.stop();
    for (const point of ['file.write:intended', 'file:before_rename']) {
      const path = point.replace(':', '-');
      writeFileSync(join(root, path), 'old');
      home.env.AGENTCTL_CRASH_AT = point;
      daemon = await home.serve();
      const url = `/v1/workspaces/${id}/file?path=${path}`;
      const headers = { ...octets, 'if-match': etagOf('old'), 'idempotency-key': point };
      expect(await ask('PUT', url, 'new', headers)).toBeUndefined();
      await until('the crash', () => daemon!.process.signalCode !== null);
      // Somebody else was faster than the restart.
      writeFileSync(join(root, path), 'theirs');
      delete home.env.AGENTCTL_CRASH_AT;
      daemon = await home.serve();
      expect(readFileSync(join(root, path), 'utf8')).toBe('theirs');
      const { body: page } = (await ask('GET', '/v1/operations?type=file.write&limit=1'))!;
      expect(page.data).toMatchObject([
        { status: 'failed', error: { code: 'etag_mismatch' }, finished_at: expect.any(String) },
      ]);
      expect((await ask('GET', `/v1/workspaces/${id}`))!.body.writer).toBeNull();
      expect((await ask('PUT', url, 'new', headers))!.status).toBe(412);
      expect((await ask('PUT', url, 'new', { ...headers, 'if-match': etagOf('theirs') }))!.status).toBe(202);
      expect(readdirSync(join(home.folder, 'data/staging'))).toEqual([]);
      await daemon.stop();
    }
  },
);

test(
  `the daemon is killed ${kills} times while files are written and deleted: nothing acknowledged is lost, nothing is half`,
  { timeout: 600_000 },
  async () => {
    const chosen = seed();
    console.info(`seed ${chosen}`);
    const random = seeded(chosen);
    home = createHome('[runs]\nwarm_runners = 0\n');
    home.env.AGENTCTL_PORT = String(await freePort());
    daemon = await home.serve();
    const { id, root } = await begin();
    let over = false;
    const counts = { acknowledged: 0, repeated: 0, replayed: 0, busy: 0, found: 0 };

    /** Keeps one file changing, and holds the daemon to every answer it gave. */
    async function client(name: string): Promise<void> {
      const path = join(root, name);
      let current = null as string | null;
      for (let n = 0; !over; n++) {
        const url = `/v1/workspaces/${id}/file?path=${name}`;
        const gone: boolean = current !== null && random() < 0.2;
        const next: string | null = gone ? null : `${name} ${n};`.repeat(50 + Math.floor(random() * 30_000));
        const headers = {
          'if-match': current === null ? '"absent"' : etagOf(current),
          'idempotency-key': `${name}-${n}`,
        };
        for (let attempt = 0; ; attempt++) {
          const answer =
            next === null
              ? await ask('DELETE', url, undefined, headers)
              : await ask('PUT', url, next, { ...octets, ...headers });
          const disk = existsSync(path) ? readFileSync(path, 'utf8') : null;
          if (disk !== current && disk !== next) throw new Error(`${name} ${n}: half a file of ${disk?.length} bytes`);
          if (!answer) {
            counts.repeated += attempt === 0 ? 1 : 0;
            await new Promise((resolve) => setTimeout(resolve, 20));
            continue;
          }
          if (answer.status === 409 && ['workspace_busy', 'idempotency_in_progress'].includes(answer.body.error.code)) {
            counts.busy += 1;
            continue;
          }
          if (answer.status !== 202 || answer.body.status !== 'succeeded')
            throw new Error(`${name} ${n}: ${answer.status} ${JSON.stringify(answer.body)}`);
          if (disk !== next) throw new Error(`${name} ${n}: acknowledged and not there`);
          if (answer.headers.get('idempotent-replayed')) counts.replayed += 1;
          counts.acknowledged += 1;
          break;
        }
        current = next;
      }
    }

    const failures: unknown[] = [];
    const clients = ['a.txt', 'sub/b.txt', 'sub/deep/c.txt'].map((name) =>
      client(name).catch((error: unknown) => {
        failures.push(error);
        over = true;
      }),
    );
    for (let n = 0; n < kills && !over; n++) {
      const before = counts.acknowledged;
      await until('an answer after the restart', () => over || counts.acknowledged > before + Math.floor(random() * 4));
      await new Promise((resolve) => setTimeout(resolve, random() * 25));
      await daemon.kill();
      daemon = await home.serve();
    }
    over = true;
    await Promise.all(clients);
    expect(failures).toEqual([]);
    const { body: open } = (await ask('GET', '/v1/operations?status=queued,running'))!;
    expect(open.data).toEqual([]);
    for (let cursor: string | null = ''; cursor !== null;) {
      const { body }: Reply = (await ask(
        'GET',
        `/v1/operations?status=failed&limit=200${cursor && `&cursor=${cursor}`}`,
      ))!;
      counts.found += body.data.length;
      cursor = body.next_cursor;
    }
    expect(counts.found).toBe(0);
    expect((await ask('GET', `/v1/workspaces/${id}`))!.body.writer).toBeNull();
    expect(readdirSync(join(home.folder, 'data/staging'))).toEqual([]);
    const left = readdirSync(root, { recursive: true }) as string[];
    expect(left.filter((name) => name.includes('.agentctl'))).toEqual([]);
    rmSync(root, { recursive: true, force: true });
    console.info(`${kills} kills: ${JSON.stringify(counts)}`);
  },
);
