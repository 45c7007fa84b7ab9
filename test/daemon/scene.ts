import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { App } from '../../src/app.ts';
import { type Answer, type TestApp, until } from '../kit/app.ts';

/** Configuration with a harness that is known and never installed: its runs end at once, without a process. */
export const withMissingHarness = { harnesses: { missing: { command: ['/nonexistent/agent'] } } };

/** A run that needs no process. */
export const missingRun = { harness: 'missing', sandbox: 'none', prompt: 'Nobody hears this.' };

/** A script that goes on until `open` is called. */
export function createGate(): { script: string; open(): void; remove(): void } {
  const folder = mkdtempSync(join(tmpdir(), 'agentctl-gate-'));
  const file = join(folder, 'open');
  return {
    script: `until [ -e '${file}' ] || [ ! -d '${folder}' ]; do sleep 0.02; done; echo through`,
    open: () => writeFileSync(file, ''),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

/** Everything that is stored, as text: two of them are equal exactly when nothing was changed. */
export function dump({ db }: App): string {
  const tables = db.all<{ name: string }>(`SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name`);
  return JSON.stringify(tables.map(({ name }) => [name, db.all(`SELECT * FROM "${name}"`)]));
}

/** How many rows each table has. */
export function counts({ db }: App): Record<string, number> {
  const tables = db.all<{ name: string }>(
    `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'`,
  );
  return Object.fromEntries(
    tables.map(({ name }) => [name, db.get<{ n: number }>(`SELECT count(*) AS n FROM "${name}"`)!.n]),
  );
}

/** Sends bytes as they are and answers what comes back until the other side closes (the request should ask for that). */
export function talk(port: number, text: string | Buffer): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(text));
    const parts: Buffer[] = [];
    socket.on('data', (bytes: Buffer) => parts.push(bytes));
    socket.on('error', reject);
    socket.on('close', () => resolve(parseAnswer(Buffer.concat(parts).toString('utf8'))));
  });
}

function parseAnswer(raw: string): Answer {
  const [head = '', ...rest] = raw.split('\r\n\r\n');
  const [first = '', ...lines] = head.split('\r\n');
  const headers = Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()]),
  );
  const text = rest.join('\r\n\r\n');
  const isJson = headers['content-type']?.startsWith('application/json') && text !== '';
  return { status: Number(first.split(' ')[1]), headers, text, body: isJson ? JSON.parse(text) : undefined };
}

/** Makes a project and answers it. */
export async function createProject({ call }: TestApp, more: object = {}): Promise<{ id: string; name: string }> {
  const { status, body } = await call('POST', '/v1/projects', { name: 'Thing', ...more });
  if (status !== 201) throw new Error(JSON.stringify(body));
  return body;
}

/** Makes a workspace and answers it when it is ready or has failed. */
export async function createWorkspace(open: TestApp, project: string, body: object = {}) {
  const accepted = await open.call('POST', `/v1/projects/${project}/workspaces`, body);
  if (accepted.status !== 202) throw new Error(accepted.text);
  await open.app.settle();
  const { body: workspace } = await open.call('GET', `/v1/workspaces/${accepted.body.resource.id}`);
  return workspace;
}

/** Starts a run; the answer of 202. */
export async function createRun(
  { call }: TestApp,
  body: object,
): Promise<{ run_id: string; session_id: string; workspace_id: string }> {
  const accepted = await call('POST', '/v1/runs', body);
  if (accepted.status !== 202) throw new Error(accepted.text);
  return accepted.body;
}

/** Waits until a run has one of these statuses and all that it has said is stored. `turn` is called before each look. */
export async function untilRun({ app, call }: TestApp, id: string, statuses: string[], turn = () => {}) {
  const run = await until(`run ${id} to be ${statuses.join(' or ')}`, async () => {
    turn();
    const { body } = await call('GET', `/v1/runs/${id}`);
    return statuses.includes(body.status) && body;
  });
  await app.settle();
  return run;
}

export const ended = ['completed', 'failed', 'cancelled'];
