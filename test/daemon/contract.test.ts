import { mkdtempSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Validator } from '@seriousme/openapi-schema-validator';
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { api, type OperationId } from '../../src/api/api.ts';
import { ErrorReply } from '../../src/api/common.ts';
import type { Endpoint } from '../../src/api/endpoint.ts';
import { EventSchema } from '../../src/api/events.ts';
import { openApi } from '../../src/api/openapi.ts';
import { decode } from '../../src/api/sse.ts';
import { createTestClock } from '../kit/clock.ts';
import { freePort } from '../kit/port.ts';
import { type Answer, openApp, type TestApp, until } from '../kit/app.ts';
import {
  createGate,
  createProject,
  createRun,
  createWorkspace,
  ended,
  missingRun,
  untilRun,
  withMissingHarness,
} from './scene.ts';

const shellIn = (project_id: string) => ({ project_id, harness: 'shell' });
type Row = [OperationId, Endpoint];
const rows = Object.entries(api) as Row[];
const ajv = new Ajv2020({ allErrors: true, strict: false });
formats.default(ajv);
const errorsOf = (schema: object, value: unknown) => (ajv.validate(schema, value) ? [] : ajv.errors);

describe('every reply is what its row says', () => {
  let scene: TestApp;
  const seen = new Map<OperationId, Set<number>>();
  const ids: Record<string, string> = {};
  const gate = createGate();
  let busy: { run_id: string; session_id: string };

  let keys = 0;

  /** Calls an operation by its name and checks the answer against its row; what changes something is repeated with its key. */
  const call = async (
    id: OperationId,
    {
      query = '',
      body,
      headers,
      ...path
    }: { query?: string; body?: unknown; headers?: Record<string, string>; [name: string]: unknown } = {},
  ): Promise<Answer> => {
    const endpoint = api[id] as Endpoint;
    const url =
      endpoint.path.replace(/\{(\w+)\}/g, (_, name: string) => (path[name] as string | undefined) ?? ids[name]!) +
      query;
    const key: Record<string, string> =
      endpoint.effect === 'read' || endpoint.open ? {} : { 'idempotency-key': `${id}-${(keys += 1)}` };
    const answer = await scene.call(endpoint.method, url, body, { ...key, ...headers });
    if ('idempotency-key' in key && id !== 'rotateSession') {
      const again = await scene.call(endpoint.method, url, body, { ...key, ...headers });
      const { status, text, headers: said } = again;
      expect({ id, status, text, replayed: said['idempotent-replayed'], location: said.location }).toEqual({
        id,
        status: answer.status,
        text: answer.text,
        replayed: 'true',
        location: answer.headers.location,
      });
    }
    expect({ id, status: answer.status, text: answer.status < 300 ? '' : answer.text }).toEqual({
      id,
      status: endpoint.status,
      text: '',
    });
    expect(answer.headers['x-request-id']).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/);
    expect(answer.headers['x-content-type-options']).toBe('nosniff');
    expect(answer.headers['cache-control']).toBe('no-store');
    if (endpoint.reply && (!endpoint.replyBytes || headers?.accept)) {
      expect(answer.headers['content-type']).toBe('application/json; charset=utf-8');
      expect({ id, errors: errorsOf(endpoint.reply, answer.body), body: answer.body }).toMatchObject({ errors: [] });
    }
    if (endpoint.status === 202 && (endpoint.reply as { title?: string }).title === 'Operation')
      expect(answer.headers.location).toBe(`/v1/operations/${answer.body.id}`);
    seen.set(id, (seen.get(id) ?? new Set()).add(answer.status));
    return answer;
  };

  beforeAll(async () => {
    scene = await openApp({ config: withMissingHarness });
  });
  afterAll(async () => {
    gate.open();
    if (busy) await untilRun(scene, busy.run_id, ended);
    await scene.close();
    gate.remove();
  });

  test('projects', async () => {
    const { body: project, headers } = await call('createProject', {
      body: { name: ' Ärger & <b>\u{1f600}</b> ', persistence: 'ephemeral', description: 'x', metadata: { a: '' } },
    });
    expect(headers.location).toBe(`/v1/projects/${project.id}`);
    expect(project).toMatchObject({
      name: ' Ärger & <b>\u{1f600}</b> ',
      persistence: 'ephemeral',
      archived: false,
      status: 'active',
    });
    ids.project_id = project.id;
    await call('listProjects');
    expect((await call('getProject')).body).toEqual(project);
    expect((await call('getProject', { project_id: project.id.toUpperCase() })).body).toEqual(project);
    await call('updateProject', { body: { description: null, metadata: {} } });
    await call('deleteProject');
    await scene.app.settle();
    const { body: archived } = await call('getProject');
    expect(archived).toMatchObject({ archived: true, status: 'archived', archived_at: expect.any(String) });
    const { body: removal } = await call('scheduleProjectDeletion', { body: {} });
    expect(removal).toMatchObject({
      type: 'project.delete',
      status: 'queued',
      resource: { type: 'project', id: project.id },
    });
    expect((await call('getProject')).body.delete_after).not.toBeNull();
    expect((await call('cancelProjectDeletion')).body.delete_after).toBeNull();
    expect((await call('updateProject', { body: { archived: false } })).body).toMatchObject({
      archived: false,
      archived_at: null,
    });
  });

  test('workspaces', async () => {
    const { body: operation } = await call('createWorkspace', { body: { name: 'Trees', metadata: { a: 'b' } } });
    ids.workspace_id = operation.resource.id;
    await scene.app.settle();
    expect((await call('getWorkspace')).body).toMatchObject({
      status: 'ready',
      name: 'Trees',
      source: { type: 'empty' },
    });
    await call('listWorkspaces');
    await call('updateWorkspace', { body: { name: 'Other' } });
    await call('deleteWorkspace', { query: '?after_seconds=100' });
    await scene.app.settle();
    expect((await call('getWorkspace')).body).toMatchObject({ status: 'deleting', delete_after: expect.any(String) });
    await call('cancelWorkspaceDeletion');
    await scene.app.settle();
    expect((await call('getWorkspace')).body).toMatchObject({ status: 'ready', delete_after: null });
  });

  test('who may call', async () => {
    const { body: key } = await call('createApiKey', { body: { name: 'ci', scopes: ['runs:read'], expires_at: null } });
    await call('listApiKeys');
    await call('revokeApiKey', { key_id: key.id });
    const { body: me } = await call('getMe');
    ids.organization_id = me.organization.id;
    const { body: organization, headers } = await call('createOrganization', {
      headers: { 'x-organization-id': me.organization.id },
      body: { name: 'Other' },
    });
    expect(headers.location).toBe(`/v1/organizations/${organization.id}`);
    // From here on the user has two memberships and names one.
    const within = { headers: { 'x-organization-id': me.organization.id }, organization_id: organization.id };
    await call('getOrganization', within);
    await call('updateOrganization', { ...within, body: { name: 'Another' } });
    await call('listOrganizations', within);
    const subject = { issuer: 'https://issuer.example', subject: 'someone' };
    const { body: member } = await call('addMember', { ...within, body: subject });
    await call('listMembers', within);
    await call('removeMember', { ...within, user_id: member.user_id });
    const { body: code } = await call('createSignInCode', { ...within, body: {} });
    await call('createBrowserSession', { body: { code: code.code } });
    scene.app.db.write(() => scene.app.db.run('DELETE FROM memberships WHERE organization_id = ?', [organization.id]));
  });

  test('the session’s token is replaced', async () => {
    const first = scene;
    scene = await openApp();
    expect((await call('rotateSession', { body: {} })).text).toBe('');
    await scene.close();
    scene = first;
  });

  test('usage and credits', async () => {
    await call('getUsage', { query: '?bucket=day&group_by=harness,model&time_zone=Europe/Berlin' });
    expect((await call('getCredits')).body.policy).toBe('unlimited');
    await call('grantCredits', { body: { amount_micro_usd: '1000000', note: null } });
    await call('listCreditEntries');
  });

  test('files', async () => {
    const key = (name: string) => ({ 'idempotency-key': name, 'content-type': 'application/octet-stream' });
    const query = '?path=a/b.txt';
    const { body: written } = await call('writeFile', {
      query,
      body: 'one',
      headers: { ...key('one'), 'if-match': '"absent"' },
    });
    expect(written).toMatchObject({
      type: 'file.write',
      status: 'succeeded',
      result: { path: 'a/b.txt', etag: expect.stringMatching(/^"sha256-[0-9a-f]{64}"$/), size_bytes: 3 },
    });
    const { headers, text } = await call('readFile', { query });
    expect(text).toBe('one');
    expect(headers.etag).toBe(written.result.etag);
    const { body: listing } = await call('listFiles', { query: '?recursive=true' });
    expect(listing.data.map((entry: { path: string }) => entry.path)).toEqual(['a', 'a/b.txt']);
    const body = { path: 'big', size_bytes: 3, sha256: '0'.repeat(64) };
    expect((await call('createTransfer', { body })).body).toMatchObject({ status: 'pending', path: 'big' });
    await call('deleteFile', { query, headers: { 'idempotency-key': 'two', 'if-match': headers.etag! } });
    await call('writeFile', { query, headers: { ...key('three'), 'if-none-match': '*' } });
  });

  test('checkpoints', async () => {
    const { body: making } = await call('createCheckpoint', { body: { name: 'one', metadata: { a: 'b' } } });
    ids.checkpoint_id = making.resource.id;
    await scene.app.settle();
    expect((await call('getCheckpoint')).body).toMatchObject({ status: 'verified', trigger: 'manual', name: 'one' });
    // Beside the one that was kept when the workspace's removal was asked for, which was taken back.
    expect((await call('listCheckpoints')).body.data).toMatchObject([
      { trigger: 'manual' },
      { trigger: 'before_delete' },
    ]);
    const { body: dry } = await call('restoreWorkspace', { body: { checkpoint_id: ids.checkpoint_id, dry_run: true } });
    const { body: real } = await call('restoreWorkspace', { body: { checkpoint_id: ids.checkpoint_id, paths: null } });
    await scene.app.settle();
    const shown = async ({ id }: { id: string }) => (await call('getOperation', { operation_id: id })).body;
    expect(await shown(dry)).toMatchObject({ status: 'succeeded', result: { added: [], changed: [], removed: [] } });
    expect(await shown(real)).toMatchObject({ status: 'succeeded', result: { dry_run: false } });
    const { body: made } = await call('listCheckpoints');
    const other = made.data[0].id as string;
    expect((await call('getCheckpointDiff')).headers['content-type']).toBe('text/x-diff; charset=utf-8');
    const asJson = { query: `?against=${other}`, headers: { accept: 'application/json' } };
    expect((await call('getCheckpointDiff', asJson)).body).toMatchObject({ against: other, files: [] });
    await call('deleteCheckpoint', { checkpoint_id: other });
  });

  test('agents', async () => {
    const { body: agent, headers } = await call('createAgent', {
      body: { name: 'Reviewer', harness: 'missing', instructions: 'Be brief.', limits: { max_turns: 3 } },
    });
    ids.agent_id = agent.id;
    expect(headers).toMatchObject({ location: `/v1/agents/${agent.id}`, etag: '"1"' });
    expect(agent).toMatchObject({ revision: 1, tools: [], permission_mode: 'ask', on_input: 'ask', archived_at: null });
    const changed = await call('updateAgent', { body: { model: 'm' }, headers: { 'if-match': '"1"' } });
    expect(changed.body).toMatchObject({ revision: 2, model: 'm', instructions: 'Be brief.' });
    expect(changed.headers.etag).toBe('"2"');
    expect((await call('getAgent')).body).toEqual(changed.body);
    expect((await call('getAgent', { query: '?revision=1' })).body).toEqual(agent);
    expect((await call('listAgentRevisions')).body.data).toEqual([changed.body, agent]);
    await call('deleteAgent');
    await call('deleteAgent');
    expect((await call('listAgents', { query: '?archived=true' })).body.data).toMatchObject([{ id: agent.id }]);
    expect((await call('listAgents', { query: '?archived=false' })).body.data).toEqual([]);
  });

  test('runs, sessions and inputs', async () => {
    const { body: accepted, headers } = await call('createRun', {
      body: {
        workspace_id: ids.workspace_id,
        harness: 'shell',
        prompt: `touch made; ${gate.script}`,
        metadata: { a: 'b' },
        limits: { max_cost_micro_usd: '5' },
      },
    });
    expect(accepted.id).toBe(accepted.run_id);
    expect(headers.location).toBe(`/v1/runs/${accepted.run_id}`);
    busy = accepted;
    ids.run_id = accepted.run_id;
    ids.session_id = accepted.session_id;
    await call('getRun');
    expect((await call('getRunResult')).body.final).toBe(false);
    const row = await untilRun(scene, accepted.run_id, ['running']);
    expect((await call('getWorkspace')).body.writer).toMatchObject({ kind: 'run', id: accepted.run_id });
    expect((await call('getSession')).body).toMatchObject({
      status: 'running',
      latest_run_id: accepted.run_id,
      run_count: 1,
    });
    const { app } = scene;
    const request = app.clock.id();
    app.db.write((tx) =>
      app.inputs.add(tx, row, {
        id: request,
        kind: 'permission',
        title: 'May I?',
        message: null,
        tool_call_id: null,
        options: [{ id: 'yes', label: 'Yes', kind: 'allow_always' }],
        allow_text: false,
        schema: null,
        grant: { kind: 'command', tool: 'Bash', pattern: 'ls' },
        expires_at: '2030-01-01T00:00:00.000Z',
      }),
    );
    await call('listInputRequests', { query: '?status=pending,answered' });
    await call('submitRunInput', { body: { option_id: 'yes' } });
    expect((await call('submitRunInput', { body: { request_id: request, option_id: 'yes' } })).status).toBe(202);
    expect((await call('listInputRequests', { query: `?run_id=${accepted.run_id}` })).body.data).toMatchObject([
      { id: request, status: 'answered' },
    ]);
    const { body: allowed } = await call('listGrants', { query: `?project_id=${ids.project_id}` });
    expect(allowed.data).toMatchObject([{ harness: 'shell', tool: 'Bash', pattern: 'ls', request_id: request }]);
    await call('deleteGrant', { grant_id: allowed.data[0].id });
    expect((await call('listGrants')).body.data).toEqual([]);
    await call('listRuns', { query: '?status=running' });
    const { body: failed } = await call('createRun', { body: { ...missingRun, project_id: ids.project_id } });
    await untilRun(scene, failed.run_id, ended);
    expect((await call('getRun', { run_id: failed.run_id })).body).toMatchObject({
      status: 'failed',
      error: { code: 'harness_not_found' },
    });
    expect((await call('cancelRun', { run_id: failed.run_id, body: {} })).body.status).toBe('failed');
    await call('getRunResult', { run_id: failed.run_id });
    await call('listSessions');
    await call('cancelRun', { body: {} });
    await untilRun(scene, accepted.run_id, ended);
    expect((await call('cancelRun', { body: {} })).body).toMatchObject({
      status: 'cancelled',
      stop_reason: 'cancelled',
    });
    expect((await call('getRunResult')).body).toMatchObject({ final: true, status: 'cancelled' });
    const { text: diff, headers: diffHeaders } = await call('getRunDiff');
    expect(diffHeaders['content-type']).toBe('text/x-diff; charset=utf-8');
    expect(diff).toBe('diff --git a/made b/made\nnew file mode 100644\n');
    const { body: left } = await call('listArtifacts');
    expect(left.data.map(({ kind }: { kind: string }) => kind)).toEqual(['transcript', 'diff']);
    expect((await call('getRunResult')).body.artifact_ids).toEqual(
      left.data.map(({ id }: { id: string }) => id).toReversed(),
    );
    ids.artifact_id = left.data[1].id;
    expect((await call('getArtifact')).body).toEqual(left.data[1]);
    const { body: download } = await call('downloadArtifact');
    expect(download).toMatchObject({ size_bytes: Buffer.byteLength(diff), file_name: 'changes.diff' });
    expect((await call('getSession')).body.status).toBe('idle');
    const { body: fork, headers: forkHeaders } = await call('forkSession', { body: { title: 'Other way' } });
    expect(forkHeaders.location).toBe(`/v1/sessions/${fork.id}`);
    const { body: fresh, headers: freshHeaders } = await call('createSession', {
      body: { workspace_id: fork.workspace_id, harness: 'missing', model: 'm', metadata: { a: 'b' } },
    });
    expect(freshHeaders.location).toBe(`/v1/sessions/${fresh.id}`);
    const { body: sent, headers: sentHeaders } = await call('continueSession', {
      session_id: fork.id,
      body: { prompt: 'true', on_busy: 'queue', limits: { timeout_seconds: 9 } },
    });
    expect(sentHeaders.location).toBe(`/v1/runs/${sent.run_id}`);
    await untilRun(scene, sent.run_id, ['completed']);
    const { body: away } = await call('updateSession', { session_id: fork.id, body: { archived: true, title: null } });
    expect(away).toMatchObject({ status: 'archived', title: null });
    const { body: page } = await call('listRunEvents');
    expect(page.data.map((event: { sequence: number }) => event.sequence)).toEqual(
      page.data.map((_: unknown, index: number) => index + 1),
    );
    expect(page.data.at(-1).type).toBe('run.cancelled');
  });

  test('the stream holds just what the history does, and is over when the run is', async () => {
    const { status, headers, text } = await call('streamRun');
    expect(headers['content-type']).toMatch(/^text\/event-stream/);
    expect(status).toBe(200);
    expect(text).toMatch(/^retry: 1000\n\n/);
    async function* bytes() {
      yield Buffer.from(text);
    }
    const events: unknown[] = [];
    for await (const { id, event, data } of decode(bytes())) {
      const value = JSON.parse(data) as { id: string; type: string };
      expect(errorsOf(EventSchema, value)).toEqual([]);
      expect({ id: value.id, type: value.type }).toEqual({ id, type: event });
      events.push(value);
    }
    const { body } = await call('listRunEvents', { query: '?limit=1000' });
    expect(events).toEqual(body.data);
    const after = await call('streamRun', { query: '?after=2' });
    expect(after.text).toContain('\nid: 3\n');
    expect(after.text).not.toContain('\nid: 2\n');
    const beaten = await call('streamRun', { query: '?after=1', headers: { 'last-event-id': '2' } });
    expect(beaten.text).toBe(after.text);
    for (const cursor of [events.length, events.length + 1, '99999999999999999999']) {
      const over = await scene.call('GET', `/v1/runs/${ids.run_id}/stream?after=${cursor}`);
      expect({ status: over.status, text: over.text }).toEqual({ status: 204, text: '' });
      expect(over.headers['x-request-id']).toBeDefined();
    }
  });

  test('webhooks', async () => {
    const url = `http://127.0.0.1:${await freePort()}/hook`;
    const { body: made, headers } = await call('createWebhookEndpoint', {
      body: { url, event_types: ['webhook.test'] },
    });
    ids.endpoint_id = made.id;
    expect(headers.location).toBe(`/v1/webhook-endpoints/${made.id}`);
    const { secret, ...shown } = made;
    expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
    expect((await call('getWebhookEndpoint')).body).toEqual(shown);
    expect((await call('listWebhookEndpoints')).body.data).toEqual([shown]);
    const { body: rotated } = await call('rotateWebhookSecret', { body: { overlap_seconds: 5 } });
    expect(rotated.secrets).toHaveLength(2);
    const { body: test } = await call('testWebhookEndpoint', { body: {} });
    ids.delivery_id = test.id;
    expect(test).toMatchObject({ endpoint_id: made.id, event_type: 'webhook.test', status: 'pending' });
    await scene.app.settle();
    expect((await call('getWebhookDelivery')).body).toMatchObject({
      status: 'retrying',
      attempts: [{ number: 1, response_status: null, error: { code: 'connection_failed' } }],
    });
    const { body: operation } = await call('replayWebhookDelivery', { body: {} });
    expect(operation).toMatchObject({ type: 'webhook.replay', status: 'succeeded' });
    const { body: page } = await call('listWebhookDeliveries', { query: '?status=pending,retrying' });
    expect(page.data).toMatchObject([{ replay_of: test.id, event_id: test.event_id }, { id: test.id }]);
    expect(
      (await call('updateWebhookEndpoint', { body: { description: 'x', event_types: ['*'] } })).body,
    ).toMatchObject({ description: 'x', event_types: ['*'] });
    await call('deleteWebhookEndpoint');
    expect((await call('getWebhookEndpoint')).body).toMatchObject({ status: 'disabled', disabled_reason: 'deleted' });
  });

  test('storage', async () => {
    const { body: storage } = await call('getStorage');
    expect(storage.total_bytes).toBe(
      storage.data.reduce((sum: number, { bytes }: { bytes: number }) => sum + bytes, 0),
    );
    const { body: operation } = await call('collectGarbage', { body: { dry_run: true } });
    await scene.app.settle();
    expect((await call('getOperation', { operation_id: operation.id })).body).toMatchObject({
      type: 'store.collect',
      status: 'succeeded',
      result: { dry_run: true, checkpoints: 0, failed: [] },
    });
  });

  test('operations and the server', async () => {
    const { body: page } = await call('listOperations', { query: '?limit=2' });
    ids.operation_id = page.data[0].id;
    await call('getOperation');
    await call('getOperation', { query: '?wait=0' });
    const { body: me } = await call('getMe');
    expect(me).toMatchObject({ principal: { type: 'user', credential: 'session' }, server: { api_version: '0.9.0' } });
    expect(me.scopes).toHaveLength(12);
    const { body: harnesses } = await call('listHarnesses');
    expect(harnesses.data.map(({ id }: { id: string }) => id)).toEqual(expect.arrayContaining(['shell', 'missing']));
    const { body: models } = await call('listModels', { query: '?limit=1' });
    expect(models.data.length <= 1).toBe(true);
  });

  test('what belongs to one organization is not there for another, whatever is asked of it', async () => {
    const { body: me } = await call('getMe');
    const inside = { 'x-organization-id': me.organization.id };
    const { body: other } = await scene.call('POST', '/v1/organizations', { name: 'Elsewhere' });
    const outside = { 'x-organization-id': other.id };
    const reads = rows.filter(
      ([id, { method, path }]) => method === 'GET' && path.includes('{') && !/Organization|Member/.test(id),
    );
    const seen: Record<string, unknown> = {};
    for (const [id, { path }] of reads) {
      const url = path.replace(/\{(\w+)\}/g, (_, name: string) => ids[name]!);
      const query = id === 'readFile' ? '?path=a' : '';
      const { status, body } = await scene.call('GET', url + query, undefined, outside);
      seen[id] = [status, body?.error.code];
    }
    scene.app.db.write(() => scene.app.db.run('DELETE FROM memberships WHERE organization_id = ?', [other.id]));
    expect(reads.length).toBeGreaterThan(20);
    expect(seen).toEqual(Object.fromEntries(reads.map(([id]) => [id, [404, 'not_found']])));
    expect((await scene.call('GET', `/v1/projects/${ids.project_id}`, undefined, inside)).status).toBe(200);
  });

  test('no operation was left out', () => {
    expect([...seen.keys()].toSorted()).toEqual(rows.map(([id]) => id).toSorted());
  });

  test.each(rows.filter(([, { method }]) => method === 'GET').map(([id, { path }]) => [id, path] as const))(
    'HEAD of %s answers at once, with the headers and without a body',
    async (_id, path) => {
      // A run that is still going: its stream is the one that stays open.
      const open = createGate();
      const stream = path.endsWith('stream');
      const run_id = stream
        ? (await createRun(scene, { ...shellIn(ids.project_id!), prompt: open.script })).run_id
        : ids.run_id!;
      if (stream) await untilRun(scene, run_id, ['running']);
      const file = path.endsWith('/file');
      const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => (name === 'run_id' ? run_id : ids[name]!));
      const url = file ? `${filled}?path=a/b.txt` : filled;
      const head = await headOf(scene, url);
      open.open();
      await untilRun(scene, run_id, ended);
      open.remove();
      expect(head).toMatchObject({ status: 200, bytes: 0 });
      expect(head!.headers['x-request-id']).toBeDefined();
      const type = path.endsWith('/diff')
        ? 'text/x-diff'
        : stream
          ? 'text/event-stream'
          : file
            ? 'application/octet-stream'
            : 'application/json';
      expect(String(head!.headers['content-type']).split(';')[0]).toBe(type);
    },
  );

  test('HEAD of what is not there, and without a credential, says so by its status alone', async () => {
    expect(await headOf(scene, '/v1/nothing')).toMatchObject({ status: 404, bytes: 0 });
    expect(await headOf(scene, `/v1/projects/${scene.app.clock.id()}`)).toMatchObject({ status: 404, bytes: 0 });
    expect(await headOf(scene, '/v1/projects', '')).toMatchObject({ status: 401, bytes: 0 });
  });

  test.each(['/healthz', '/readyz', '/v1/openapi.json', '/docs', '/nothing', '/v1/nothing'])(
    'X-Request-Id is on %s',
    async (path) => {
      const answers = await Promise.all([scene.call('GET', path), scene.call('GET', path)]);
      const [one, two] = answers.map(({ headers }) => headers['x-request-id']);
      expect(one).toMatch(/^[0-9a-f-]{36}$/);
      expect(two).not.toBe(one);
    },
  );

  test('a request id that the client sends is not taken for ours', async () => {
    const { headers } = await scene.call('GET', '/v1/me', undefined, { 'x-request-id': 'mine', 'request-id': 'mine' });
    expect(headers['x-request-id']).not.toBe('mine');
  });
});

