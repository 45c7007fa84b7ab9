import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { findBubblewrap } from '../../src/runner/sandbox/sandbox.ts';
import { type Answer, openApp, type TestApp } from '../kit/app.ts';
import { type Issuer, openIssuer } from '../kit/issuer.ts';
import { noSandbox } from '../kit/sandbox.ts';
import { counts, createProject, ended, missingRun, untilRun, withMissingHarness } from './scene.ts';

const scopes = ['projects:read', 'runs:read', 'runs:write'];
const audience = 'http://127.0.0.1/';

const callers = ['session', 'key', 'token'] as const;
type Caller = (typeof callers)[number];

const script = { harness: 'shell', prompt: 'true', checkpoint: { before: false, after: false } };
const agent = { harness: 'missing', prompt: 'x', checkpoint: { before: false, after: false } };
const wishes = {
  'a script': script,
  'a script that asks for none': { ...script, sandbox: 'none' },
  'a script that must have one': { ...script, sandbox: 'required' },
  'an agent': agent,
  'an agent that asks for none': { ...agent, sandbox: 'none' },
  'an agent that must have one': { ...agent, sandbox: 'required' },
} as const;

/** What comes of each wish, in their order. */
type Verdicts = Record<Caller, readonly (202 | 'sandbox_unavailable' | 'owner_only')[]>;
const never = ['sandbox_unavailable', 'sandbox_unavailable', 'sandbox_unavailable'] as const;
const onlyInside = [202, 'owner_only', 202] as const;

const machines: { name: string; there: boolean; unavailable: 'refuse' | 'allow'; verdicts: Verdicts }[] = [
  {
    name: 'where there is no sandbox',
    there: false,
    unavailable: 'refuse',
    verdicts: {
      session: [202, 202, 'sandbox_unavailable', 'sandbox_unavailable', 202, 'sandbox_unavailable'],
      key: [...never, ...never],
      token: [...never, ...never],
    },
  },
  {
    name: 'where there is none, and the user has agreed to go without',
    there: false,
    unavailable: 'allow',
    verdicts: {
      session: [202, 202, 'sandbox_unavailable', 202, 202, 'sandbox_unavailable'],
      key: [...never, ...never],
      token: [...never, ...never],
    },
  },
  {
    name: 'where there is one',
    there: true,
    unavailable: 'allow',
    verdicts: {
      session: [202, 202, 202, 202, 202, 202],
      key: [...onlyInside, ...onlyInside],
      token: [...onlyInside, ...onlyInside],
    },
  },
];

describe.each(machines)('$name', ({ there, unavailable, verdicts }) => {
  let scene: TestApp;
  let issuer: Issuer;
  const credentials: Record<Caller, Record<string, string>> = { session: {}, key: {}, token: {} };
  const post = (caller: Caller, path: string, body: object): Promise<Answer> =>
    scene.call('POST', path, body, credentials[caller]);

  beforeAll(async () => {
    issuer = await openIssuer(audience, scopes);
    scene = await openApp({
      config: {
        ...withMissingHarness,
        sandbox: { unavailable },
        oauth: { issuers: [{ issuer: issuer.url, audience }] },
      },
      ...(there ? { bubblewrap: () => findBubblewrap(process.env.PATH ?? '') } : {}),
    });
    const { body: me } = await scene.call('GET', '/v1/me');
    const member = { issuer: issuer.url, subject: 'alice' };
    await scene.call('POST', `/v1/organizations/${me.organization.id}/members`, member);
    const { body: key } = await scene.call('POST', '/v1/api-keys', { name: 'narrow', scopes });
    credentials.key = { authorization: `Bearer ${key.key}` };
    credentials.token = { authorization: `Bearer ${await issuer.token(scopes.join(' '), 'alice')}` };
  });
  afterAll(async () => {
    await scene.close();
    issuer.close();
  });

  test.for(callers)('what a run may do that a %s asks for', async (caller, { skip }) => {
    if (there && noSandbox) skip('There is no sandbox here.');
    const { id: project_id } = await createProject(scene);
    const made = () => ['runs', 'sessions', 'workspaces'].map((table) => counts(scene.app)[table]);
    const came: unknown[] = [];
    const traces: { now: unknown; expected: unknown }[] = [];
    const remedies: string[] = [];
    for (const wish of Object.values(wishes)) {
      const before = made();
      const { status, body } = await post(caller, '/v1/runs', { ...wish, project_id });
      came.push(status === 202 ? 202 : body.error.code);
      if (status === 202) continue;
      const expected = [body.error.code === 'owner_only' ? 403 : 409, ...before];
      traces.push({ now: [status, ...made()], expected });
      remedies.push(body.error.details.remedy ?? '');
    }
    expect(came).toEqual(verdicts[caller]);
    expect(traces.map(({ now }) => now)).toEqual(traces.map(({ expected }) => expected));
    const help = there ? /^$/ : caller === 'session' ? /Install bubblewrap/ : /Install bubblewrap.*local session/;
    expect(remedies.filter((remedy) => !help.test(remedy))).toEqual([]);
    await scene.app.settle();
  });

  test('what others say to a conversation of the user does not get out by his word', async ({ skip }) => {
    if (there && noSandbox) skip('There is no sandbox here.');
    const { id: project_id } = await createProject(scene);
    const { body: first } = await post('session', '/v1/runs', { ...missingRun, project_id });
    await untilRun(scene, first.run_id, ended);
    const path = `/v1/sessions/${first.session_id}/messages`;
    const { body: own } = await post('session', path, { prompt: 'go on' });
    expect((await scene.call('GET', `/v1/runs/${own.run_id}`)).body.sandbox).toBe('none');
    const others = await Promise.all(
      (['key', 'token'] as const).map((caller) => post(caller, path, { prompt: 'go on' })),
    );
    const came = others.map(async ({ body }) =>
      'error' in body ? body.error.code : (await scene.call('GET', `/v1/runs/${body.run_id}`)).body.sandbox,
    );
    const expected = there ? 'auto' : 'sandbox_unavailable';
    expect(await Promise.all(came)).toEqual([expected, expected]);
    await scene.app.settle();
  });
});
