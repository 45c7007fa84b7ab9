import { mkdtempSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import {
  type Client,
  createClient,
  type Event,
  Fault,
  type Target,
  UnexpectedAnswer,
  Unreachable,
} from '../../../src/api/client.ts';
import { encode } from '../../../src/api/sse.ts';

const runId = '019a3b2c-4d5e-7000-8000-000000000001';
const open: Server[] = [];

interface Seen {
  method: string;
  url: string;
  headers: IncomingMessage['headers'];
  body: string;
}
type Answer = (response: ServerResponse, seen: Seen, n: number) => void;

/** A server that answers as told and remembers what it was asked. */
async function serve(answer: Answer, path?: string): Promise<{ target: Target; seen: Seen[] }> {
  const seen: Seen[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => (body += chunk.toString()));
    request.on('end', () => {
      const one = { method: request.method ?? '', url: request.url ?? '', headers: request.headers, body };
      seen.push(one);
      answer(response, one, seen.length);
    });
  });
  open.push(server);
  await new Promise<void>((resolve) => (path ? server.listen(path, resolve) : server.listen(0, '127.0.0.1', resolve)));
  const url = path ? 'http://127.0.0.1:4788' : `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { target: { url, token: 'ags_test', socket: path ?? null }, seen };
}

afterEach(() => {
  for (const server of open.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

const json = (response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}) =>
  response
    .writeHead(status, { 'content-type': 'application/json', 'x-request-id': 'req_1', ...headers })
    .end(JSON.stringify(body));

const fault = (code: string, details: object = {}, request_id: string | null = 'req_9') => ({
  error: { code, type: 'x', message: `It is ${code}.`, param: null, details, retryable: false, request_id },
});

const event = (sequence: number, type = 'log'): Event =>
  ({
    id: String(sequence),
    sequence,
    run_id: runId,
    session_id: runId,
    type,
    source: 'daemon',
    created_at: '',
    data: {},
  }) as unknown as Event;

const stream = (response: ServerResponse, ...events: Event[]) => {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  for (const one of events) response.write(encode({ id: one.id, event: one.type, data: JSON.stringify(one) }));
  response.end();
};

const sequences = async (client: Client, options: Parameters<Client['follow']>[1] = {}): Promise<number[]> => {
  const found: number[] = [];
  for await (const { sequence } of client.follow(runId, options)) found.push(sequence);
  return found;
};

describe('call', () => {
  it('makes method, path, query, headers and body from the row', async () => {
    const { target, seen } = await serve((response) => json(response, 200, { id: 'x' }));
    const client = createClient(target);
    await client.call('listWorkspaces', { path: { project_id: runId }, query: { limit: 3 } });
    await client.call('createProject', { body: { name: 'größer' } }, { idempotencyKey: 'k1' });
    expect(seen[0]).toMatchObject({ method: 'GET', url: `/v1/projects/${runId}/workspaces?limit=3` });
    expect(seen[0]?.headers).toMatchObject({ authorization: 'Bearer ags_test' });
    expect(seen[1]).toMatchObject({ method: 'POST', url: '/v1/projects', body: '{"name":"größer"}' });
    expect(seen[1]?.headers).toMatchObject({ 'idempotency-key': 'k1', 'content-type': 'application/json' });
  });

  it('escapes what stands in a path, and refuses one with a hole', async () => {
    const { target, seen } = await serve((response) => json(response, 200, {}));
    const client = createClient(target);
    await client.call('getRun', { path: { run_id: 'a/../b' } });
    expect(seen[0]?.url).toBe('/v1/runs/a%2F..%2Fb');
    await expect(client.call('getRun', { path: { run_id: '' } })).rejects.toThrow(TypeError);
  });

  it('works over a unix socket', async () => {
    const { target, seen } = await serve(
      (response) => json(response, 200, {}),
      join(mkdtempSync(join(tmpdir(), 'sock-')), 's'),
    );
    await createClient(target).call('getMe');
    expect(seen[0]?.headers.host).toBe('127.0.0.1:4788');
  });

  it('rebuilds a Fault with its details, headers and request id', async () => {
    const { target } = await serve((response, _, n) =>
      n === 1
        ? json(response, 409, fault('workspace_busy', { writer: 1 }), { 'retry-after': '3' })
        : json(response, 404, fault('not_found', {}, null)),
    );
    const client = createClient(target);
    const error = await client.call('getMe').catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(Fault);
    expect(error).toMatchObject({ code: 'workspace_busy', details: { writer: 1 }, requestId: 'req_9', status: 409 });
    expect((error as Fault).headers['retry-after']).toBe('3');
    await expect(client.call('getMe')).rejects.toMatchObject({ code: 'not_found', requestId: 'req_1' });
  });

  it('tells an answer of somebody else from one of ours, and both from none', async () => {
    const { target } = await serve((response, _, n) => {
      if (n === 1) response.writeHead(502).end('<html>');
      else if (n === 2) json(response, 418, fault('code_of_the_future'));
      else response.writeHead(200).end('hello');
    });
    const client = createClient(target);
    await expect(client.call('getMe')).rejects.toThrow(UnexpectedAnswer);
    await expect(client.call('getMe')).rejects.toMatchObject({
      message: 'It is code_of_the_future.',
      status: 418,
      requestId: 'req_1',
    });
    await expect(client.call('getMe')).rejects.toThrow(UnexpectedAnswer);
    await expect(createClient({ url: 'http://127.0.0.1:1' }).call('getMe')).rejects.toThrow(Unreachable);
  });

  it('takes another transport and asks for the target each time', async () => {
    const tokens: (string | null | undefined)[] = [];
    let n = 0;
    const client = createClient(() => ({ url: 'http://x', token: `t${++n}` }), {
      transport: async ({ token }) => {
        tokens.push(token);
        return { status: 200, headers: {}, body: (async function* () {})() };
      },
    });
    await client.call('getMe');
    await client.call('getMe');
    expect(tokens).toEqual(['t1', 't2']);
  });
});

describe('insist', () => {
  it('repeats with the same key until it is answered', async () => {
    const { target, seen } = await serve((response, _, n) => {
      if (n === 1) response.socket?.destroy();
      else if (n === 2) json(response, 503, fault('unavailable'));
      else json(response, 202, { run_id: runId });
    });
    const accepted = await createClient(target).insist('createRun', { body: { prompt: 'x' } });
    expect(accepted.run_id).toBe(runId);
    const keys = seen.map(({ headers }) => headers['idempotency-key']);
    expect(keys).toHaveLength(3);
    expect(new Set(keys).size).toBe(1);
    expect(keys[0]).toMatch(/^[0-9a-f-]{36}$/);
  });

  it('gives up on what will not pass', async () => {
    const { target, seen } = await serve((response) => json(response, 409, fault('session_busy')));
    await expect(createClient(target).insist('createRun', { body: { prompt: 'x' } })).rejects.toMatchObject({
      code: 'session_busy',
    });
    expect(seen).toHaveLength(1);
  });
});

describe('each', () => {
  it('gives every item of every page, with the filters of the first', async () => {
    const { target, seen } = await serve((response, _, n) =>
      json(response, 200, { data: [{ id: n }], next_cursor: n < 3 ? `c${n}` : null }),
    );
    const found: unknown[] = [];
    for await (const run of createClient(target).each('listRuns', { query: { status: 'failed' } })) found.push(run);
    expect(found).toEqual([{ id: 1 }, { id: 2 }, { id: 3 }]);
    expect(seen.map(({ url }) => url)).toEqual([
      '/v1/runs?status=failed',
      '/v1/runs?status=failed&cursor=c1',
      '/v1/runs?status=failed&cursor=c2',
    ]);
  });
});

describe('follow', () => {
  it('goes on where it was after each break, gives nothing twice, and ends with the terminal event', async () => {
    const states: string[] = [];
    const { target, seen } = await serve((response, _, n) => {
      if (n === 1) stream(response, event(1), event(2));
      else if (n === 2) response.socket?.destroy();
      else if (n === 3) json(response, 503, fault('unavailable'));
      else stream(response, event(2), event(3), event(4, 'run.completed'));
    });
    const found = await sequences(createClient(target), { onConnection: (state) => states.push(state) });
    expect(found).toEqual([1, 2, 3, 4]);
    expect(seen.map(({ headers }) => headers['last-event-id'])).toEqual(['0', '2', '2', '2']);
    expect(states).toEqual(['open', 'lost', 'lost', 'open']);
  });

  it('ends at once when there is nothing more', async () => {
    const { target, seen } = await serve((response) => response.writeHead(204).end());
    expect(await sequences(createClient(target), { after: 7 })).toEqual([]);
    expect(seen[0]?.url).toBe(`/v1/runs/${runId}/stream?after=7`);
  });

  it('says what is no longer kept and goes on with what is', async () => {
    const gaps: unknown[] = [];
    const { target } = await serve((response, _, n) =>
      n === 1
        ? json(response, 410, fault('cursor_expired', { oldest_sequence: 5, newest_sequence: 6 }))
        : stream(response, event(5), event(6, 'run.failed')),
    );
    expect(await sequences(createClient(target), { after: 2, onGap: (gap) => gaps.push(gap) })).toEqual([5, 6]);
    expect(gaps).toEqual([{ from: 3, to: 4 }]);
  });

  it('reads the credentials anew, and gives up when they are refused again', async () => {
    let token = 'old';
    const { target, seen } = await serve((response, { headers }) => {
      if (headers.authorization !== 'Bearer new') json(response, 401, fault('unauthenticated'));
      else stream(response, event(1, 'run.completed'));
      token = 'new';
    });
    expect(await sequences(createClient(() => ({ url: target.url, token })))).toEqual([1]);
    expect(seen).toHaveLength(2);
    await expect(sequences(createClient({ ...target, token: 'wrong' }))).rejects.toMatchObject({
      code: 'unauthenticated',
    });
  });

  it('throws what no patience mends', async () => {
    const { target } = await serve((response) => json(response, 404, fault('not_found')));
    await expect(sequences(createClient(target))).rejects.toMatchObject({ code: 'not_found' });
  });

  it('ends quietly when aborted, also while nothing comes', async () => {
    const abort = new AbortController();
    const { target } = await serve((response) => {
      response
        .writeHead(200, { 'content-type': 'text/event-stream' })
        .write(encode({ id: '1', event: 'log', data: JSON.stringify(event(1)) }));
    });
    const found: number[] = [];
    for await (const { sequence } of createClient(target).follow(runId, { signal: abort.signal })) {
      found.push(sequence);
      abort.abort();
    }
    expect(found).toEqual([1]);
  });
});
