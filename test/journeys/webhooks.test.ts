import { spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { verify } from '../../src/api/signature.ts';
import { until } from '../kit/app.ts';
import { binary, createHome, type TestDaemon, type TestHome } from '../kit/daemon.ts';
import { seed, seeded } from '../kit/random.ts';
import { createReceiver } from '../kit/receiver.ts';

/** Moments of a delivery at which the daemon dies. */
const moments = ['read', 'before_spread', 'spread', 'before_send', 'sent', 'before_record', 'recorded'];
const rounds = Number(process.env.AGENTCTL_WEBHOOK_KILLS ?? 2);

test('a daemon that is killed at any moment of a delivery loses none: each arrives at least once, as one event', async () => {
  const receiver = await createReceiver();
  const home = createHome();
  const runs: string[] = [];
  try {
    const first = await home.serve();
    const { secret } = await first.call('POST', '/v1/webhook-endpoints', {
      url: receiver.url,
      event_types: ['run.completed'],
    });
    const { id: project_id } = await first.call('POST', '/v1/projects', { name: 'Killed' });
    await first.stop();

    const start = async (daemon: TestDaemon) => {
      const { run_id } = await daemon.call('POST', '/v1/runs', { project_id, harness: 'shell', prompt: 'true' });
      if (run_id) runs.push(run_id);
    };
    for (const moment of moments) {
      home.env.AGENTCTL_CRASH_AT = `webhook:${moment}`;
      // What an earlier one left may lead it to that moment before it has said that it is ready.
      const daemon = await home.serve().catch(() => undefined);
      if (!daemon) continue;
      await start(daemon).catch(() => {});
      await until(`its death at ${moment}`, () => daemon.process.signalCode === 'SIGKILL');
    }
    delete home.env.AGENTCTL_CRASH_AT;
    const chosen = seed();
    const random = seeded(chosen);
    for (let round = 0; round < rounds; round++) {
      const daemon = await home.serve();
      for (let n = 0; n < 3; n++) await start(daemon);
      const end = performance.now() + random() * 400;
      await until('the moment', () => performance.now() >= end);
      await daemon.kill();
    }
    const last = await home.serve();
    const arrived = () => new Set(receiver.got.map(({ body }) => JSON.parse(body).data.id as string));
    await until(`all to arrive (AGENTCTL_SEED=${chosen})`, () => runs.every((id) => arrived().has(id)));
    const ids = new Map<string, string>();
    for (const { headers, body } of receiver.got) {
      const event = verify({ secret, headers, body });
      expect(ids.get(event.data.id) ?? event.id).toBe(event.id);
      ids.set(event.data.id, event.id);
    }
    expect(runs.length).toBeGreaterThanOrEqual(rounds * 3 + 3);
    const settled = () => last.call('GET', '/v1/webhook-deliveries?status=pending,retrying');
    await until('all to be noted', async () => (await settled()).data.length === 0);
    const { data } = await last.call('GET', '/v1/webhook-deliveries?limit=200');
    // One delivery for each event, however often the daemon died.
    expect(new Set(data.map(({ event_id }: { event_id: string }) => event_id)).size).toBe(data.length);
    expect(data.every(({ status }: { status: string }) => status === 'succeeded')).toBe(true);
    await last.stop();
  } finally {
    await receiver.close();
    home.remove();
  }
});

describe('on the command line', () => {
  let home: TestHome;
  let daemon: TestDaemon;
  beforeAll(async () => {
    home = createHome();
    daemon = await home.serve();
  });
  afterAll(async () => {
    await daemon.stop();
    home.remove();
  });

  /** `webhooks listen` that has begun: its lines as they come. */
  async function listener(args: string[] = []) {
    const child = spawn(process.execPath, [binary, 'webhooks', 'listen', ...args], {
      env: home.env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const lines: string[] = [];
    createInterface({ input: child.stdout }).on('line', (line) => lines.push(line));
    let said = '';
    child.stderr.on('data', (text: Buffer) => (said += text.toString()));
    const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
    await until('it to listen', () => said.includes('Listening'));
    return { child, lines, ended };
  }
  const enabled = async () =>
    (await daemon.call('GET', '/v1/webhook-endpoints')).data.filter(
      (one: { status: string }) => one.status === 'enabled',
    );

  test('an endpoint is added, tested, listed, changed and removed; a delivery is shown, verified and replayed', async () => {
    const receiver = await createReceiver();
    const added = await home.cli([
      'webhooks',
      'add',
      receiver.url,
      '--events',
      'webhook.test',
      '--description',
      'mine',
    ]);
    expect(added).toMatchObject({ code: 0, stdout: expect.stringMatching(/^whsec_\S+\n$/) });
    const secret = added.stdout.trim();
    expect((await home.cli(['webhooks', 'ls'])).stdout).toContain('mine');
    expect(await home.cli(['webhooks', 'test', '@last'])).toMatchObject({
      code: 0,
      stderr: expect.stringContaining('Arrived'),
    });
    const [{ headers, body }] = receiver.got as [(typeof receiver.got)[0]];
    const words = [
      ['--id', String(headers['webhook-id'])],
      ['--timestamp', String(headers['webhook-timestamp'])],
      ['--signature', String(headers['webhook-signature'])],
    ].flat();
    mkdirSync(join(home.folder, 'x'));
    writeFileSync(join(home.folder, 'x/secret'), `${secret}\n`);
    const check = (input: string) =>
      home.cli(['webhooks', 'verify', '-', ...words, '--secret-file', join(home.folder, 'x/secret')], { input });
    expect(await check(body)).toMatchObject({ code: 0, stdout: `${body}\n` });
    expect(await check(`${body} `)).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining('No signature'),
    });
    expect((await home.cli(['deliveries', 'show', '@last'])).stdout).toMatch(/status +succeeded/);
    expect(await home.cli(['deliveries', 'replay', '@last'])).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^[0-9a-f-]{36}\n$/),
    });
    await until('the replay', () => receiver.got.length === 2);
    await receiver.close();
    expect(await home.cli(['webhooks', 'test', '@last'])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('ECONNREFUSED'),
    });
    const edited = await home.cli(['webhooks', 'edit', '@last', '--disable', '--json']);
    expect(JSON.parse(edited.stdout)).toMatchObject({ status: 'disabled', disabled_reason: 'requested' });
    expect(await home.cli(['deliveries', 'replay', '--since', '1h'])).toMatchObject({
      code: 7,
      stderr: expect.stringContaining('disabled'),
    });
    expect(await home.cli(['webhooks', 'rm', '@last', '-y'])).toMatchObject({ code: 0 });
    expect((await home.cli(['webhooks', 'ls'])).stdout).toBe('');
    expect(await home.cli(['webhooks', 'add', 'http://10.0.0.1/'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('webhooks.allow_private'),
    });
  });

  test('listen prints events, passes them on with their signature, and leaves nothing behind; after a kill the next one clears up', async () => {
    const receiver = await createReceiver();
    const { child, lines, ended } = await listener([
      '--forward',
      receiver.url,
      '--events',
      'run.started,run.completed',
    ]);
    const { id: project_id } = await daemon.call('POST', '/v1/projects', { name: 'Heard' });
    await daemon.call('POST', '/v1/runs', { project_id, harness: 'shell', prompt: 'true' });
    await until('both lines', () => lines.length === 2);
    expect(lines.join('\n')).toMatch(/run\.started +run \S+ running {2}→ 200/);
    expect(lines.join('\n')).toMatch(/run\.completed +run \S+ completed {2}→ 200/);
    expect(receiver.got).toHaveLength(2);
    expect(receiver.got[0]!.headers['webhook-signature']).toMatch(/^hs256,[0-9a-f]{64} v1,/);
    child.kill('SIGTERM');
    expect(await ended).toBe(0);
    expect(await enabled()).toEqual([]);
    await receiver.close();

    const killed = await listener();
    killed.child.kill('SIGKILL');
    await killed.ended;
    expect(await enabled()).toHaveLength(1);
    const next = await listener();
    expect(await enabled()).toMatchObject([{ description: expect.stringContaining(`process ${next.child.pid} on`) }]);
    next.child.kill('SIGINT');
    expect(await next.ended).toBe(0);
    expect(await enabled()).toEqual([]);
  });
});