/** A HEAD request; undefined when it has not been answered to its end after two seconds. */
function headOf({ port, token }: TestApp, path: string, authorization = `Bearer ${token}`) {
  return new Promise<{ status: number; headers: Record<string, unknown>; bytes: number } | undefined>(
    (resolve, reject) => {
      const sent = request(
        { host: '127.0.0.1', port, method: 'HEAD', path, headers: { authorization, connection: 'close' } },
        (answer) => {
          let bytes = 0;
          answer.on('data', (part: Buffer) => (bytes += part.length));
          // At once means: the connection, too, is free again.
          answer.socket.once('close', () => {
            clearTimeout(late);
            resolve({ status: answer.statusCode!, headers: answer.headers, bytes });
          });
          answer.resume();
        },
      );
      const late = setTimeout(() => {
        resolve(undefined);
        sent.destroy();
      }, 2_000);
      sent.on('error', reject);
      sent.end();
    },
  );
}

describe('the OpenAPI document', () => {
  const document = openApi() as {
    openapi: string;
    info: { version: string };
    paths: Record<
      string,
      Record<string, { operationId: string; security: Record<string, string[]>[]; responses: Record<string, unknown> }>
    >;
  };

  test('is the golden file: a change of the contract shows in review', async () => {
    await expect(`${JSON.stringify(document, null, 2)}\n`).toMatchFileSnapshot('../golden/openapi.json');
  });

  test('is a valid document of OpenAPI 3.1.0, at version 0.9.0', async () => {
    const { valid, errors } = await new Validator().validate(structuredClone(document));
    expect({ valid, errors }).toEqual({ valid: true, errors: undefined });
    expect(document.openapi).toBe('3.1.0');
    expect(document.info.version).toBe('0.9.0');
  });

  test('has every operation once, with its scope, its success and its failure', () => {
    const described = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
    );
    expect(described.map(({ operation }) => operation.operationId).toSorted()).toEqual(
      rows.map(([id]) => id).toSorted(),
    );
    for (const { path, method, operation } of described) {
      const endpoint = api[operation.operationId as OperationId] as Endpoint;
      expect({ path, method }).toEqual({ path: endpoint.path, method: endpoint.method });
      expect(operation.security).toEqual(
        endpoint.open
          ? []
          : [
              { ApiKeyAuth: [] },
              { DashboardSession: [] },
              { CustomerOAuth: endpoint.scope === null ? [] : [endpoint.scope] },
            ],
      );
      expect(Object.keys(operation.responses)).toEqual(expect.arrayContaining([String(endpoint.status), 'default']));
    }
  });

  test('holds no reference that leads nowhere or outside', () => {
    const text = JSON.stringify(document);
    const schemas = (document as unknown as { components: { schemas: object } }).components.schemas;
    for (const [, target] of text.matchAll(/"\$ref":"([^"]*)"/g)) {
      expect(target).toMatch(/^#\/components\/schemas\//);
      expect(schemas).toHaveProperty([target!.slice('#/components/schemas/'.length)]);
    }
  });

  test('is what the daemon serves', async () => {
    const scene = await openApp();
    const { status, headers, body } = await scene.call('GET', '/v1/openapi.json');
    expect(status).toBe(200);
    expect(headers['content-type']).toMatch(/^application\/json/);
    expect(body).toEqual(JSON.parse(JSON.stringify(document)));
    await scene.close();
  });

  test('no object of a reply or a body takes more than it names', () => {
    const loose: string[] = [];
    const look = (schema: unknown, at: string): void => {
      if (typeof schema !== 'object' || schema === null) return;
      const { type, properties, additionalProperties } = schema as Record<string, unknown>;
      if (type === 'object' && properties && additionalProperties !== false) loose.push(at);
      for (const [name, inner] of Object.entries(schema)) look(inner, `${at}.${name}`);
    };
    for (const [id, { reply, body }] of rows) {
      look(reply, `${id} reply`);
      look(body, `${id} body`);
    }
    look(ErrorReply, 'Error');
    expect(loose).toEqual([]);
  });
});

