import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { generateKeyPair, SignJWT } from 'jose';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { api } from '../../src/api/api.ts';
import { type Endpoint, scopes } from '../../src/api/endpoint.ts';
import { type Answer, openApp, type TestApp } from '../kit/app.ts';
import { createTestClock, type TestClock } from '../kit/clock.ts';
import { type Issuer, openIssuer } from '../kit/issuer.ts';
import { createProject, dump } from './scene.ts';

const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
const refusal = ({ status, body, headers }: Answer) => ({
  status,
  code: body?.error?.code,
  reason: body?.error?.details?.reason,
  challenge: headers['www-authenticate'],
});
const unauthenticated = (reason: string) => ({ status: 401, code: 'unauthenticated', reason, challenge: 'Bearer' });
const minute = 60_000;

describe('api keys', () => {
  let clock: TestClock;
  let scene: TestApp;
  beforeEach(async () => {
    clock = createTestClock();
    scene = await openApp({ clock });
  });
  afterEach(() => scene.close());

  const create = (body: object, headers: Record<string, string> = {}) =>
    scene.call('POST', '/v1/api-keys', body, headers);
  const me = (token: string) => scene.call('GET', '/v1/me', undefined, bearer(token));

  test('the value is shown once, and only its hash is stored', async () => {
    const { status, body } = await create({ name: 'ci', scopes: ['runs:read', 'projects:read'] });
    expect(status).toBe(201);
    expect(body.key).toMatch(/^agk_[0-9A-Za-z]{49}$/);
    expect(body).toMatchObject({ prefix: body.key.slice(0, 8), last4: body.key.slice(-4), expires_at: null });
    const { body: list } = await scene.call('GET', '/v1/api-keys');
    const { key, ...metadata } = body;
    expect(list.data).toEqual([metadata]);
    expect(dump(scene.app)).not.toContain(key);
    expect((await me(key)).body).toMatchObject({
      principal: { type: 'api_key', id: body.id, name: 'ci', credential: 'api_key' },
      scopes: ['runs:read', 'projects:read'],
      memberships: [{ organization_id: body.organization_id }],
    });
  });

  test('no slip of the pen is a lookup, and nothing but the key itself lets in', async () => {
    const { key } = (await create({ name: 'ci', scopes: ['runs:read'] })).body;
    await fc.assert(
      fc.asyncProperty(fc.nat(key.length - 5), fc.constantFrom('0', 'a', 'Z'), async (at, digit) => {
        const wrong = `agk_${key.slice(4, 4 + at)}${digit}${key.slice(5 + at)}`;
        fc.pre(wrong !== key);
        expect(refusal(await me(wrong))).toEqual(unauthenticated('unknown'));
      }),
      { numRuns: 40 },
    );
    for (const wrong of [key.slice(0, -1), `${key}0`, 'agk_', key.toUpperCase()])
      expect((await me(wrong)).status).toBe(401);
  });

  test('it ends when it expires and at once when it is revoked; that it was used is known to the minute', async () => {
    const expires_at = new Date(clock.now() + 10 * minute).toISOString();
    const { body } = await create({ name: 'short', scopes: ['keys:write'], expires_at });
    const used = async () => (await scene.call('GET', '/v1/api-keys')).body.data[0].last_used_at;
    expect(await used()).toBeNull();
    await me(body.key);
    const first = await used();
    expect(first).toBe(new Date(clock.now()).toISOString());
    clock.advance(minute - 1);
    await me(body.key);
    expect(await used()).toBe(first);
    clock.advance(1);
    await me(body.key);
    expect(await used()).toBe(new Date(clock.now()).toISOString());
    clock.advance(9 * minute);
    expect(refusal(await me(body.key))).toEqual(unauthenticated('expired'));

    const { body: other } = await create({ name: 'other', scopes: ['runs:read'] });
    expect((await me(other.key)).status).toBe(200);
    expect((await scene.call('DELETE', `/v1/api-keys/${other.id}`)).status).toBe(204);
    expect(refusal(await me(other.key))).toEqual(unauthenticated('revoked'));
    expect((await scene.call('DELETE', `/v1/api-keys/${other.id}`)).status).toBe(204);
    expect((await scene.call('GET', '/v1/api-keys')).body.data[0].revoked_at).not.toBeNull();
  });

  test('a key gives away no more than it has: neither scopes nor time', async () => {
    const expires_at = new Date(clock.now() + 10 * minute).toISOString();
    const { key } = (await create({ name: 'maker', scopes: ['keys:write', 'runs:read'], expires_at })).body;
    const before = dump(scene.app).length;
    const more = await create({ name: 'x', scopes: ['runs:read', 'runs:write'] }, bearer(key));
    expect(more).toMatchObject({ status: 403, body: { error: { code: 'insufficient_scope' } } });
    expect(more.body.error.details).toEqual({ required_scope: 'runs:write' });
    const longer = { name: 'x', scopes: ['runs:read'], expires_at: new Date(clock.now() + 11 * minute).toISOString() };
    for (const expires of [longer, { ...longer, expires_at: null }])
      expect(await create(expires, bearer(key))).toMatchObject({
        status: 400,
        body: { error: { code: 'invalid_request', details: { errors: [{ path: '/expires_at' }] } } },
      });
    // Only that the key was used is new.
    expect(dump(scene.app).length - before).toBeLessThan(40);
    expect((await create({ name: 'x', scopes: ['runs:read'] }, bearer(key))).body.expires_at).toBe(expires_at);
  });

  test('a repeated request is shown the value for ten minutes, then null', async () => {
    const body = { name: 'ci', scopes: ['runs:read'] };
    const first = await create(body, { 'idempotency-key': 'once' });
    expect(dump(scene.app)).not.toContain(first.body.key);
    const again = await create(body, { 'idempotency-key': 'once' });
    expect(again.headers['idempotent-replayed']).toBe('true');
    expect(again.body).toEqual(first.body);
    clock.advance(10 * minute);
    const late = await create(body, { 'idempotency-key': 'once' });
    expect(late.body).toEqual({ ...first.body, key: null });
    expect((await scene.call('GET', '/v1/api-keys')).body.data).toHaveLength(1);
  });

  test('it acts in its own organization alone', async () => {
    const { body } = await create({ name: 'ci', scopes: ['projects:read'] });
    const { body: other } = await scene.call('POST', '/v1/organizations', { name: 'Other' });
    const ask = (organization: string) =>
      scene.call('GET', '/v1/projects', undefined, { ...bearer(body.key), 'x-organization-id': organization });
    expect((await ask(body.organization_id)).status).toBe(200);
    expect(refusal(await ask(other.id))).toMatchObject({ status: 403, code: 'organization_forbidden' });
    expect((await scene.call('GET', `/v1/organizations/${other.id}`, undefined, bearer(body.key))).status).toBe(404);
  });

  test('what is for the user at this machine alone is refused to a key', async () => {
    const { key } = (await create({ name: 'all', scopes: [...scopes] })).body;
    const before = scene.app.db.get<{ n: number }>('SELECT count(*) AS n FROM organizations')!.n;
    for (const [method, path, body] of [
      ['POST', '/v1/organizations', { name: 'x' }],
      ['POST', '/v1/auth/codes', {}],
      ['POST', '/v1/auth/rotate', {}],
    ] as const)
      expect(refusal(await scene.call(method, path, body, bearer(key)))).toMatchObject({
        status: 403,
        code: 'owner_only',
      });
    expect(scene.app.db.get<{ n: number }>('SELECT count(*) AS n FROM organizations')!.n).toBe(before);
  });
});

