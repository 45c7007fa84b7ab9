import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { type Api, api, type OperationId } from '../../src/api/api.ts';
import type { Event } from '../../src/api/client.ts';
import { createHome } from '../kit/daemon.ts';
import { harnessConfig } from '../kit/harness-config.ts';
import { type Flow, momentsOf, Mortal, workOf } from '../kit/mortal.ts';
import { isLong, seed } from '../kit/random.ts';
import { scriptedAgent } from '../kit/scripted-agent.ts';

/** The operations that are one transaction. */
type Writing = {
  [Id in OperationId]: Api[Id] extends { route: `GET ${string}` } | { keyRequired: true } ? never : Id;
}[OperationId];

const agent = scriptedAgent({
  prompts: [
    [
      { say: 'about to ask' },
      {
        ask: { id: 'w', title: 'Run make', kind: 'execute', rawInput: { command: 'make' } },
        allowed: [{ write: { path: 'asked.txt', text: 'once' } }],
      },
      { cost: 0.001 },
      { say: 'done' },
    ],
  ],
});

/** Who is told by webhooks: the ids of the events that came. */
const told = new Set<unknown>();
const receiver = createServer((request, response) => {
  told.add(request.headers['webhook-id']);
  response.end();
}).listen(0, '127.0.0.1');
await once(receiver, 'listening');
const hook = `127.0.0.1:${(receiver.address() as AddressInfo).port}`;

const config = [
  '[runs]\ngrace_seconds = 0.2\nwarm_runners = 0\n',
  `[webhooks]\nallow_private = ["${hook}"]\n`,
  harnessConfig('scripted', agent),
];
const mortal = new Mortal(createHome(config.join('')));
afterAll(async () => {
  await mortal.remove();
  receiver.close();
});
const { home } = mortal;
const insist = mortal.insist.bind(mortal);
const follow = mortal.follow.bind(mortal);

interface Place {
  project: string;
  id: string;
  at: string;
  path: string;
}
/** A new workspace in a project of its own. */
const createPlace = async (): Promise<Place> => {
  const { id: project } = await insist('POST', '/v1/projects', { name: 'crash' });
  const { resource } = await insist('POST', `/v1/projects/${project}/workspaces`, { name: 'one' });
  const at = `/v1/workspaces/${resource.id}`;
  const { path } = await follow('the workspace', at, ({ status }) => status === 'ready');
  return { project, id: resource.id, at, path };
};

const hasEnded = ({ status }: { status: string }) =>
  !['queued', 'running', 'awaiting_input', 'cancelling'].includes(status);
/** A run as it was when it had ended; its history is whole and has one end. */
const ended = async (run_id: string) => {
  const run = await follow('the end', `/v1/runs/${run_id}`, hasEnded);
  const { data } = (await insist('GET', `/v1/runs/${run_id}/events?limit=1000`)) as { data: Event[] };
  expect(data.map(({ sequence }) => sequence)).toEqual(data.map((_, index) => index + 1));
  expect(data.filter(({ type }) => /^run\.(completed|failed|cancelled)$/.test(type))).toEqual([data.at(-1)]);
  return run;
};
const running = (run_id: string) => follow('the start', `/v1/runs/${run_id}`, ({ status }) => status === 'running');
const runsIn = async ({ id }: Place) => (await insist('GET', `/v1/runs?workspace_id=${id}`)).data;
const create = async (place: Place, body: object): Promise<string> =>
  (await insist('POST', '/v1/runs', { workspace_id: place.id, harness: 'shell', ...body })).run_id;
const isGone = ({ error }: { error?: { code: string } }) => error?.code === 'not_found';

/** A run that is completed, once. */
const complete = async () => {
  const place = await createPlace();
  expect(await ended(await create(place, { prompt: 'echo ran >> ran.txt; echo out' }))).toMatchObject({
    status: 'completed',
  });
  expect(readFileSync(join(place.path, 'ran.txt'), 'utf8')).toBe('ran\n');
  expect(await runsIn(place)).toHaveLength(1);
};

