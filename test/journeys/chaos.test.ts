import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createClient, type Event } from '../../src/api/client.ts';
import { until } from '../kit/app.ts';
import { createHome, type TestDaemon } from '../kit/daemon.ts';
import { freePort } from '../kit/port.ts';
import { rounds, seed, seeded } from '../kit/random.ts';

const cycles = rounds({ short: 20, long: 300 });

test(
  `${cycles} kills of the daemon under load: nothing acknowledged is lost, no event changes, no run runs twice or stays for ever`,
  { timeout: 600_000 },
  async () => {
    const chosen = seed();
    console.info(`seed ${chosen}`);
    const random = seeded(chosen);
    const home = createHome('[runs]\nmax_parallel = 6\n');
    home.env.AGENTCTL_PORT = String(await freePort());
    let daemon: TestDaemon = await home.serve();
    const client = createClient({ url: daemon.url, token: home.token() });
    const tally = join(home.folder, 'tally');

    let over = false;
    const acknowledged: string[] = [];
    /** What was seen of each run's history, to be compared with what is there in the end. */
    const seen = new Map<string, Event[]>();

    const worker = async (name: number) => {
      const { id: project_id } = await client.insist('createProject', { body: { name: `worker ${name}` } });
      for (let n = 0; !over; n++) {
        const prompt = `echo ${name}.${n} >> ${tally}; for i in 1 2 3 4 5 6; do echo line $i; sleep 0.05; done`;
        const { run_id } = await client.insist('createRun', {
          body: { project_id, harness: 'shell', sandbox: 'none', prompt },
        });
        acknowledged.push(`${name}.${n} ${run_id}`);
        if (n % 2 === 0) {
          const events: Event[] = [];
          seen.set(run_id, events);
          for await (const event of client.follow(run_id)) events.push(event);
        } else await client.insist('cancelRun', { path: { run_id }, body: {} });
      }
    };
    const workers = [0, 1, 2].map(worker);

    for (let cycle = 0; cycle < cycles; cycle++) {
      await new Promise((resolve) => setTimeout(resolve, random() * 300));
      await daemon.kill();
      daemon = await home.serve();
    }
    over = true;
    await Promise.all(workers);

    for (const entry of acknowledged) {
      const [mark, run_id = ''] = entry.split(' ');
      const run = await until('the end of every run', async () => {
        const found = await client.call('getRun', { path: { run_id } });
        return found.finished_at !== null && found;
      });
      expect(['completed', 'cancelled'], `${mark}: ${JSON.stringify(run.error)}`).toContain(run.status);
      const { data } = await client.call('listRunEvents', { path: { run_id }, query: { limit: 1000 } });
      expect(data.map(({ sequence }) => sequence)).toEqual(data.map((_, index) => index + 1));
      expect(seen.get(run_id) ?? data).toEqual(data);
    }
    const marks = readFileSync(tally, 'utf8').trim().split('\n');
    expect(marks.length).toBe(new Set(marks).size);
    const all = new Set<string>();
    for await (const run of client.each('listRuns', {})) all.add(run.id);
    expect(all.size).toBe(acknowledged.length);
    console.info(
      `${cycles} kills, ${acknowledged.length} runs, ${marks.length} scripts, ${seen.size} histories followed`,
    );
    await daemon.stop();
    home.remove();
  },
);