describe('lists', () => {
  let scene: TestApp;
  beforeAll(async () => {
    scene = await openApp({ config: withMissingHarness });
  });
  afterAll(() => scene.close());
  const names = (answer: Answer) => answer.body.data.map(({ name }: { name: string }) => name);

  test('newest first; next_cursor walks all without a gap or a double while rows are added', async () => {
    let made = 0;
    const all: string[] = [];
    const step = fc.record({ add: fc.nat({ max: 3 }), limit: fc.integer({ min: 1, max: 7 }) });
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 0, max: 5 }),
        fc.array(step, { minLength: 1, maxLength: 4 }),
        async (before, steps) => {
          const add = async () => void all.push((await createProject(scene, { name: `Walk ${++made}` })).id);
          for (let i = 0; i < before; i++) await add();
          const expected = all.toReversed();
          const found: string[] = [];
          let cursor: string | null = '';
          for (let turn = 0; cursor !== null; turn++) {
            const { add: more, limit } = steps[turn % steps.length]!;
            const address: string = `/v1/projects?query=walk&limit=${limit}${cursor && `&cursor=${cursor}`}`;
            const { status, body } = await scene.call('GET', address);
            expect(status).toBe(200);
            expect(body.next_cursor === null ? body.data.length <= limit : body.data.length === limit).toBe(true);
            found.push(...body.data.map(({ id }: { id: string }) => id));
            cursor = body.next_cursor;
            for (let i = 0; i < more && made < 120; i++) await add();
          }
          expect(found).toEqual(expected);
        },
      ),
      { numRuns: 15 },
    );
  });

  test('a page shows 50 unless asked, and up to 200', async () => {
    const { id } = await createProject(scene);
    for (let i = 0; i < 60; i++) await scene.call('POST', `/v1/projects/${id}/workspaces`, { name: `w${i}` });
    await scene.app.settle();
    const list = async (query: string) => (await scene.call('GET', `/v1/projects/${id}/workspaces${query}`)).body;
    const first = await list('');
    expect(first.data).toHaveLength(50);
    expect(first.data[0].name).toBe('w59');
    expect((await list(`?cursor=${first.next_cursor}`)).data).toHaveLength(10);
    expect(await list('?limit=200')).toMatchObject({ data: { length: 60 }, next_cursor: null });
    expect(await list('?limit=60')).toMatchObject({ next_cursor: null });
    const last = await list(`?limit=60&cursor=${(await list('?limit=59')).next_cursor}`);
    expect(last.data.map(({ name }: { name: string }) => name)).toEqual(['w0']);
  });

  test('an unknown query name is ignored', async () => {
    expect((await scene.call('GET', '/v1/projects?colour=red&limit=1')).status).toBe(200);
  });

  test('query finds a part of the name, upper and lower case alike, in every script and spelling', async () => {
    await createProject(scene, { name: 'Grüße aus ÄRGERLAND' });
    await createProject(scene, { name: 'cafe\u0301 100%_x' });
    const find = async (query: string) =>
      names(await scene.call('GET', `/v1/projects?query=${encodeURIComponent(query)}`));
    for (const query of ['ärger', 'ÄRGER', 'A\u0308rger', 'grüße', 'ß', ' aus '])
      expect(await find(query)).toEqual(['Grüße aus ÄRGERLAND']);
    for (const query of ['CAFÉ', 'cafe\u0301', '%', '_', '100%_'])
      expect(await find(query)).toEqual(['cafe\u0301 100%_x']);
    for (const query of ['argerland', 'x%', "' OR 1=1 --", '\\']) expect(await find(query)).toEqual([]);
  });

  test('archived filters, and is both when absent', async () => {
    const open = await createProject(scene, { name: 'Filter open' });
    const shut = await createProject(scene, { name: 'Filter shut' });
    await scene.call('DELETE', `/v1/projects/${shut.id}`);
    await scene.app.settle();
    const find = async (query: string) => names(await scene.call('GET', `/v1/projects?query=filter${query}`));
    expect(await find('')).toEqual(['Filter shut', 'Filter open']);
    expect(await find('&archived=true')).toEqual(['Filter shut']);
    expect(await find('&archived=false')).toEqual(['Filter open']);
    expect(open.name).toBe('Filter open');
  });

  test('runs: status takes a comma list, ids filter, idempotency_key finds the one that was made with it', async () => {
    const { id } = await createProject(scene);
    const ready = await createWorkspace(scene, id);
    const gate = createGate();
    const going = await createRun(scene, { workspace_id: ready.id, harness: 'shell', prompt: gate.script });
    await untilRun(scene, going.run_id, ['running']);
    const waiting = await createRun(scene, { workspace_id: ready.id, harness: 'shell', prompt: 'true' });
    const key = { 'idempotency-key': 'find-me' };
    const { body: failed } = await scene.call('POST', '/v1/runs', { ...missingRun, project_id: id }, key);
    await untilRun(scene, failed.run_id, ended);
    const list = async (query: string) =>
      (await scene.call('GET', `/v1/runs?project_id=${id}&${query}`)).body.data.map((run: { id: string }) => run.id);
    expect(await list('')).toEqual([failed.run_id, waiting.run_id, going.run_id]);
    expect(await list('status=failed')).toEqual([failed.run_id]);
    expect(await list('status=failed,queued')).toEqual([failed.run_id, waiting.run_id]);
    expect(await list('status=queued,queued,running')).toEqual([waiting.run_id, going.run_id]);
    expect(await list('status=completed')).toEqual([]);
    expect(await list(`workspace_id=${ready.id}`)).toEqual([waiting.run_id, going.run_id]);
    expect(await list(`session_id=${going.session_id}`)).toEqual([going.run_id]);
    expect(await list('idempotency_key=find-me')).toEqual([failed.run_id]);
    expect(await list('idempotency_key=nobody-used-this')).toEqual([]);
    const { body: sessions } = await scene.call('GET', `/v1/sessions?workspace_id=${ready.id}`);
    expect(sessions.data.map((session: { id: string }) => session.id)).toEqual([waiting.session_id, going.session_id]);
    gate.open();
    await untilRun(scene, waiting.run_id, ended);
    gate.remove();
  });

  test('events: pages by limit and cursor, ascending, after a sequence', async () => {
    const { id } = await createProject(scene);
    const { run_id } = await createRun(scene, { project_id: id, harness: 'shell', prompt: 'echo a; echo b >&2' });
    const { last_sequence } = await untilRun(scene, run_id, ended);
    const found: number[] = [];
    let query = '?after=1&limit=2';
    for (;;) {
      const { body } = await scene.call('GET', `/v1/runs/${run_id}/events${query}`);
      found.push(...body.data.map(({ sequence }: { sequence: number }) => sequence));
      if (body.next_cursor === null) break;
      query = `?after=1&limit=2&cursor=${body.next_cursor}`;
    }
    expect(found).toEqual(Array.from({ length: last_sequence - 1 }, (_, index) => index + 2));
    for (const after of [last_sequence, last_sequence + 5, '007'.padStart(500, '0')])
      expect((await scene.call('GET', `/v1/runs/${run_id}/events?after=${after}`)).status).toBe(200);
    expect((await scene.call('GET', `/v1/runs/${run_id}/events?after=${last_sequence}`)).body).toEqual({
      data: [],
      next_cursor: null,
    });
  });

  test('an id in upper case is the same id: in the path, in a query and in a body', async () => {
    const { id } = await createProject(scene);
    const large = id.toUpperCase();
    expect((await scene.call('GET', `/v1/projects/${large}`)).body.id).toBe(id);
    const { body } = await scene.call('POST', '/v1/runs', { ...missingRun, project_id: large });
    expect(body).toMatchObject({ project_id: id });
    const { body: page } = await scene.call('GET', `/v1/runs?project_id=${large}`);
    expect(page.data).toHaveLength(1);
  });

  test('harnesses are paged like all else', async () => {
    const all = (await scene.call('GET', '/v1/harnesses')).body.data.map(({ id }: { id: string }) => id);
    const found: string[] = [];
    for (let cursor: string | null = ''; cursor !== null;) {
      const { body }: Answer = await scene.call('GET', `/v1/harnesses?limit=2${cursor && `&cursor=${cursor}`}`);
      found.push(...body.data.map(({ id }: { id: string }) => id));
      cursor = body.next_cursor;
    }
    expect(found).toEqual(all);
  });
});

