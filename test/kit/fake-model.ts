import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { type DialectName, dialectOf, dialects } from './fake-model/dialects.ts';
import { callFor } from './fake-model/intents.ts';
import { type Call, chooseStep, type Scenario } from './fake-model/scenario.ts';

export type { Intent, Scenario, Step } from './fake-model/scenario.ts';

/** A request that came, and what was answered. */
export interface ModelRequest {
  method: string;
  path: string;
  headers: IncomingMessage['headers'];
  body: unknown;
  dialect: DialectName | null;
  model: string;
  /** Which step was played: `script 0 step 1`, `side`, `form`, `none`. */
  step: string;
  calls: Call[];
  /** The client hung up before the end. */
  aborted: boolean;
  /** It was not for us: the agent took us for its way out. */
  egress: boolean;
}

export interface FakeModel {
  url: string;
  requests(): ModelRequest[];
  setScenario(scenario: Scenario): void;
  close(): Promise<void>;
}

const models = ['claude-sonnet-4-5', 'gpt-5.5', 'gemini-2.5-flash', 'fake-model'];
const tokens = { input: 1000, output: 50, cached: 200, reasoning: 0 };

const send = (response: ServerResponse, status: number, body: unknown): void => {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(body));
};

/** A model provider that plays a scenario in four dialects, on 127.0.0.1. As a proxy it lets nothing out. */
export async function startFakeModel(initial: Scenario): Promise<FakeModel> {
  let scenario = initial;
  let errors = new Map<string, number>();
  const requests: ModelRequest[] = [];

  async function answer(name: DialectName, entry: ModelRequest, path: string, response: ServerResponse): Promise<void> {
    const dialect = dialects[name];
    const asked = dialect.read(entry.body, path);
    const step = chooseStep(scenario, asked);
    const intents = step.calls ?? [];
    const calls = intents.map((intent) => callFor(intent, asked)).filter((call) => call !== null);
    Object.assign(entry, { model: asked.model, step: step.label, calls });
    const text = step.text ?? (calls.length < intents.length ? 'No tool fits.' : '');
    const usage = { ...tokens, ...scenario.usage, ...step.usage };
    const often = (times = Infinity): boolean => {
      const seen = errors.get(step.label) ?? 0;
      errors.set(step.label, seen + 1);
      return seen < times;
    };
    const cut = step.cut && often(step.cut.times) ? step.cut.how : null;
    const hang = step.hang === true || cut !== null;
    const reply = { model: asked.model, thinking: step.thinking ?? '', text, calls, usage, hang };

    if (step.error && often(step.error.times)) return send(response, step.error.status, dialect.error(step.error));
    if (!asked.stream) return reply.hang ? undefined : send(response, 200, dialect.whole(reply));
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
    for (const piece of dialect.stream(reply)) {
      if (piece === 'hang' && cut) return void (cut === 'end' ? response.end() : response.destroy());
      if (response.destroyed || piece === 'hang') return;
      const [event, data] = piece;
      const words = typeof data === 'string' ? data : JSON.stringify(data);
      response.write(`${event === null ? '' : `event: ${event}\n`}data: ${words}\n\n`);
      if (step.chunkMs) await sleep(step.chunkMs);
    }
    response.end();
  }

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const { method = '', url = '', headers } = request;
    const egress = /^https?:/.test(url);
    const path = new URL(url, 'http://fake').pathname;
    const text = Buffer.concat(parts).toString();
    const dialect = method === 'POST' && !egress ? dialectOf(path) : null;
    const body: unknown = text === '' ? null : JSON.parse(text);
    const fresh = { model: '', step: '', calls: [], aborted: false };
    const entry: ModelRequest = { method, path: url, headers, body, dialect, egress, ...fresh };
    requests.push(entry);
    response.once('close', () => (entry.aborted = !response.writableFinished));
    if (egress) return send(response, 403, { error: 'nothing gets out' });
    if (dialect) return answer(dialect, entry, path, response);
    if (path.endsWith('/count_tokens')) return send(response, 200, { input_tokens: 1000 });
    if (path.endsWith(':countTokens')) return send(response, 200, { totalTokens: 1000 });
    if (method === 'GET' && path.endsWith('/models')) {
      const data = models.map((id) => ({
        id,
        type: 'model',
        object: 'model',
        display_name: id,
        created: 0,
        owned_by: 'fake',
      }));
      return send(response, 200, {
        object: 'list',
        has_more: false,
        data,
        models: models.map((id) => ({ name: `models/${id}` })),
      });
    }
    send(response, 404, { error: { type: 'not_found_error', message: `There is no ${method} ${path}` } });
  }

  const server = createServer((request, response) => {
    handle(request, response).catch((error: unknown) => {
      if (response.headersSent) response.destroy();
      else send(response, 500, { error: { message: String(error) } });
    });
  });
  server.on('clientError', (_error, socket) => socket.destroy());
  server.on('connect', (request, socket) => {
    const entry = { body: null, dialect: null, model: '', step: '', calls: [], aborted: false, egress: true };
    requests.push({ method: 'CONNECT', path: request.url ?? '', headers: request.headers, ...entry });
    socket.end('HTTP/1.1 403 Forbidden\r\n\r\n');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests: () => requests,
    setScenario(next) {
      scenario = next;
      errors = new Map();
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
