import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openApp, type TestApp } from '../kit/app.ts';
import { dump, withMissingHarness } from './scene.ts';

let scene: TestApp;
beforeAll(async () => {
  scene = await openApp({ config: withMissingHarness });
});
afterAll(() => scene.close());

const create = async (body: object = {}) => {
  const { status, body: agent, text } = await scene.call('POST', '/v1/agents', { name: 'Agent', ...body });
  if (status !== 201) throw new Error(text);
  return agent;
};

describe('what is refused changes nothing', () => {
  const nobody = '01890a5d-ac96-774b-bcce-b302099a8057';
  test.each([
    ['an unknown field', 'POST', '', { name: 'a', colour: 'red' }, 400, 'invalid_request'],
    ['tools, which there are none of yet', 'POST', '', { name: 'a', tools: [] }, 400, 'invalid_request'],
    ['no name', 'POST', '', {}, 400, 'invalid_request'],
    ['an empty name', 'POST', '', { name: ' ' }, 400, 'invalid_request'],
    ['a harness that there is not', 'POST', '', { name: 'a', harness: 'none' }, 400, 'invalid_request'],
    ['a limit of nothing', 'POST', '', { name: 'a', limits: { timeout_seconds: 0 } }, 400, 'invalid_request'],
    ['a mode that there is not', 'POST', '', { name: 'a', permission_mode: 'yolo' }, 400, 'invalid_request'],
    ['a name of null', 'PATCH', '/{id}', { name: null }, 400, 'invalid_request'],
    ['a harness that there is not, later', 'PATCH', '/{id}', { harness: 'none' }, 400, 'invalid_request'],
    ['the revision itself', 'PATCH', '/{id}', { revision: 7 }, 400, 'invalid_request'],
    ['a revision that there is not', 'GET', '/{id}?revision=2', undefined, 404, 'not_found'],
    ['a revision of nothing', 'GET', '/{id}?revision=0', undefined, 400, 'invalid_parameter'],
    ['an agent that there is not', 'PATCH', `/${nobody}`, {}, 404, 'not_found'],
    ['an agent that there is not, away', 'DELETE', `/${nobody}`, undefined, 404, 'not_found'],
    ['revisions of nobody', 'GET', `/${nobody}/revisions`, undefined, 404, 'not_found'],
  ])('%s', async (_, method, path, body, status, code) => {
    const { id } = await create();
    const before = dump(scene.app);
    const answer = await scene.call(method, `/v1/agents${path.replace('{id}', id)}`, body);
    expect({ status: answer.status, code: answer.body.error.code }).toEqual({ status, code });
    expect(dump(scene.app)).toBe(before);
  });

  test.each([
    ['another revision', '"2"', 412],
    ['an old one', '"1", "7"', 200],
    ['a weak tag', 'W/"1"', 412],
    ['whatever is there', '*', 200],
    ['what is no tag', '1', 400],
  ])('If-Match with %s', async (_, tag, status) => {
    const { id } = await create();
    const before = dump(scene.app);
    const answer = await scene.call('PATCH', `/v1/agents/${id}`, { model: 'm' }, { 'if-match': tag });
    expect(answer.status).toBe(status);
    const { error } = answer.body as { error?: { code: string; details: object } };
    const refused = {
      412: { code: 'etag_mismatch', details: { current_etag: '"1"' } },
      400: { code: 'invalid_request' },
    };
    expect({ changed: dump(scene.app) !== before, error }).toMatchObject(
      status === 200 ? { changed: true } : { changed: false, error: refused[status as 400 | 412] },
    );
  });
});

