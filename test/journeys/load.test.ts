import { readFileSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { createClient, type Event } from '../../src/api/client.ts';
import { until } from '../kit/app.ts';
import { createHome, type TestDaemon, type TestHome } from '../kit/daemon.ts';
import { harnessConfig } from '../kit/harness-config.ts';
import { isLong } from '../kit/random.ts';
import { scriptedAgent } from '../kit/scripted-agent.ts';

let home: TestHome;
let daemon: TestDaemon;
afterEach(async () => {
  await daemon.stop();
  home.remove();
});

/** Resident memory of a process in MiB. */
const memory = (pid: number) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) / 1024;
const percentile = (values: number[], part: number) =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length * part)]!;

const parallel = isLong ? 50 : 20;

test(
  `${parallel} parallel runs: all complete, each with a whole history, while the API goes on answering`,
  { timeout: 180_000 },
  async () => {
    home = createHome(`[runs]\nmax_parallel = ${parallel}\n`);
    daemon = await home.serve();
    const { id: project_id } = await daemon.call('POST', '/v1/projects', { name: 'load' });
    // Each waits for a common sign, so that all of them are at work at the same time.
    const sign = `${home.folder}/go`;
    const prompt = `echo up; while [ ! -e ${sign} ]; do sleep 0.2; done; for i in 1 2 3 4 5; do echo line $i; done`;
    const ids = await Promise.all(
      Array.from(
        { length: parallel },
        async () =>
          (await daemon.call('POST', '/v1/runs', { project_id, harness: 'shell', sandbox: 'none', prompt }))
            .run_id as string,
      ),
    );
    await until(
      'all at work',
      async () => (await daemon.call('GET', '/v1/runs?status=running&limit=200')).data.length === parallel,
      90_000,
    );
    const waits: number[] = [];
    for (let n = 0; n < 100; n++) {
      const before = performance.now();
      await daemon.call('GET', `/v1/runs/${ids[n % parallel]}`);
      waits.push(performance.now() - before);
    }
    console.info(
      `${parallel} at work: GET p50 ${percentile(waits, 0.5).toFixed(1)} ms, p99 ${percentile(waits, 0.99).toFixed(1)} ms, daemon ${memory(daemon.pid).toFixed(0)} MiB`,
    );
    writeFileSync(sign, '');
    for (const id of ids) {
      const run = await until(
        'an end',
        async () => {
          const seen = await daemon.call('GET', `/v1/runs/${id}`);
          return seen.finished_at !== null && seen;
        },
        60_000,
      );
      expect(run.status).toBe('completed');
      const { data } = (await daemon.call('GET', `/v1/runs/${id}/events`)) as { data: Event[] };
      expect(data.map(({ sequence }) => sequence)).toEqual(data.map((_, index) => index + 1));
      const text = data.flatMap((event) => (event.type === 'tool.output' ? [event.data.text] : [])).join('');
      expect(text).toBe('up\nline 1\nline 2\nline 3\nline 4\nline 5\n');
    }
  },
);

const crowds = [
  { readers: isLong ? 1_000 : 300, silent: 100, events: isLong ? 200 : 100, bytes: 200 },
  // More than the system's own buffers hold for a socket that is not read.
  { readers: isLong ? 110 : 40, silent: isLong ? 100 : 30, events: 600, bytes: 40_000 },
];

for (const { readers, silent, events, bytes } of crowds)
  test(
    `${readers} readers of one run of which ${silent} never read, ${bytes} bytes an event: memory stays bounded, nobody else is delayed`,
    { timeout: 180_000 },
    async () => {
      const text = 'x'.repeat(bytes);
      const tools = Array.from({ length: events }, (_, n) => [
        { tool: { id: `t${n}`, title: `${n}`, rawInput: { text } } },
        { wait: 20 },
      ]).flat();
      home = createHome();
      const file = join(home.folder, 'script.json');
      writeFileSync(file, JSON.stringify({ prompts: [[{ wait: 1_500 }, ...tools]] }));
      const { command } = scriptedAgent({ prompts: [] });
      writeFileSync(
        join(home.folder, 'config.toml'),
        harnessConfig('scripted', { command: [...command, file], env: {} }),
      );
      daemon = await home.serve();
      const { id: project_id } = await daemon.call('POST', '/v1/projects', { name: 'readers' });
      const idle = memory(daemon.pid);
      const { run_id } = await daemon.call('POST', '/v1/runs', {
        project_id,
        harness: 'scripted',
        sandbox: 'none',
        prompt: 'go',
      });

      const port = Number(new URL(daemon.url).port);
      const request = `GET /v1/runs/${run_id}/stream HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${home.token()}\r\n\r\n`;
      const sockets: Socket[] = [];
      const counts: (() => number)[] = [];
      const open = (reads: boolean) => {
        const socket = connect(port, '127.0.0.1', () => socket.write(request));
        socket.on('error', () => {});
        sockets.push(socket);
        if (!reads) return void socket.pause();
        let ids = 0;
        // An id line is short and begins a write: it may be cut by a chunk's end, but not seen twice.
        let rest: Buffer = Buffer.alloc(0);
        socket.on('data', (part: Buffer) => {
          const all = rest.length > 0 ? Buffer.concat([rest, part]) : part;
          let at = 0;
          for (let next; (next = all.indexOf('\nid: ', at)) >= 0; at = next + 1) ids++;
          rest = all.subarray(Math.max(at, all.length - 4));
        });
        counts.push(() => ids);
      };
      for (let n = 0; n < readers; n++) open(n >= silent);
      await until('all readers to be up to date', () => counts.every((count) => count() >= 1));

      const complete = Date.now();
      const client = createClient({ url: daemon.url, token: home.token() });
      const lags: number[] = [];
      let last = 0;
      let most = 0;
      for await (const event of client.follow(run_id)) {
        expect(event.sequence).toBe(last + 1);
        last = event.sequence;
        if (event.type !== 'tool.started' || Date.parse(event.created_at) < complete) continue;
        lags.push(Date.now() - Date.parse(event.created_at));
        most = Math.max(most, memory(daemon.pid) - idle);
      }
      await until('all who read to have read all', () => counts.every((count) => count() === last), 30_000);
      console.info(
        `${readers} readers, ${silent} of them silent, ${last} events of ${bytes} bytes: lag p50 ${percentile(lags, 0.5)} ms, p99 ${percentile(lags, 0.99)} ms; memory at most +${most.toFixed(0)} MiB`,
      );
      for (const socket of sockets) socket.destroy();
      expect(most).toBeLessThan(200);
    },
  );