describe('every operation asks for its scope, and for nothing but its scope', () => {
  let scene: TestApp;
  const keys = new Map<string, string>();
  beforeAll(async () => {
    scene = await openApp({ config: { limits: { requests_per_minute: 0 } } });
    for (const scope of scopes)
      keys.set(scope, (await scene.call('POST', '/v1/api-keys', { name: scope, scopes: [scope] })).body.key);
  });
  afterAll(() => scene.close());

  const missing = '0197a1b2-0000-7000-8000-000000000000';
  const rows = Object.entries(api as Record<string, Endpoint>).map(([id, endpoint]) => ({ id, endpoint }));
  const ask = ({ method, path }: Endpoint, headers: Record<string, string>) =>
    scene.call(method, path.replace(/\{\w+\}/g, missing), undefined, headers);

  test.for(rows.filter(({ endpoint }) => !endpoint.open))('$id', async ({ endpoint }) => {
    expect(refusal(await ask(endpoint, { authorization: '' }))).toEqual(unauthenticated('missing'));
    const seen: Record<string, unknown> = {};
    for (const [scope, key] of keys) {
      const { status, body } = await ask(endpoint, bearer(key));
      seen[scope] = status === 403 && body.error.code === 'insufficient_scope' && body.error.details.required_scope;
    }
    const { scope: needed } = endpoint;
    expect(seen).toEqual(
      Object.fromEntries(scopes.map((scope) => [scope, needed !== null && needed !== scope && needed])),
    );
  });

  test('only the exchange of a code asks for no credential, and it asks for a code', async () => {
    const open = rows.filter(({ endpoint }) => endpoint.open);
    expect(open.map(({ id }) => id)).toEqual(['createBrowserSession']);
    expect((await ask(open[0]!.endpoint, { authorization: '' })).body.error.code).toBe('invalid_json');
  });
});

