import { writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { expect, test } from 'vitest';
import type { Event } from '../../src/api/client.ts';
import { until } from '../kit/app.ts';
import { createHome } from '../kit/daemon.ts';
import { rounds, seed, seeded } from '../kit/random.ts';

const cuts = rounds({ short: 500, long: 10_000 }, 'AGENTCTL_CUTS');

test(
  `a stream that is cut ${cuts} times and resumed with its last id shows each event once`,
  { timeout: 300_000 },
  async () => {
    const chosen = seed();
    console.info(`seed ${chosen}`);
    const random = seeded(chosen);
    const home = createHome();
    const daemon = await home.serve();
    const { id: project_id } = await daemon.call('POST', '/v1/projects', { name: 'cuts' });
    const stop = `${home.folder}/stop`;
    const prompt = `while [ ! -e ${stop} ]; do echo tick; sleep 0.002; done`;
    const { run_id } = await daemon.call('POST', '/v1/runs', { project_id, harness: 'shell', sandbox: 'none', prompt });

    const seen: Event[] = [];
    let terminal = false;
    /** Reads so many bytes of the stream, or for so many milliseconds, and cuts it there, wherever that is; whole events count. */
    const read = (bytes: number, ms: number) =>
      new Promise<void>((resolve) => {
        const last = seen.at(-1)?.id ?? '0';
        const asking = request(
          `${daemon.url}/v1/runs/${run_id}/stream`,
          { headers: { authorization: `Bearer ${home.token()}`, 'last-event-id': last } },
          (answer) => {
            let text = '';
            let left = bytes;
            answer.setEncoding('utf8');
            answer.on('data', (part: string) => {
              text += part.slice(0, left);
              left -= part.length;
              const blocks = text.split('\n\n');
              text = blocks.pop()!;
              for (const block of blocks) {
                const data = block.split('\n').find((line) => line.startsWith('data: '));
                if (data) seen.push(JSON.parse(data.slice(6)) as Event);
              }
              if (left <= 0) asking.destroy();
            });
            answer.on('close', resolve);
            answer.on('error', () => {});
            answer.on('end', () => {
              terminal = seen.at(-1)?.type.startsWith('run.c') ?? false;
              resolve();
            });
          },
        );
        asking.on('error', () => resolve());
        if (ms < Infinity) setTimeout(() => asking.destroy(), ms);
        asking.end();
      });
    for (let n = 0; n < cuts; n++) {
      if (n === cuts - 10) {
        writeFileSync(stop, '');
        await until('the end', async () => (await daemon.call('GET', `/v1/runs/${run_id}`)).finished_at !== null);
      }
      await read(Math.floor(random() * 3_000), random() * 60);
    }
    while (!terminal) await read(Infinity, Infinity);

    const { data } = (await daemon.call('GET', `/v1/runs/${run_id}/events?limit=1000`)) as { data: Event[] };
    console.info(`${cuts} cuts, ${seen.length} events`);
    expect(seen.slice(0, 1000)).toEqual(data);
    expect(seen.map(({ sequence }) => sequence)).toEqual(seen.map((_, index) => index + 1));
    await daemon.stop();
    home.remove();
  },
);