/** A question that is answered for good; the grant is taken back. */
const ask = async () => {
  const place = await createPlace();
  const run_id = await create(place, { harness: 'scripted', sandbox: 'none', prompt: 'go' });
  const { pending_input } = await follow('the question', `/v1/runs/${run_id}`, (run) => run.pending_input.length === 1);
  const { id: option_id } = pending_input[0].options.find(({ kind }: { kind: string }) => kind === 'allow_always');
  await insist('POST', `/v1/runs/${run_id}/input`, { option_id });
  expect(await ended(run_id)).toMatchObject({ status: 'completed', usage: { cost_micro_usd: '1000' } });
  expect(readFileSync(join(place.path, 'asked.txt'), 'utf8')).toBe('once');
  const grants = async () => (await insist('GET', `/v1/grants?project_id=${place.project}`)).data;
  expect(await grants()).toMatchObject([{ pattern: 'make', run_id }]);
  expect(await insist('DELETE', `/v1/grants/${(await grants())[0].id}`)).toBeNull();
  expect(await grants()).toEqual([]);
};

/** A run that is cancelled. */
const cancel = async () => {
  const run_id = await create(await createPlace(), { prompt: 'sleep 60' });
  await running(run_id);
  await insist('POST', `/v1/runs/${run_id}/cancel`, {});
  expect(await ended(run_id)).toMatchObject({ status: 'cancelled' });
};

/** A run whose process is killed. */
const lose = async () => {
  const run_id = await create(await createPlace(), { prompt: 'sleep 60' });
  await running(run_id);
  const identity = join(home.folder, 'data/runs', run_id, 'runner.json');
  process.kill((JSON.parse(readFileSync(identity, 'utf8')) as { pid: number }).pid, 'SIGKILL');
  expect(await ended(run_id)).toMatchObject({ status: 'failed', error: { code: 'harness_lost' } });
};

/** A workspace whose removal is thought better of, and then done. */
const removeWorkspace = async () => {
  const { at, path } = await createPlace();
  await insist('DELETE', at);
  await insist('DELETE', `${at}/deletion`);
  await insist('DELETE', `${at}?after_seconds=0`);
  await follow('the removal', at, ({ status }) => status === 'deleted');
  expect(existsSync(path)).toBe(false);
};

/** A project, archived and removed. */
const removeProject = async () => {
  const { project } = await createPlace();
  const at = `/v1/projects/${project}`;
  await insist('DELETE', at);
  await follow('the archive', at, ({ status }) => status === 'archived');
  expect(await insist('POST', `${at}/deletion`, { after_seconds: 3_600 })).toMatchObject({ status: 'queued' });
  await insist('DELETE', `${at}/deletion`);
  await insist('POST', `${at}/deletion`, { after_seconds: 0 });
  await follow('the removal', at, isGone);
};

/** A checkpoint: made, gone back to, removed. */
const checkpoint = async () => {
  const { at } = await createPlace();
  const { resource } = await insist('POST', `${at}/checkpoints`, {});
  await follow('the checkpoint', `/v1/checkpoints/${resource.id}`, ({ status }) => status === 'verified');
  const restore = await insist('POST', `${at}/restore`, { checkpoint_id: resource.id });
  expect(await mortal.done(restore)).toMatchObject({ status: 'succeeded' });
  await insist('DELETE', `/v1/checkpoints/${resource.id}`);
  await follow('its removal', `/v1/checkpoints/${resource.id}`, isGone);
};

/** An agent: made, changed, archived. */
const define = async () => {
  const made = await insist('POST', '/v1/agents', { name: `Reviewer ${mortal.crashes}`, harness: 'shell' });
  const at = `/v1/agents/${made.id}`;
  await insist('PATCH', at, { instructions: 'Be brief.' }, { 'if-match': '"1"' });
  expect(await insist('GET', at)).toMatchObject({ revision: 2, instructions: 'Be brief.', archived_at: null });
  await insist('DELETE', at);
  expect(await insist('GET', at)).toMatchObject({ archived_at: expect.any(String) });
};

/** A conversation: begun, given a title, continued, and forked. */
const converse = async () => {
  const place = await createPlace();
  const { id } = await insist('POST', '/v1/sessions', { workspace_id: place.id, harness: 'shell' });
  await insist('PATCH', `/v1/sessions/${id}`, { title: 'Talk' });
  const { run_id } = await insist('POST', `/v1/sessions/${id}/messages`, { prompt: 'echo ran >> ran.txt' });
  expect(await ended(run_id)).toMatchObject({ status: 'completed' });
  expect(readFileSync(join(place.path, 'ran.txt'), 'utf8')).toBe('ran\n');
  expect(await insist('GET', `/v1/sessions/${id}`)).toMatchObject({ title: 'Talk', run_count: 1 });
  const fork = await insist('POST', `/v1/sessions/${id}/fork`, {});
  const { path } = await follow(
    'the fork',
    `/v1/workspaces/${fork.workspace_id}`,
    ({ status }) => status !== 'provisioning',
  );
  expect(readFileSync(join(path, 'ran.txt'), 'utf8')).toBe('ran\n');
};