describe('organizations', () => {
  let scene: TestApp;
  beforeEach(async () => {
    scene = await openApp();
  });
  afterEach(() => scene.close());

  test('who has several memberships names one; what is in another is not there', async () => {
    const { body: first } = await scene.call('GET', '/v1/me');
    const project = await createProject(scene);
    const { body: second, status } = await scene.call('POST', '/v1/organizations', { name: 'Second' });
    expect(status).toBe(201);
    const unnamed = await scene.call('GET', '/v1/projects');
    expect(unnamed).toMatchObject({ status: 400, body: { error: { code: 'organization_required' } } });
    expect(unnamed.body.error.details.memberships).toMatchObject([
      { organization_id: first.organization.id },
      { organization_id: second.id, name: 'Second' },
    ]);
    const inside = (id: string) => ({ 'x-organization-id': id });
    const stranger = '0197a1b2-0000-7000-8000-000000000000';
    expect((await scene.call('GET', '/v1/projects', undefined, inside(stranger))).body.error.code).toBe(
      'organization_forbidden',
    );
    expect((await scene.call('GET', '/v1/projects', undefined, inside(second.id))).body.data).toEqual([]);
    expect((await scene.call('GET', `/v1/projects/${project.id}`, undefined, inside(second.id))).status).toBe(404);
    expect(
      (await scene.call('GET', `/v1/projects/${project.id}`, undefined, inside(first.organization.id.toUpperCase())))
        .status,
    ).toBe(200);
  });

  test('names and credit policy can be changed, and are listed newest first', async () => {
    const { body: me } = await scene.call('GET', '/v1/me');
    const headers = { 'x-organization-id': me.organization.id };
    const { body: made } = await scene.call('POST', '/v1/organizations', { name: 'Two', credit_policy: 'prepaid' });
    const changed = await scene.call('PATCH', `/v1/organizations/${made.id}`, { name: 'Zwei' }, headers);
    expect(changed.body).toMatchObject({ id: made.id, name: 'Zwei', credit_policy: 'prepaid' });
    const { body: list } = await scene.call('GET', '/v1/organizations', undefined, headers);
    expect(list.data.map(({ name }: { name: string }) => name)).toEqual(['Zwei', 'default']);
    const { body: page } = await scene.call('GET', '/v1/organizations?limit=1', undefined, headers);
    const rest = await scene.call('GET', `/v1/organizations?limit=1&cursor=${page.next_cursor}`, undefined, headers);
    expect([page.data[0].name, rest.body.data[0].name, rest.body.next_cursor]).toEqual(['Zwei', 'default', null]);
  });
});

