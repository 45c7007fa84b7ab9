import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { UsageRow } from '../../src/api/usage-report.ts';
import { iso } from '../../src/base/clock.ts';
import { openApp, type TestApp } from '../kit/app.ts';
import { createTestClock } from '../kit/clock.ts';
import { createProject, createRun, createWorkspace, dump, ended, untilRun } from './scene.ts';

const hour = 3_600_000;

describe('usage', () => {
  const clock = createTestClock(Date.parse('2026-03-28T00:00:00.000Z'));
  let scene: TestApp;
  beforeAll(async () => {
    scene = await openApp({ clock });
    const { id: organization_id } = (await scene.call('GET', '/v1/me')).body.organization;
    const insert = (index: number) => {
      const at = iso(clock.now() + index * hour);
      const owner = {
        id: `run-${Math.floor(index / 4)}`,
        organization_id,
        project_id: index % 3 === 0 ? 'a' : 'b',
        workspace_id: 'w',
        session_id: 's',
        agent_id: null,
        api_key_id: null,
        harness: 'builtin',
        billing_mode: 'managed' as const,
      };
      const tokens = { input_tokens: 10, cached_input_tokens: 1, cache_write_tokens: 2, output_tokens: 3 };
      scene.app.db.write((tx) => {
        if (index % 4 === 0) scene.app.usage.begin(tx, { ...owner, model: 'm', created_at: at });
        scene.app.usage.record(tx, owner, {
          call_id: String(index),
          at,
          provider: 'anthropic',
          model: index % 2 === 0 ? 'even' : 'odd',
          dialect: 'anthropic',
          status: 'completed',
          http_status: 200,
          main: true,
          duration_ms: 5,
          ...tokens,
          reasoning_tokens: 0,
          cost_micro_usd: index === 7 ? null : String(100 + index),
          cost_source: index === 7 ? 'unknown' : 'reported',
        });
      });
    };
    for (let index = 0; index < 72; index += 1) insert(index);
  });
  afterAll(() => scene.close());
  const from = '2026-03-28T00:00:00Z';
  const to = '2026-03-31T00:00:00Z';
  const usage = async (query: Record<string, string>) =>
    scene.call('GET', `/v1/usage?${new URLSearchParams({ from, to, ...query }).toString()}`);

  test('the sum of a range; a cost that nobody knows is counted apart', async () => {
    const { body } = await usage({});
    const cost = String(
      Array.from({ length: 72 }, (_, index) => (index === 7 ? 0 : 100 + index)).reduce((a, b) => a + b),
    );
    expect(body).toMatchObject({ bucket: 'total', group_by: [], next_cursor: null, data: [{ group: {}, runs: 18 }] });
    expect(body.totals).toMatchObject({ calls: 72, unpriced_calls: 1, input_tokens: 720, cost_micro_usd: cost });
    expect(body.data[0]).toMatchObject(body.totals);
  });

  test('a border belongs to what begins with it, to the millisecond', async () => {
    const calls = async (first: string, last: string) => (await usage({ from: first, to: last })).body.totals.calls;
    expect(await calls('2026-03-28T01:00:00.000Z', '2026-03-28T02:00:00.000Z')).toBe(1);
    expect(await calls('2026-03-28T01:00:00.001Z', '2026-03-28T02:00:00.001Z')).toBe(1);
    expect(await calls('2026-03-28T01:00:00.001Z', '2026-03-28T02:00:00.000Z')).toBe(0);
    expect(await calls('2026-03-28T01:00:00+01:00', '2026-03-28T02:00:00+01:00')).toBe(1);
  });

  test('days are those of the zone: one of 23 hours in Berlin, cut where the range is', async () => {
    const { body } = await usage({ bucket: 'day', time_zone: 'Europe/Berlin' });
    expect(body.data.map(({ start, end, calls }: Record<string, unknown>) => [start, end, calls])).toEqual([
      ['2026-03-28T00:00:00.000Z', '2026-03-28T23:00:00.000Z', 23],
      ['2026-03-28T23:00:00.000Z', '2026-03-29T22:00:00.000Z', 23],
      ['2026-03-29T22:00:00.000Z', '2026-03-30T22:00:00.000Z', 24],
      ['2026-03-30T22:00:00.000Z', '2026-03-31T00:00:00.000Z', 2],
    ]);
  });

  test('groups, page by page, are the same as at once, and add up to the totals', async () => {
    const query = { bucket: 'day', group_by: 'model,project' };
    const { body: whole } = await usage({ ...query, limit: '200' });
    // Three days, two projects, and three models: the two that were called and the one that the runs named.
    expect(whole.data).toHaveLength(18);
    expect(whole.data[0].group).toEqual({ model: 'even', project: 'a' });
    // What it is grouped by is said in `group` alone.
    expect(Object.keys(whole.data[0]).toSorted()).toEqual(Object.keys(UsageRow.properties).toSorted());
    expect(whole.data.reduce((sum: number, row: { calls: number }) => sum + row.calls, 0)).toBe(72);
    for (const limit of [1, 3, 5]) {
      const rows: unknown[] = [];
      let cursor: string | null = null;
      do {
        const page: { data: unknown[]; totals: unknown; next_cursor: string | null } = (
          await usage({ ...query, limit: String(limit), ...(cursor === null ? {} : { cursor }) })
        ).body;
        expect(page.data.length).toBeLessThanOrEqual(limit);
        expect(page.totals).toEqual(whole.totals);
        rows.push(...page.data);
        cursor = page.next_cursor;
      } while (cursor !== null);
      expect(rows).toEqual(whole.data);
    }
    const { body: first } = await usage({ ...query, limit: '5' });
    const other = await usage({ ...query, group_by: 'model', limit: '5', cursor: first.next_cursor });
    expect(other.body.error.code).toBe('invalid_cursor');
  });

  test.each([
    ['from', { from: to, to: from }],
    ['from', { from: 'yesterday' }],
    ['bucket', { bucket: 'week' }],
    ['group_by', { group_by: 'user' }],
    ['group_by', { group_by: 'model,model' }],
    ['time_zone', { time_zone: 'Mars/Olympus' }],
  ])('a bad %s is refused by its name: %o', async (param, query) => {
    const { status, body } = await usage(query);
    expect({ status, code: body.error.code, param: body.error.param }).toEqual({
      status: 400,
      code: 'invalid_parameter',
      param,
    });
  });

  test('of another organization nothing is seen', async () => {
    const { id } = (await scene.call('GET', '/v1/me')).body.organization;
    const { body: other } = await scene.call('POST', '/v1/organizations', { name: 'Other' });
    const seen = async (organization: string) =>
      (await scene.call('GET', `/v1/usage?from=${from}&to=${to}`, undefined, { 'x-organization-id': organization }))
        .body.totals.calls;
    expect([await seen(id), await seen(other.id)]).toEqual([72, 0]);
  });

  test('fifty thousand rows are read along an index', () => {
    const plans = [
      `SELECT min(at) AS at FROM model_calls WHERE organization_id = ? AND at >= ? AND at < ?`,
      `SELECT sum(cost_micro_usd), sum(input_tokens), max(cost_source) FROM model_calls WHERE organization_id = ? AND at >= ? AND at < ?`,
      `SELECT count(*), sum(turns) FROM run_figures WHERE organization_id = ? AND at >= ? AND at < ?`,
    ].map((sql) => scene.app.db.all<{ detail: string }>(`EXPLAIN QUERY PLAN ${sql}`, ['o', from, to])[0]!.detail);
    for (const plan of plans)
      expect(plan).toMatch(/^SEARCH .* USING COVERING INDEX .*\(organization_id=\? AND at>\? AND at<\?\)$/);
  });
});