/** A webhook: made, tried out, changed, removed. */
const notify = async () => {
  const { id } = await insist('POST', '/v1/webhook-endpoints', {
    url: `http://${hook}/`,
    event_types: ['webhook.test'],
  });
  const at = `/v1/webhook-endpoints/${id}`;
  await insist('PATCH', at, { description: 'changed' });
  await insist('POST', `${at}/rotate-secret`, {});
  expect(await insist('GET', at)).toMatchObject({ description: 'changed', secrets: [{}, {}] });
  const delivery = await insist('POST', `${at}/test`, {});
  const delivered = ({ status }: { status: string }) => status === 'succeeded';
  await follow('the delivery', `/v1/webhook-deliveries/${delivery.id}`, delivered);
  expect(told).toContain(delivery.event_id);
  const replay = await insist('POST', `/v1/webhook-deliveries/${delivery.id}/replay`, {});
  expect(await mortal.done(replay)).toMatchObject({ status: 'succeeded' });
  await insist('DELETE', at);
  expect(await insist('GET', at)).toMatchObject({ status: 'disabled', disabled_reason: 'deleted' });
};

/** A key: made, and of no use any more. */
const key = async () => {
  const made = await insist('POST', '/v1/api-keys', { name: 'ci', scopes: ['runs:read'] });
  const authorization = `Bearer ${made.key}`;
  expect((await insist('GET', '/v1/me', undefined, { authorization })).principal.type).toBe('api_key');
  await insist('DELETE', `/v1/api-keys/${made.id}`);
  expect((await insist('GET', '/v1/me', undefined, { authorization })).error.code).toBe('unauthenticated');
};

/** A browser that is let in, once per code, and out again with all others. */
const signIn = async () => {
  let session: { token?: string };
  // A code counts once: a browser that did not hear the answer needs another one.
  do {
    const { code } = await insist('POST', '/v1/auth/codes', {});
    session = await insist('POST', '/v1/auth/session', { code });
  } while (!session.token);
  const authorization = `Bearer ${session.token}`;
  expect((await insist('GET', '/v1/me', undefined, { authorization })).error).toBeUndefined();
  await insist('POST', '/v1/auth/rotate', {});
  expect((await insist('GET', '/v1/me', undefined, { authorization })).error.code).toBe('unauthenticated');
  expect((await insist('GET', '/v1/me')).error).toBeUndefined();
};

/** An organization and a member; from here on the user names one of two. */
const organize = async () => {
  const { data: organizations } = await insist('GET', '/v1/organizations?limit=200', undefined, own);
  own = { 'x-organization-id': organizations.at(-1).id };
  const made = await insist('POST', '/v1/organizations', { name: 'Other' }, own);
  const at = `/v1/organizations/${made.id}`;
  await insist('PATCH', at, { name: 'Another' }, own);
  expect(await insist('GET', at, undefined, own)).toMatchObject({ name: 'Another' });
  const someone = { issuer: 'https://issuer.example', subject: 'someone' };
  const { user_id } = await insist('POST', `${at}/members`, someone, own);
  await insist('DELETE', `${at}/members/${user_id}`, undefined, own);
  const { data: members } = await insist('GET', `${at}/members`, undefined, own);
  expect(members).toHaveLength(1);
};
let own: Record<string, string> = {};