describe('browsers', () => {
  let clock: TestClock;
  let scene: TestApp;
  beforeEach(async () => {
    clock = createTestClock();
    scene = await openApp({ clock });
  });
  afterEach(() => scene.close());
  const enter = (code: string) => scene.call('POST', '/v1/auth/session', { code }, { authorization: '' });

  test('a code lets one browser in, once, within a minute; the session ends after twelve hours', async () => {
    const { body: made, status } = await scene.call('POST', '/v1/auth/codes', {});
    expect(status).toBe(201);
    expect(made.url).toBe(`http://127.0.0.1:${scene.port}/docs#code=${made.code}`);
    const { body: session } = await enter(made.code);
    expect(session.token).toMatch(/^ags_/);
    expect(dump(scene.app)).not.toContain(session.token);
    expect(dump(scene.app)).not.toContain(made.code);
    const me = () => scene.call('GET', '/v1/me', undefined, bearer(session.token));
    expect((await me()).body.principal.credential).toBe('session');
    expect(refusal(await enter(made.code))).toEqual(unauthenticated('unknown'));

    const { body: late } = await scene.call('POST', '/v1/auth/codes', {});
    clock.advance(minute);
    expect(refusal(await enter(late.code))).toEqual(unauthenticated('unknown'));
    clock.advance(12 * 60 * minute);
    expect(refusal(await me())).toEqual(unauthenticated('unknown'));
  });

  test('no code is a session and no session a code', async () => {
    const { body: made } = await scene.call('POST', '/v1/auth/codes', {});
    expect((await scene.call('GET', '/v1/me', undefined, bearer(made.code))).status).toBe(401);
    const { body: session } = await enter(made.code);
    expect((await enter(session.token)).status).toBe(401);
  });

  test('rotation replaces the token in the file and ends the sessions of browsers', async () => {
    const { body: made } = await scene.call('POST', '/v1/auth/codes', {});
    const { body: session } = await enter(made.code);
    expect((await scene.call('POST', '/v1/auth/rotate', {})).status).toBe(204);
    for (const token of [scene.token, session.token])
      expect(refusal(await scene.call('GET', '/v1/me', undefined, bearer(token)))).toEqual(unauthenticated('unknown'));
    const token = readFileSync(scene.home.token, 'utf8').trim();
    expect((await scene.call('GET', '/v1/me', undefined, bearer(token))).status).toBe(200);
  });
});

describe('tokens of an issuer', () => {
  const audience = 'http://agentctl.test/';
  let issuer: Issuer;
  let scene: TestApp;
  let organization: string;
  beforeAll(async () => {
    issuer = await openIssuer(audience, scopes);
    const issuers = [{ issuer: issuer.url, audience }];
    scene = await openApp({ config: { oauth: { issuers } } });
    organization = (await scene.call('GET', '/v1/me')).body.organization.id;
    await scene.call('POST', `/v1/organizations/${organization}/members`, { issuer: issuer.url, subject: 'alice' });
  });
  afterAll(async () => {
    issuer.close();
    await scene.close();
  });
  const me = (token: string) => scene.call('GET', '/v1/me', undefined, bearer(token));

  test('a member acts with the scopes of the token, and no more', async () => {
    const token = await issuer.token('projects:read runs:read');
    expect((await me(token)).body).toMatchObject({
      principal: { type: 'user', name: 'alice', credential: 'oauth' },
      organization: { id: organization },
      scopes: ['projects:read', 'runs:read'],
    });
    expect((await scene.call('GET', '/v1/projects', undefined, bearer(token))).status).toBe(200);
    expect(refusal(await scene.call('POST', '/v1/projects', { name: 'x' }, bearer(token)))).toMatchObject({
      status: 403,
      code: 'insufficient_scope',
    });
    expect((await scene.call('POST', '/v1/organizations', { name: 'x' }, bearer(token))).body.error.code).toBe(
      'owner_only',
    );
  });

  test('who is no member is not let in, and a member who was taken out no more', async () => {
    expect(refusal(await me(await issuer.token('projects:read', 'bob')))).toMatchObject({
      status: 403,
      code: 'organization_forbidden',
    });
    const path = `/v1/organizations/${organization}/members`;
    const { body: member } = await scene.call('POST', path, { issuer: issuer.url, subject: 'bob', name: 'Bob' });
    const token = await issuer.token('projects:read', 'bob');
    expect((await me(token)).body.principal).toMatchObject({ id: member.user_id, name: 'Bob' });
    expect((await scene.call('GET', path)).body.data).toHaveLength(3);
    expect((await scene.call('DELETE', `${path}/${member.user_id}`)).status).toBe(204);
    expect((await me(token)).status).toBe(403);
    const owner = (await scene.call('GET', path)).body.data.at(-1);
    expect(owner.role).toBe('owner');
    expect((await scene.call('DELETE', `${path}/${owner.user_id}`)).body.error.code).toBe('invalid_state');
  });

  test('forged, unsigned, foreign, misdirected and expired ones are refused', async () => {
    const token = await issuer.token('projects:read');
    const [head, payload, signature] = token.split('.') as [string, string, string];
    const text = (part: string) => Buffer.from(part, 'base64url').toString('utf8');
    const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
    const claims = JSON.parse(text(payload)) as Record<string, unknown>;
    const { privateKey } = await generateKeyPair('ES256');
    const forge = (change: object, header: object = {}) =>
      new SignJWT({ ...claims, ...change })
        .setProtectedHeader({ alg: 'ES256', kid: 'test', ...header })
        .sign(privateKey);
    const reasons = async (wrong: string) => refusal(await me(wrong)).reason;
    expect(await reasons(`${head}.${encode({ ...claims, sub: 'bob' })}.${signature}`)).toBe('invalid_token');
    expect(await reasons(await forge({}))).toBe('invalid_token');
    expect(await reasons(await forge({}, { kid: 'other' }))).toBe('invalid_token');
    expect(await reasons(await forge({ iss: 'http://127.0.0.1:1' }))).toBe('unknown');
    expect(await reasons(`${encode({ alg: 'none' })}.${payload}.AA`)).toBe('invalid_token');
    // The public key, taken for the secret of a symmetric signature.
    const symmetric = new SignJWT(claims).setProtectedHeader({ alg: 'HS256', kid: 'test' });
    expect(await reasons(await symmetric.sign(Buffer.alloc(32, 1)))).toBe('invalid_token');
    expect(await reasons('a.b.c')).toBe('malformed');

    const other = await openApp({
      config: { oauth: { issuers: [{ issuer: issuer.url, audience: 'http://other/' }] } },
    });
    expect(refusal(await other.call('GET', '/v1/me', undefined, bearer(token))).reason).toBe('invalid_token');
    await other.close();
    const clock = createTestClock();
    clock.advance(3_600_000 * 24 * 365 * 5);
    const late = await openApp({ clock, config: { oauth: { issuers: [{ issuer: issuer.url, audience }] } } });
    expect(refusal(await late.call('GET', '/v1/me', undefined, bearer(token))).reason).toBe('expired');
    await late.close();
  });

  test('while the issuer cannot be reached that is said, and is no refusal for ever', async () => {
    const second = await openIssuer(audience, scopes);
    const open = await openApp({ config: { oauth: { issuers: [{ issuer: second.url, audience }] } } });
    const token = await second.token('projects:read');
    second.close();
    const answer = await open.call('GET', '/v1/me', undefined, bearer(token));
    expect(answer).toMatchObject({ status: 503, body: { error: { code: 'unavailable', retryable: true } } });
    expect(answer.headers['retry-after']).toBe('5');
    await open.close();
  });
});