describe('credits', () => {
  test('a managed run holds its limit, is charged what it cost, and gets the rest back', async () => {
    const scene = await openApp({ config: { sandbox: { unavailable: 'allow' } } });
    const { id: organization } = (await scene.call('GET', '/v1/me')).body.organization;
    await scene.call('PATCH', `/v1/organizations/${organization}`, { credit_policy: 'prepaid' });
    const { id: project_id } = await createProject(scene);
    const workspace = await createWorkspace(scene, project_id);
    const script = { steps: [{ cost_micro_usd: '1500' }, { message: 'Done.' }] };
    const wanted = { workspace_id: workspace.id, harness: 'scripted', sandbox: 'none', prompt: JSON.stringify(script) };
    const credits = async () => (await scene.call('GET', '/v1/credits')).body;

    const before = dump(scene.app);
    const poor = await scene.call('POST', '/v1/runs', { ...wanted, limits: { max_cost_micro_usd: '5000' } });
    expect(poor).toMatchObject({ status: 402, body: { error: { code: 'insufficient_credits' } } });
    expect(poor.body.error.details).toEqual({ available_micro_usd: '0', required_micro_usd: '5000' });
    expect(dump(scene.app)).toBe(before);

    const granted = await scene.call('POST', '/v1/credits/grants', { amount_micro_usd: '6000', note: 'first' });
    expect(granted.body).toMatchObject({ kind: 'grant', amount_micro_usd: '6000', balance_after_micro_usd: '6000' });
    // A run that names no limit has the usual one, a dollar: that is not there.
    expect((await scene.call('POST', '/v1/runs', wanted)).status).toBe(402);
    const { run_id } = await createRun(scene, { ...wanted, limits: { max_cost_micro_usd: '5000' } });
    expect(await credits()).toMatchObject({
      balance_micro_usd: '6000',
      held_micro_usd: '5000',
      available_micro_usd: '1000',
    });
    const run = await untilRun(scene, run_id, ended);
    expect(run).toMatchObject({ status: 'completed', usage: { cost_micro_usd: '1500' } });
    expect(await credits()).toMatchObject({
      balance_micro_usd: '4500',
      held_micro_usd: '0',
      available_micro_usd: '4500',
    });
    const { body: ledger } = await scene.call('GET', '/v1/credits/ledger');
    expect(ledger.data.map(({ kind, amount_micro_usd }: Record<string, string>) => [kind, amount_micro_usd])).toEqual([
      ['release', '5000'],
      ['charge', '1500'],
      ['hold', '5000'],
      ['grant', '6000'],
    ]);
    const { body: usage } = await scene.call('GET', '/v1/usage?group_by=harness');
    expect(usage.data).toMatchObject([{ group: { harness: 'scripted' }, runs: 1, calls: 1, cost_micro_usd: '1500' }]);

    // A run that is cancelled while it waits costs nothing and gets everything back; external ones are not held at all.
    await createRun(scene, { ...wanted, billing_mode: 'external' });
    const { run_id: second } = await createRun(scene, { ...wanted, limits: { max_cost_micro_usd: '4500' } });
    await scene.call('POST', `/v1/runs/${second}/cancel`, {});
    await untilRun(scene, second, ended);
    expect(await credits()).toMatchObject({ held_micro_usd: '0' });
    await scene.close();
  });

  test('only the user at this machine grants', async () => {
    const scene = await openApp();
    const { key } = (await scene.call('POST', '/v1/api-keys', { name: 'x', scopes: ['usage:read'] })).body;
    const headers = { authorization: `Bearer ${key}` };
    const grant = { amount_micro_usd: '1' };
    expect((await scene.call('POST', '/v1/credits/grants', grant, headers)).body.error.code).toBe('owner_only');
    expect((await scene.call('GET', '/v1/credits', undefined, headers)).body).toEqual({
      policy: 'unlimited',
      balance_micro_usd: '0',
      held_micro_usd: '0',
      available_micro_usd: '0',
    });
    for (const amount of ['0', '-1', '1.5', '', '1000000000000000'])
      expect((await scene.call('POST', '/v1/credits/grants', { amount_micro_usd: amount })).status).toBe(400);
    await scene.close();
  });
});