describe('time', () => {
  test('from is inclusive and to is exclusive, in any offset', async () => {
    const clock = createTestClock(Date.parse('2026-05-01T00:00:00.000Z'));
    const scene = await openApp({ clock, config: withMissingHarness });
    const { id } = await createProject(scene);
    const runs: string[] = [];
    for (let i = 0; i < 3; i++) {
      runs.unshift((await createRun(scene, { ...missingRun, project_id: id })).run_id);
      clock.advance(1);
    }
    await scene.app.settle();
    const list = async (query: string) =>
      (await scene.call('GET', `/v1/runs?${query}`)).body.data.map((run: { id: string }) => run.id);
    const [c, b, a] = runs;
    expect(await list('from=2026-05-01T00:00:00.001Z')).toEqual([c, b]);
    expect(await list('to=2026-05-01T00:00:00.001Z')).toEqual([a]);
    expect(await list('from=2026-05-01T00:00:00.001Z&to=2026-05-01T00:00:00.002Z')).toEqual([b]);
    expect(await list('from=2026-05-01T02:00:00.001%2B02:00&to=2026-04-30T22:00:00.002-02:00')).toEqual([b]);
    expect(await list('from=2026-05-01T00:00:00Z')).toEqual([c, b, a]);
    expect(await list('from=2026-05-01T00:00:00.001Z&to=2026-05-01T00:00:00.001Z')).toEqual([]);
    await scene.close();
  });

  test('an operation is waited for: until it has ended, or so many seconds', async () => {
    const clock = createTestClock();
    const scene = await openApp({ clock, config: withMissingHarness });
    const { id } = await createProject(scene);
    await scene.call('DELETE', `/v1/projects/${id}`);
    await scene.app.settle();
    const { body: operation } = await scene.call('POST', `/v1/projects/${id}/deletion`, { after_seconds: 1_000 });
    const address = `/v1/operations/${operation.id}`;
    expect((await scene.call('GET', `${address}?wait=0`)).body.status).toBe('queued');

    let answered = false;
    const late = scene.call('GET', `${address}?wait=50`).finally(() => (answered = true));
    await scene.call('GET', address);
    clock.advance(49_999);
    await scene.call('GET', address);
    expect(answered).toBe(false);
    await until('the wait to be over', () => {
      clock.advance(1);
      return answered;
    });
    expect((await late).body).toMatchObject({ id: operation.id, status: 'queued' });

    answered = false;
    const soon = scene.call('GET', `${address}?wait=50`).finally(() => (answered = true));
    await scene.call('GET', address);
    expect(answered).toBe(false);
    await scene.call('DELETE', `/v1/projects/${id}/deletion`);
    expect((await soon).body).toMatchObject({ id: operation.id, status: 'cancelled' });
    expect((await scene.call('GET', `${address}?wait=50`)).body.status).toBe('cancelled');
    await scene.close();
  });

  test('a stream ends after about 55 seconds, beats every 15, and the next one goes on where it stopped', async () => {
    const clock = createTestClock();
    const scene = await openApp({ clock });
    const { id } = await createProject(scene);
    const gate = createGate();
    const { run_id } = await createRun(scene, { project_id: id, harness: 'shell', prompt: gate.script });
    const turn = () => clock.advance(25);
    await untilRun(scene, run_id, ['running'], turn);
    let open = true;
    const stream = scene.call('GET', `/v1/runs/${run_id}/stream`).finally(() => (open = false));
    await scene.call('GET', '/healthz');
    const began = clock.now();
    await until('the stream to be rotated', async () => {
      clock.advance(500);
      await scene.call('GET', '/healthz');
      return !open;
    });
    const lasted = clock.now() - began;
    expect(lasted).toBeGreaterThanOrEqual(51_000);
    expect(lasted).toBeLessThanOrEqual(60_000);
    const { text } = await stream;
    expect(text.match(/^: heartbeat$/gm)).toHaveLength(3);
    const last = [...text.matchAll(/^id: (\d+)$/gm)].at(-1)![1]!;
    gate.open();
    await untilRun(scene, run_id, ended, turn);
    const rest = await scene.call('GET', `/v1/runs/${run_id}/stream`, undefined, { 'last-event-id': last });
    const { body } = await scene.call('GET', `/v1/runs/${run_id}/events?limit=1000`);
    const sent = [...(text + rest.text).matchAll(/^data: (.*)$/gm)].map(([, data]) => JSON.parse(data!) as unknown);
    expect(sent).toEqual(body.data);
    gate.remove();
    await scene.close();
  });

  test('a disconnect never cancels', async () => {
    const scene = await openApp();
    const { id } = await createProject(scene);
    const gate = createGate();
    const { run_id } = await createRun(scene, { project_id: id, harness: 'shell', prompt: gate.script });
    await untilRun(scene, run_id, ['running']);
    const gone = new AbortController();
    const headers = { authorization: `Bearer ${scene.token}` };
    const stream = await fetch(`http://127.0.0.1:${scene.port}/v1/runs/${run_id}/stream`, {
      headers,
      signal: gone.signal,
    });
    gone.abort();
    await stream.text().catch(() => '');
    gate.open();
    expect(await untilRun(scene, run_id, ended)).toMatchObject({ status: 'completed', stop_reason: 'end_turn' });
    gate.remove();
    await scene.close();
  });

  test('a second app on the same folder takes the cursors of the first', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'agentctl-test-'));
    const first = await openApp({ folder });
    for (const name of ['a', 'b']) await createProject(first, { name });
    const { body } = await first.call('GET', '/v1/projects?limit=1');
    await first.server.close();
    await first.app.close();
    const second = await openApp({ folder });
    const page = await second.call('GET', `/v1/projects?limit=1&cursor=${body.next_cursor}`);
    expect(page.body.data.map(({ name }: { name: string }) => name)).toEqual(['a']);
    await second.close();
    rmSync(folder, { recursive: true, force: true });
  });
});