test('an archived agent is shown, and changed no more', async () => {
  const { id } = await create();
  expect((await scene.call('DELETE', `/v1/agents/${id}`)).status).toBe(204);
  const { body } = await scene.call('GET', `/v1/agents/${id}`);
  expect(body.archived_at).toBe(body.updated_at);
  const { status, body: refused } = await scene.call('PATCH', `/v1/agents/${id}`, { model: 'm' });
  expect({ status, error: refused.error }).toMatchObject({
    status: 409,
    error: { code: 'invalid_state', details: { state: 'archived' } },
  });
  expect((await scene.call('DELETE', `/v1/agents/${id}`)).status).toBe(204);
  expect((await scene.call('GET', `/v1/agents/${id}`)).body).toEqual(body);
});

test('revisions: any number of changes at once make 1, 2, 3 … without a gap, and each stays what it was', async () => {
  const field = fc.oneof(
    fc.record({ model: fc.option(fc.string({ minLength: 1, maxLength: 20 })) }),
    fc.record({ instructions: fc.option(fc.string({ minLength: 1, maxLength: 20 })) }),
    fc.record({ limits: fc.record({ max_turns: fc.integer({ min: 1, max: 9 }) }) }),
    fc.record({ metadata: fc.dictionary(fc.constantFrom('a', 'b'), fc.string({ maxLength: 5 })) }),
    fc.constant({}),
  );
  /** Changes that are sent together; a guarded one names the revision that was newest when it was sent. */
  const burst = fc.array(fc.record({ field, guarded: fc.boolean() }), { minLength: 1, maxLength: 6 });
  await fc.assert(
    fc.asyncProperty(fc.array(burst, { maxLength: 4 }), async (bursts) => {
      const first = await create();
      const path = `/v1/agents/${first.id}`;
      const known = new Map([[1, first]]);
      for (const changes of bursts) {
        const newest = Math.max(...known.keys());
        const answers = await Promise.all(
          changes.map(({ field: fields, guarded }) =>
            scene.call('PATCH', path, fields, guarded ? { 'if-match': `"${newest}"` } : {}),
          ),
        );
        for (const [n, { status, body, headers }] of answers.entries()) {
          expect(status).toBeOneOf(changes[n]!.guarded ? [200, 412] : [200]);
          if (status !== 200) continue;
          expect(headers.etag).toBe(`"${body.revision}"`);
          expect(body).toMatchObject(changes[n]!.field);
          expect(known.has(body.revision)).toBe(false);
          known.set(body.revision, body);
        }
        expect(answers.filter(({ status }, n) => status === 200 && changes[n]!.guarded).length).toBeLessThanOrEqual(1);
      }
      expect([...known.keys()].toSorted((a, b) => a - b)).toEqual(Array.from(known, (_, n) => n + 1));
      const found: object[] = [];
      for (let cursor: string | null = ''; cursor !== null;) {
        const { body }: { body: { data: object[]; next_cursor: string | null } } = await scene.call(
          'GET',
          `${path}/revisions?limit=3${cursor && `&cursor=${cursor}`}`,
        );
        found.push(...body.data);
        cursor = body.next_cursor;
      }
      expect(found).toEqual([...known.values()].toSorted((a, b) => b.revision - a.revision));
      for (const [revision, body] of known)
        expect((await scene.call('GET', `${path}?revision=${revision}`)).body).toEqual(body);
    }),
    { numRuns: 25 },
  );
});

test('the same key makes one agent, and one revision', async () => {
  const key = { 'idempotency-key': 'once' };
  const one = await scene.call('POST', '/v1/agents', { name: 'Once' }, key);
  const again = await scene.call('POST', '/v1/agents', { name: 'Once' }, key);
  expect(again).toMatchObject({ status: 201, body: one.body, headers: { 'idempotent-replayed': 'true', etag: '"1"' } });
  const guarded = { 'idempotency-key': 'twice', 'if-match': '"1"' };
  const path = `/v1/agents/${one.body.id}`;
  expect((await scene.call('PATCH', path, { model: 'm' }, guarded)).body.revision).toBe(2);
  expect((await scene.call('PATCH', path, { model: 'm' }, guarded)).body.revision).toBe(2);
  expect((await scene.call('GET', path)).body.revision).toBe(2);
});
