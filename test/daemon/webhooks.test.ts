import { readdirSync, readFileSync, statSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { verify } from '../../src/api/signature.ts';
import type { Address } from '../../src/webhooks/destinations.ts';
import { delays } from '../../src/webhooks/schedule.ts';
import { type Answer, openApp, type TestApp, until } from '../kit/app.ts';
import { createTestClock, type TestClock } from '../kit/clock.ts';
import { createReceiver, type Receiver } from '../kit/receiver.ts';
import { createProject, createRun, createWorkspace, ended, missingRun, untilRun, withMissingHarness } from './scene.ts';

const open: { close(): unknown }[] = [];
afterEach(async () => {
  for (const one of open.splice(0).toReversed()) await one.close();
});

interface Scene extends TestApp {
  clock: TestClock;
  /** Names that lead somewhere else than the system says. */
  names: Map<string, Address[]>;
}

async function scene(config: object = {}): Promise<Scene> {
  const clock = createTestClock();
  const names = new Map<string, Address[]>();
  const resolve = async (name: string) => {
    const found = names.get(name);
    if (!found) throw Object.assign(new Error('no'), { code: 'ENOTFOUND' });
    return found;
  };
  const app = await openApp({ clock, resolve, config: { ...withMissingHarness, ...config } });
  open.push(app);
  return { ...app, clock, names };
}

async function receiver(): Promise<Receiver> {
  const one = await createReceiver();
  open.push(one);
  return one;
}

/** An endpoint that is registered: its id and secret. */
async function register({ call }: TestApp, url: string, more: object = {}): Promise<{ id: string; secret: string }> {
  const { status, body, text } = await call('POST', '/v1/webhook-endpoints', { url, ...more });
  if (status !== 201) throw new Error(text);
  return body;
}

const deliveries = async ({ call }: TestApp, query = '') =>
  (await call('GET', `/v1/webhook-deliveries?limit=200${query}`)).body.data;
const only = async (app: TestApp, query = '') => {
  const found = await deliveries(app, query);
  expect(found).toHaveLength(1);
  return found[0];
};
/** Lets the clock go on until what is next due is due. */
const toNext = async (app: Scene, id: string): Promise<void> => {
  const { next_attempt_at } = (await app.call('GET', `/v1/webhook-deliveries/${id}`)).body;
  app.clock.advance(Date.parse(next_attempt_at) - app.clock.now());
  await app.app.settle();
};
/** A run that ends at once: run.failed. */
const runOnce = async (app: TestApp, body: object = {}) => {
  const { id } = await createProject(app);
  const { run_id } = await createRun(app, { ...missingRun, project_id: id, ...body });
  await untilRun(app, run_id, ended);
  return run_id;
};

describe('a delivery', () => {
  test('is signed, names what it is about, holds nothing that an agent or a person wrote, and arrives', async () => {
    const app = await scene();
    const { url, got } = await receiver();
    const { id, secret } = await register(app, url, { event_types: ['run.failed'] });
    const run = await runOnce(app, { prompt: 'CANARY-prompt' });
    await app.app.settle();
    expect(got).toHaveLength(1);
    const [{ headers, body }] = got as [(typeof got)[0]];
    const event = verify({ secret, headers, body, now: app.clock.now() });
    expect(event).toMatchObject({
      type: 'run.failed',
      organization_id: expect.any(String),
      data: { object: 'run', id: run, run_id: run, status: 'failed', error_code: 'harness_not_found' },
    });
    expect(body).not.toContain('CANARY');
    const delivery = await only(app);
    expect(headers).toMatchObject({
      'webhook-id': event.id,
      'webhook-timestamp': String(Math.floor(app.clock.now() / 1000)),
      'webhook-delivery-id': delivery.id,
      'webhook-attempt': '1',
      'content-type': 'application/json',
    });
    expect(delivery).toMatchObject({
      endpoint_id: id,
      event_id: event.id,
      event_type: 'run.failed',
      status: 'succeeded',
      attempt_count: 1,
      attempts: [{ number: 1, response_status: 200, response_excerpt: 'ok', error: null }],
      next_attempt_at: null,
      replay_of: null,
    });
  });

  test('goes to every endpoint that subscribes; of a run that names endpoints to those alone', async () => {
    const app = await scene();
    const { url, got } = await receiver();
    const all = await register(app, `${url}/all`);
    const failed = await register(app, `${url}/failed`, { event_types: ['run.failed', 'run.completed'] });
    await register(app, `${url}/other`, { event_types: ['run.completed'] });
    await runOnce(app);
    expect(got.map(({ path }) => path).toSorted()).toEqual(['/hook/all', '/hook/failed']);
    const ids = new Set(got.map(({ headers }) => headers['webhook-id']));
    expect(ids.size).toBe(1);
    got.length = 0;
    const run = await runOnce(app, { webhook_endpoint_ids: [failed.id.toUpperCase()] });
    expect(got.map(({ path }) => path)).toEqual(['/hook/failed']);
    expect((await app.call('GET', `/v1/runs/${run}`)).body.webhook_endpoint_ids).toEqual([failed.id]);
    await runOnce(app, { webhook_endpoint_ids: [] });
    expect(got).toHaveLength(1);
    const { id: project_id } = await createProject(app);
    const unknown = { ...missingRun, project_id, webhook_endpoint_ids: [all.id, project_id] };
    expect((await app.call('POST', '/v1/runs', unknown)).status).toBe(404);
  });

  test('that fails six times and then arrives keeps to the schedule, and says how it went', async () => {
    const app = await scene();
    const { url, got, answer } = await receiver();
    await register(app, url);
    answer((response) => void response.writeHead(503).end('not now'));
    await runOnce(app);
    const { id } = await only(app);
    for (let attempt = 1; attempt <= 6; attempt++) {
      const { status, attempt_count, next_attempt_at } = await only(app);
      expect({ status, attempt_count }).toEqual({ status: 'retrying', attempt_count: attempt });
      const wait = Date.parse(next_attempt_at) - app.clock.now();
      expect(wait / delays[attempt - 1]!).toBeGreaterThanOrEqual(0.8);
      expect(wait / delays[attempt - 1]!).toBeLessThanOrEqual(1.2);
      app.clock.advance(wait - 1);
      await app.app.settle();
      expect(got).toHaveLength(attempt);
      if (attempt === 6) answer((response) => void response.end());
      await toNext(app, id);
    }
    const delivery = await only(app);
    expect(delivery).toMatchObject({ status: 'succeeded', attempt_count: 7, next_attempt_at: null });
    expect(delivery.attempts.map((one: { response_status: number }) => one.response_status)).toEqual([
      503, 503, 503, 503, 503, 503, 200,
    ]);
    expect(delivery.attempts[0].response_excerpt).toBe('not now');
    expect(new Set(got.map(({ headers }) => headers['webhook-id'])).size).toBe(1);
    expect(got.map(({ headers }) => headers['webhook-attempt'])).toEqual(['1', '2', '3', '4', '5', '6', '7']);
    expect(new Set(got.map(({ headers }) => headers['webhook-timestamp'])).size).toBe(7);
  });

  test('is exhausted after the seventh retry; a replay is a new delivery of the same event', async () => {
    const app = await scene();
    const { url, got, answer } = await receiver();
    const { id: endpoint, secret } = await register(app, url);
    answer((response) => void response.writeHead(500).end());
    await runOnce(app);
    const { id, event_id } = await only(app);
    for (let retry = 1; retry <= 7; retry++) await toNext(app, id);
    expect(await only(app)).toMatchObject({ status: 'exhausted', attempt_count: 8, next_attempt_at: null });
    answer((response) => void response.end());
    const { status, body } = await app.call('POST', `/v1/webhook-deliveries/${id}/replay`, {});
    expect(status).toBe(202);
    expect(body).toMatchObject({ type: 'webhook.replay', status: 'succeeded', result: { event_id } });
    expect(body.result.delivery_id).not.toBe(id);
    await app.app.settle();
    const [fresh] = await deliveries(app, '&status=succeeded');
    expect(fresh).toMatchObject({ id: body.result.delivery_id, event_id, replay_of: id, attempt_count: 1 });
    const { headers, body: sent } = got.at(-1)!;
    expect(verify({ secret, headers, body: sent, now: app.clock.now() }).id).toBe(event_id);
    expect(sent).toBe(got[0]!.body);
    await app.call('DELETE', `/v1/webhook-endpoints/${endpoint}`);
    expect((await app.call('POST', `/v1/webhook-deliveries/${id}/replay`, {})).status).toBe(409);
  });

  test('a failed webhook never changes a run', async () => {
    const app = await scene();
    const { url, answer } = await receiver();
    const quiet = await runOnce(app);
    await register(app, url);
    answer((response) => void response.destroy());
    const told = await runOnce(app);
    const shape = async (run: string) => {
      const { body: result } = await app.call('GET', `/v1/runs/${run}/result`);
      const { body: events } = await app.call('GET', `/v1/runs/${run}/events`);
      return [result.status, result.error.code, events.data.map(({ type }: { type: string }) => type)];
    };
    expect(await shape(told)).toEqual(await shape(quiet));
    expect(await only(app)).toMatchObject({ status: 'retrying' });
  });
});

describe('a receiver that misbehaves', () => {
  /** A socket that does as it likes. */
  async function raw(behave: (write: (text: string) => void) => void): Promise<string> {
    const server = createServer((socket) => {
      socket.on('error', () => {});
      socket.once('data', () => behave((text) => void (socket.writable && socket.write(text))));
      socket.on('end', () => socket.end());
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    open.push({ close: () => server.close() });
    return `http://127.0.0.1:${(server.address() as { port: number }).port}/`;
  }

  test('never answers: after ten seconds the attempt is over', async () => {
    const app = await scene();
    let asked = false;
    await register(app, await raw(() => (asked = true)));
    void runOnce(app).catch(() => {});
    await until('the request', () => asked);
    app.clock.advance(9_999);
    await app.call('GET', '/v1/webhook-deliveries');
    expect(await only(app)).toMatchObject({ status: 'pending', attempt_count: 0 });
    app.clock.advance(1);
    const delivery = await until('the end', async () =>
      (await deliveries(app)).find((one: { status: string }) => one.status === 'retrying'),
    );
    expect(delivery.attempts).toMatchObject([
      { response_status: null, error: { code: 'timeout' }, duration_ms: 10_000 },
    ]);
  });

  test('sends a byte a second: ten seconds for all of it, though its status was good', async () => {
    const app = await scene();
    let write: ((text: string) => void) | undefined;
    await register(app, await raw((to) => (write = to)));
    void runOnce(app).catch(() => {});
    const drip = await until('the request', () => write);
    drip('HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n');
    for (let second = 0; second < 10; second++) {
      drip('x');
      app.clock.advance(1_000);
    }
    const delivery = await until('the end', async () =>
      (await deliveries(app)).find((one: { status: string }) => one.status === 'retrying'),
    );
    expect(delivery.attempts[0]).toMatchObject({ error: { code: 'timeout' }, duration_ms: 10_000 });
  });

  test('sends without end: what is read is bounded, the excerpt is short and plain', async () => {
    const app = await scene();
    const { url, answer } = await receiver();
    await register(app, url);
    let sent = 0;
    let gone = false;
    answer((response) => {
      response.on('close', () => (gone = true));
      const more = () => {
        while (!gone) {
          sent += 65_536;
          if (!response.write(Buffer.alloc(65_536, '\u001bx\u0000'))) return void response.once('drain', more);
        }
      };
      more();
    });
    await runOnce(app);
    await until('it to be cut off', () => gone);
    expect(sent).toBeLessThan(32 * 1_048_576);
    const { status, attempts } = await only(app);
    expect(status).toBe('succeeded');
    expect(attempts[0].response_excerpt).toHaveLength(1_024);
    expect(attempts[0].response_excerpt).toMatch(/^(\ufffdx\ufffd)+/);
  });

  test.each([
    ['no HTTP', 'SSH-2.0-OpenSSH\r\n', 'invalid_answer'],
    ['headers without end', `HTTP/1.1 200 OK\r\n${'X-A: b\r\n'.repeat(5_000)}`, 'invalid_answer'],
  ])('answers with %s', async (_name, text, code) => {
    const app = await scene();
    await register(app, await raw((write) => write(text)));
    await runOnce(app);
    expect((await only(app)).attempts[0].error.code).toBe(code);
  });

  test('redirects to a metadata address, and to another one: neither is followed', async () => {
    const app = await scene();
    const { url, answer } = await receiver();
    const trap = await receiver();
    await register(app, url);
    for (const location of ['http://169.254.169.254/latest/meta-data/', trap.url]) {
      answer((response) => void response.writeHead(307, { location }).end());
      await runOnce(app);
      expect((await deliveries(app))[0]).toMatchObject({ status: 'retrying', attempts: [{ response_status: 307 }] });
    }
    expect(trap.got).toHaveLength(0);
  });

  test('rebinds its name between the check and the connection: the connection goes where the check was', async () => {
    const app = await scene({ webhooks: { allow_private: ['hook.example'] } });
    const { port, got } = await receiver();
    const here: Address[] = [{ address: '127.0.0.1', family: 4 }];
    // Only our own answer leads anywhere: asked again by its name, the system would know of no such host.
    app.names.set('hook.example', here);
    await register(app, `http://hook.example:${port}/hook`);
    await runOnce(app);
    expect(got).toHaveLength(1);
    expect(got[0]!.headers.host).toBe(`hook.example:${port}`);
  });

  test('a name that leads elsewhere at an attempt than at its registration is refused then: nothing is connected to', async () => {
    const app = await scene();
    const { port, got } = await receiver();
    app.names.set('hook.example', [{ address: '1.1.1.1', family: 4 }]);
    const { call } = app;
    // Whoever is not the local session: the name may lead to public places alone.
    const { id } = await register(app, `http://hook.example:${port}/hook`);
    app.app.db.run('UPDATE webhooks SET loopback = 0 WHERE id = ?', [id]);
    for (const address of ['127.0.0.1', '169.254.169.254', '10.0.0.1']) {
      app.names.set('hook.example', [
        { address: '1.1.1.1', family: 4 },
        { address, family: 4 },
      ]);
      await runOnce(app);
      const [{ attempts }] = await deliveries(app);
      expect(attempts[0].error).toMatchObject({
        code: 'blocked_destination',
        message: expect.stringContaining(address),
      });
      expect(attempts[0].duration_ms).toBe(0);
    }
    expect(got).toHaveLength(0);
    expect((await call('GET', `/v1/webhook-endpoints/${id}`)).body.status).toBe('enabled');
  });

  test('that is dead delays nobody else', async () => {
    const app = await scene();
    const dead: string[] = [];
    let hanging = 0;
    for (let n = 0; n < 20; n++) dead.push(await raw(() => (hanging += 1)));
    const { url, got } = await receiver();
    for (const one of dead) for (let n = 0; n < 3; n++) await register(app, one);
    await register(app, url);
    const { id } = await createProject(app);
    for (let n = 0; n < 5; n++) {
      const { run_id } = await createRun(app, { ...missingRun, project_id: id });
      await until('its end', async () => ended.includes((await app.call('GET', `/v1/runs/${run_id}`)).body.status));
    }
    await until('what can arrive to arrive', () => got.length === 5);
    // Sixty-four, and one more for each that came too late for these.
    expect(hanging).toBeLessThanOrEqual(64 + 60);
    expect(await deliveries(app, '&status=retrying')).toEqual([]);
  });
});

describe('an endpoint', () => {
  test('that answers 410 is disabled, and the others are told', async () => {
    const app = await scene();
    const gone = await receiver();
    const other = await receiver();
    const { id } = await register(app, gone.url, { event_types: ['run.failed'] });
    await register(app, other.url, { event_types: ['webhook_endpoint.disabled'] });
    gone.answer((response) => void response.writeHead(410).end());
    await runOnce(app);
    await app.app.settle();
    expect((await app.call('GET', `/v1/webhook-endpoints/${id}`)).body).toMatchObject({
      status: 'disabled',
      disabled_reason: 'gone',
    });
    expect((await deliveries(app, `&endpoint_id=${id}`))[0]).toMatchObject({ status: 'cancelled', attempt_count: 1 });
    expect(JSON.parse(other.got[0]!.body)).toMatchObject({
      type: 'webhook_endpoint.disabled',
      data: { object: 'webhook_endpoint', id, reason: 'gone' },
    });
    await runOnce(app);
    expect(gone.got).toHaveLength(1);
  });

  test('at which nothing has arrived for five days is disabled; one success in between starts that anew', async () => {
    const app = await scene();
    const { url, answer } = await receiver();
    const { id } = await register(app, url, { event_types: ['webhook.test'] });
    const send = async () => {
      await app.call('POST', `/v1/webhook-endpoints/${id}/test`, {});
      await app.app.settle();
      return (await app.call('GET', `/v1/webhook-endpoints/${id}`)).body;
    };
    const fail = () => answer((response) => void response.writeHead(500).end());
    const days = async (n: number) => {
      for (let hour = 0; hour < n * 24; hour += 12) {
        app.clock.advance(12 * 3_600_000);
        await app.app.settle();
      }
    };
    fail();
    await send();
    await days(4);
    answer((response) => void response.end());
    await send();
    fail();
    await send();
    await days(4.5);
    expect((await send()).status).toBe('enabled');
    await days(1);
    expect(await send().catch(() => ({}))).toMatchObject({ status: 'disabled', disabled_reason: 'failing' });
    expect(await deliveries(app, '&status=pending,retrying')).toEqual([]);
    const { body } = await app.call('PATCH', `/v1/webhook-endpoints/${id}`, { status: 'enabled' });
    expect(body).toMatchObject({ status: 'enabled', disabled_reason: null });
    expect((await send()).status).toBe('enabled');
  });

  test('that is disabled is sent nothing more, what was under way included', async () => {
    const app = await scene();
    const { url, got, answer } = await receiver();
    const { id } = await register(app, url, { event_types: ['run.failed'] });
    answer((response) => void response.writeHead(500).end());
    await runOnce(app);
    expect((await app.call('DELETE', `/v1/webhook-endpoints/${id}`)).status).toBe(204);
    expect((await app.call('DELETE', `/v1/webhook-endpoints/${id}`)).status).toBe(204);
    expect(await only(app)).toMatchObject({ status: 'cancelled', next_attempt_at: null });
    app.clock.advance(60_000);
    await app.app.settle();
    await runOnce(app);
    expect(got).toHaveLength(1);
    expect((await app.call('POST', `/v1/webhook-endpoints/${id}/test`, {})).body.error).toMatchObject({
      code: 'invalid_state',
      details: { state: 'disabled' },
    });
  });

  test('signs with every secret that has not expired, the oldest last', async () => {
    const app = await scene();
    const { url, got } = await receiver();
    const { id, secret: first } = await register(app, url, { event_types: ['webhook.test'] });
    const rotate = async (overlap_seconds: number) =>
      (await app.call('POST', `/v1/webhook-endpoints/${id}/rotate-secret`, { overlap_seconds })).body;
    const send = async () => {
      await app.call('POST', `/v1/webhook-endpoints/${id}/test`, {});
      await app.app.settle();
      const { headers, body } = got.at(-1)!;
      const holds = (secret: string) => {
        try {
          return Boolean(verify({ secret, headers, body, now: app.clock.now() }));
        } catch {
          return false;
        }
      };
      return { count: String(headers['webhook-signature']).split(' ').length, holds };
    };
    const second = await rotate(100);
    expect(second.secrets).toHaveLength(2);
    expect(second.secrets[0].last4).toBe(second.secret.slice(-4));
    const both = await send();
    expect([both.count, both.holds(first), both.holds(second.secret)]).toEqual([4, true, true]);
    app.clock.advance(100_000);
    const one = await send();
    expect([one.count, one.holds(first), one.holds(second.secret)]).toEqual([2, false, true]);
    const third = await rotate(0);
    expect(third.secrets).toHaveLength(1);
    const now = await send();
    expect([now.count, now.holds(second.secret), now.holds(third.secret)]).toEqual([2, false, true]);
    for (let n = 0; n < 8; n++) await rotate(1_000);
    expect((await send()).count).toBe(10);
  });

  test('is refused at its registration and at a change: nothing is stored, and the setting is named where one helps', async () => {
    const app = await scene();
    const refusal = async (answer: Promise<Answer>) => {
      const { status, body } = await answer;
      return [status, body.error.code, body.error.param, body.error.details.setting];
    };
    const create = (url: string) => refusal(app.call('POST', '/v1/webhook-endpoints', { url }));
    expect(await create('http://169.254.169.254/')).toEqual([400, 'invalid_request', 'url', undefined]);
    expect(await create(`http://127.1:${app.port}/v1/runs`)).toEqual([400, 'invalid_request', 'url', undefined]);
    expect(await create(`http://localhost.example:${app.port}/`)).toEqual([400, 'invalid_request', 'url', undefined]);
    expect(await create('http://10.0.0.1/')).toEqual([400, 'invalid_request', 'url', 'webhooks.allow_private']);
    expect((await app.call('GET', '/v1/webhook-endpoints')).body.data).toEqual([]);
    const { id } = await register(app, 'http://127.0.0.1:9999/');
    const change = (body: object) => app.call('PATCH', `/v1/webhook-endpoints/${id}`, body);
    expect(await refusal(change({ url: 'http://10.0.0.1/' }))).toEqual([
      400,
      'invalid_request',
      'url',
      'webhooks.allow_private',
    ]);
    expect((await change({})).body.url).toBe('http://127.0.0.1:9999/');
    for (const body of [
      { url: 'http://1.1.1.1/', secret: 'x' },
      { url: 5 },
      {},
      { url: 'http://1.1.1.1/', event_types: [] },
      { url: 'http://1.1.1.1/', event_types: ['run.exploded'] },
    ])
      expect((await app.call('POST', '/v1/webhook-endpoints', body)).status).toBe(400);
  });

  test('loopback is for the local session: an API key needs the setting', async () => {
    const app = await scene({ webhooks: { allow_private: ['127.0.0.1:7777'] } });
    const { body: made } = await app.call('POST', '/v1/api-keys', {
      name: 'hooks',
      scopes: ['webhooks:write', 'webhooks:read'],
    });
    const headers = { authorization: `Bearer ${made.key}` };
    const create = async (url: string) => (await app.call('POST', '/v1/webhook-endpoints', { url }, headers)).status;
    expect(await create('http://127.0.0.1:8888/')).toBe(400);
    expect(await create('http://[::ffff:127.0.0.1]:8888/')).toBe(400);
    expect(await create('http://127.0.0.1:7777/')).toBe(201);
    const { id } = await register(app, 'http://127.0.0.1:8888/');
    const change = (body: object) => app.call('PATCH', `/v1/webhook-endpoints/${id}`, body, headers);
    expect((await change({ url: 'http://127.0.0.1:8889/' })).status).toBe(400);
    expect((await change({ description: 'mine' })).body).toMatchObject({
      url: 'http://127.0.0.1:8888/',
      description: 'mine',
    });
  });
});

describe('secrets', () => {
  test('lie nowhere in the data directory in the clear, and are shown once', async () => {
    const app = await scene();
    const { url } = await receiver();
    const key = { 'idempotency-key': 'hook' };
    const create = () => app.call('POST', '/v1/webhook-endpoints', { url }, key);
    const { body: made } = await create();
    await app.call('POST', `/v1/webhook-endpoints/${made.id}/test`, {});
    await app.app.settle();
    expect((await app.call('GET', `/v1/webhook-endpoints/${made.id}`)).text).not.toContain(made.secret);
    const raw = Buffer.from(made.secret.slice(6), 'base64');
    const files = (folder: string): string[] =>
      readdirSync(folder, { withFileTypes: true }).flatMap((entry) =>
        entry.isDirectory() ? files(join(folder, entry.name)) : entry.isFile() ? [join(folder, entry.name)] : [],
      );
    for (const file of files(app.home.data).concat(files(app.home.state)))
      for (const form of [made.secret.slice(6), raw, raw.toString('hex'), raw.toString('base64url')])
        expect([file, readFileSync(file).includes(form)]).toEqual([file, false]);
    expect(statSync(join(app.home.data, 'secrets.key')).mode & 0o777).toBe(0o600);

    const again = await create();
    expect(again.headers['idempotent-replayed']).toBe('true');
    expect(again.body).toEqual(made);
    app.clock.advance(601_000);
    expect((await create()).body).toEqual({ ...made, secret: null });
  });

  test('the retry of a registration is answered though its name leads nowhere by now', async () => {
    const app = await scene();
    app.names.set('hook.example', [{ address: '1.1.1.1', family: 4 }]);
    const create = () =>
      app.call('POST', '/v1/webhook-endpoints', { url: 'https://hook.example/' }, { 'idempotency-key': 'k' });
    const [first, second] = await Promise.all([create(), create()]);
    expect(second.body).toEqual(first.body);
    app.names.clear();
    expect((await create()).body).toEqual(first.body);
    expect((await app.call('GET', '/v1/webhook-endpoints')).body.data).toHaveLength(1);
  });
});

describe('what is announced', () => {
  test('is not lost by trimming a history, and is taken in its order', async () => {
    const app = await scene({ events: { max_per_run: 100 } });
    const { url, got } = await receiver();
    await register(app, url, { event_types: ['run.started', 'run.limit_warning', 'run.failed'] });
    await app.app.webhooks.settle();
    const { id } = await createProject(app);
    const workspace = await createWorkspace(app, id);
    const { run_id } = await createRun(app, { ...missingRun, workspace_id: workspace.id });
    await untilRun(app, run_id, ended);
    got.length = 0;
    const at = '2026-01-01T00:00:00.000Z';
    const text = (type: string, data: object) => JSON.stringify({ type, source: 'daemon', created_at: at, data });
    app.app.db.write((tx) => {
      const run = app.app.runs.about(run_id)!;
      const lines = Array.from({ length: 400 }, (_, n) =>
        text('log', { level: 'info', stream: 'stdout', text: `${n}` }),
      );
      app.app.events.append(tx, run, [
        text('limit.warning', { limit: 'cost', percent: 80 }),
        ...lines,
        text('limit.warning', { limit: 'time', percent: 80 }),
      ]);
      app.app.events.trim(run.key, run.last_sequence + 402, 1_000);
    });
    await app.app.settle();
    expect(got.map(({ body }) => JSON.parse(body).data.limit as string)).toHaveLength(2);
    const rows = (await deliveries(app)).filter(
      (one: { event_type: string }) => one.event_type === 'run.limit_warning',
    );
    const bodies = rows.map(
      (row: { event_id: string }) =>
        JSON.parse(got.find(({ headers }) => headers['webhook-id'] === row.event_id)!.body).data.limit,
    );
    expect(bodies).toEqual(['time', 'cost']);
    expect(app.app.events.announcements(10)).toEqual([]);
  });

  test('a checkpoint made by hand, and those around a run', async () => {
    const app = await scene();
    const { url, got } = await receiver();
    await register(app, url, { event_types: ['checkpoint.created'] });
    const { id } = await createProject(app);
    const workspace = await createWorkspace(app, id);
    const { body } = await app.call('POST', `/v1/workspaces/${workspace.id}/checkpoints`, {});
    await app.app.settle();
    expect(JSON.parse(got[0]!.body).data).toEqual({
      object: 'checkpoint',
      id: body.resource.id,
      trigger: 'manual',
      workspace_id: workspace.id,
    });
    const { run_id } = await createRun(app, {
      workspace_id: workspace.id,
      harness: 'shell',
      sandbox: 'none',
      prompt: 'true',
    });
    await untilRun(app, run_id, ended, () => app.clock.advance(25));
    const ofRun = got.slice(1).map(({ body: text }) => JSON.parse(text).data);
    expect(ofRun).toMatchObject([
      { object: 'checkpoint', trigger: 'before_run', run_id, workspace_id: workspace.id },
      { object: 'checkpoint', trigger: 'after_run', run_id },
    ]);
  });

  test('old deliveries are forgotten, and the endpoints that were deleted with them', async () => {
    const app = await scene({ events: { retention_days: 0.05 } });
    const { url } = await receiver();
    const { id } = await register(app, url);
    await runOnce(app);
    await app.call('DELETE', `/v1/webhook-endpoints/${id}`);
    expect(await deliveries(app)).toHaveLength(1);
    app.clock.advance(2 * 3_600_000);
    await app.app.settle();
    expect(await deliveries(app)).toEqual([]);
    expect((await app.call('GET', `/v1/webhook-endpoints/${id}`)).status).toBe(404);
    expect(app.app.db.get('SELECT count(*) AS n FROM webhook_events')).toEqual({ n: 0 });
  });
});