describe('limits', () => {
  test('a credential has so many requests a minute, is told what is left, and the others do not feel it', async () => {
    const clock = createTestClock();
    const scene = await openApp({ clock, config: { limits: { requests_per_minute: 3 } } });
    const make = async (name: string) =>
      (await scene.call('POST', '/v1/api-keys', { name, scopes: ['projects:read'] })).body.key as string;
    const [key, other] = [await make('a'), await make('b')];
    const ask = (token: string) => scene.call('GET', '/v1/projects', undefined, bearer(token));
    const seen = [await ask(key), await ask(key), await ask(key), await ask(key)];
    expect(seen.map(({ status }) => status)).toEqual([200, 200, 200, 429]);
    expect(seen.map(({ headers }) => headers.ratelimit)).toEqual([
      '"minute";r=2;t=20',
      '"minute";r=1;t=40',
      '"minute";r=0;t=60',
      '"minute";r=0;t=60',
    ]);
    expect(seen[0]!.headers['ratelimit-policy']).toBe('"minute";q=3;w=60');
    expect(seen[3]).toMatchObject({ body: { error: { code: 'rate_limited', retryable: true } } });
    expect(seen[3]!.headers['retry-after']).toBe('20');
    expect((await ask(other)).status).toBe(200);
    expect((await scene.call('GET', '/v1/projects')).headers.ratelimit).toBeUndefined();
    clock.advance(20_000);
    expect([(await ask(key)).status, (await ask(key)).status]).toEqual([200, 429]);
    await scene.close();
  });

  test('two hundred requests with one key at once: one effect, one body', async () => {
    const scene = await openApp();
    const body = { name: 'race', scopes: ['runs:read'] };
    const answers = await Promise.all(
      Array.from({ length: 200 }, () => scene.call('POST', '/v1/api-keys', body, { 'idempotency-key': 'race' })),
    );
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
    expect(answers.filter(({ headers }) => headers['idempotent-replayed'] === undefined)).toHaveLength(1);
    expect((await scene.call('GET', '/v1/api-keys')).body.data).toHaveLength(1);
    await scene.close();
  });
});