/** For each operation that writes, in this order: what it is done in, and what else that goes by. */
const flows: Record<Writing, (() => Promise<void>) | Flow> = {
  createProject: async () => void (await insist('POST', '/v1/projects', { name: 'one' })),
  updateProject: async () => {
    const { id } = await insist('POST', '/v1/projects', { name: 'one' });
    await insist('PATCH', `/v1/projects/${id}`, { description: 'changed' });
    expect(await insist('GET', `/v1/projects/${id}`)).toMatchObject({ description: 'changed' });
  },
  createWorkspace: { points: workOf('workspace.create'), flow: async () => void (await createPlace()) },
  updateWorkspace: async () => {
    const { at } = await createPlace();
    await insist('PATCH', at, { name: 'two' });
    expect(await insist('GET', at)).toMatchObject({ name: 'two' });
  },
  createTransfer: async () => {
    const announced = { path: 'a', size_bytes: 1, sha256: '0'.repeat(64) };
    const transfer = await insist('POST', `${(await createPlace()).at}/transfers`, announced);
    expect(transfer).toMatchObject({ status: 'pending', path: 'a' });
  },
  createCheckpoint: checkpoint,
  restoreWorkspace: checkpoint,
  deleteCheckpoint: checkpoint,
  createAgent: define,
  updateAgent: define,
  deleteAgent: define,
  createRun: {
    points: [
      ...['begin', 'taken', 'committed', 'begun', 'attached'].map((moment) => `start:${moment}`),
      ...['started', 'changed', 'final'].map((record) => `record.${record}:read`),
      ...['read', 'before_commit', 'committed'].map((moment) => `ingest:${moment}`),
      'run.completed:before_commit',
      'end:committed',
    ],
    flow: complete,
  },
  createSession: converse,
  updateSession: converse,
  continueSession: converse,
  forkSession: converse,
  submitRunInput: { points: ['session', 'usage', 'input'].map((record) => `record.${record}:read`), flow: ask },
  deleteGrant: ask,
  cancelRun: { points: ['run.cancelled:before_commit'], flow: cancel },
  deleteWorkspace: { points: workOf('workspace.delete'), flow: removeWorkspace },
  cancelWorkspaceDeletion: removeWorkspace,
  collectGarbage: async () => {
    const operation = await insist('POST', '/v1/maintenance/gc', {});
    expect(await mortal.done(operation)).toMatchObject({ status: 'succeeded' });
  },
  deleteProject: {
    points: [...workOf('project.archive'), ...workOf('project.delete')],
    flow: removeProject,
  },
  scheduleProjectDeletion: removeProject,
  cancelProjectDeletion: removeProject,
  createWebhookEndpoint: notify,
  updateWebhookEndpoint: notify,
  rotateWebhookSecret: notify,
  testWebhookEndpoint: notify,
  replayWebhookDelivery: notify,
  deleteWebhookEndpoint: notify,
  grantCredits: async () => {
    const balance = async () => Number((await insist('GET', '/v1/credits')).balance_micro_usd);
    const before = await balance();
    await insist('POST', '/v1/credits/grants', { amount_micro_usd: '5' });
    expect(await balance()).toBe(before + 5);
  },
  createApiKey: key,
  revokeApiKey: key,
  createSignInCode: signIn,
  createBrowserSession: signIn,
  rotateSession: signIn,
  createOrganization: organize,
  updateOrganization: organize,
  addMember: organize,
  removeMember: organize,
};

/** The three moments of every request are the same code: the short form takes one of them, another for each request and seed. */
const chosen = seed();
const all: Flow[] = [
  { points: ['lost:found', 'lost:swept', 'run.failed:before_commit'], flow: lose },
  ...Object.entries(flows).map(([id, given], index): Flow => {
    const { points, flow } = typeof given === 'function' ? { points: [], flow: given } : given;
    const moments = momentsOf(id);
    return { points: [...(isLong ? moments : [moments[(index + chosen) % 3]!]), ...points], flow };
  }),
  {
    points: ['locked', 'opened', 'listening', 'announced'].map((moment) => `daemon:${moment}`),
    flow: async () => {
      const { data } = await insist('GET', '/v1/operations?status=queued,running', undefined, own);
      expect(data).toEqual([]);
    },
  },
];
const count = all.flatMap(({ points }) => points).length;

test(
  `a daemon that dies at any of ${count} points is found whole by the next one (AGENTCTL_SEED=${chosen})`,
  { timeout: 600_000 },
  async () => {
    expect(Object.keys(flows).toSorted()).toEqual(
      Object.entries(api)
        .flatMap(([id, { effect }]) => (effect === 'write' ? [id] : []))
        .toSorted(),
    );
    await mortal.through(all);
    const sorted = mortal.restarts.toSorted((a, b) => a - b);
    console.info(
      `${count} points, ${mortal.crashes} crashes; restart p50 ${sorted[sorted.length >> 1]!.toFixed(0)} ms, p99 ${sorted[Math.floor(sorted.length * 0.99)]!.toFixed(0)} ms`,
    );
    expect(mortal.missed).toEqual([]);
    expect(mortal.crashes).toBe(count);
  },
);
