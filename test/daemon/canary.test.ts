import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { findBubblewrap } from '../../src/runner/sandbox/sandbox.ts';
import { openApp, type TestApp, until } from '../kit/app.ts';
import { type FakeModel, startFakeModel } from '../kit/fake-model.ts';
import { noSandbox } from '../kit/sandbox.ts';
import { scriptedAgent } from '../kit/scripted-agent.ts';
import { createProject, createRun, ended, untilRun } from './scene.ts';

/** A way to write a secret down, and where it may be found: in these files of the daemon and nowhere else. */
interface Secret {
  name: string;
  value: Buffer;
  at: string[];
}

let model: FakeModel;
let scene: TestApp;
let project: string;
let secrets: Secret[];
let search: string;
// By chance: what stands in this file would be found in it, for the agents may read the program's own folder.
const fromProvider = `sk-canary-${randomBytes(8).toString('hex')}`;

/** A pattern that finds a text and not itself. */
const patternOf = (text: string): string => `${text.slice(0, 6)}[${text[6]}]${text.slice(7, 24)}`;

beforeAll(async () => {
  model = await startFakeModel({ scripts: [] });
  scene = await openApp({
    env: { ANTHROPIC_API_KEY: fromProvider, ANTHROPIC_BASE_URL: model.url },
    bubblewrap: () => findBubblewrap(process.env.PATH ?? ''),
    config: {
      harnesses: {
        agent: scriptedAgent({ prompts: [[{ ask: { id: 'one', title: 'May I?', kind: 'execute' } }]] }),
      },
    },
  });
  ({ id: project } = await createProject(scene));
  const { body: key } = await scene.call('POST', '/v1/api-keys', { name: 'canary', scopes: ['runs:write'] });
  const own = join(scene.home.data, 'secrets.key');
  const text = (name: string, value: string, at: string[] = []) => ({ name, value: Buffer.from(value), at });
  secrets = [
    text('the key of the provider', fromProvider),
    text('the session token', scene.token, [scene.home.token]),
    text('the API key', key.key),
    { name: 'what the daemon encrypts with', value: readFileSync(own).subarray(0, 24), at: [own] },
  ];
  const patterns = secrets.slice(0, 3).map(({ value }) => `-e '${patternOf(value.toString())}'`);
  const places = `"$HOME" "$PWD" '${dirname(scene.home.data)}' /tmp /var/tmp /run /etc`;
  search = [
    'printf %s%s what-is- sought > control',
    `grep -rlas -e 'what-is-[s]ought' ${patterns.join(' ')} ${places} | sort -u > found`,
    `cat '${scene.home.token}' '${own}' > stolen 2>/dev/null`,
    `tr '\\0' '\\n' < /proc/$PPID/environ > environment`,
    'echo > ready',
    'until [ -e go ]; do sleep 0.05; done',
  ].join('; ');
  model.setScenario({ scripts: [{ when: 'LOOK', steps: [{ calls: [{ do: 'shell', command: search }] }] }] });
}, 30_000);
afterAll(async () => {
  await scene.close();
  await model.close();
});

/** A process and all that it has started. */
function familyOf(root: number): number[] {
  const all = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  const parents = new Map(
    all.map((pid) => [Number(pid), Number(read(`/proc/${pid}/stat`).toString().split(') ')[1]?.split(' ')[1])]),
  );
  const family = [root];
  for (const member of family) for (const [pid, parent] of parents) if (parent === member) family.push(pid);
  return family;
}

function read(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch {
    return Buffer.alloc(0);
  }
}

const filesIn = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path, { throwIfNoEntry: false })?.isFile());

/** The names of the secrets that are in these bytes, as they are or in base64. */
const within = (bytes: Buffer): string[] =>
  secrets
    .filter(({ value }) => [value, value.toString('base64').replace(/.?=*$/, '')].some((form) => bytes.includes(form)))
    .map(({ name }) => name);

test.skipIf(noSandbox).each([
  { what: 'a script', body: { harness: 'shell', prompt: 'SEARCH' }, looks: true },
  { what: 'our agent', body: { harness: 'builtin', model: 'claude-sonnet-4-5', prompt: 'LOOK' }, looks: true },
  { what: 'another agent', body: { harness: 'agent', prompt: 'x' }, looks: false },
  { what: 'another agent, with no sandbox', body: { harness: 'agent', prompt: 'x', sandbox: 'none' }, looks: false },
])('$what gets no secret of the daemon', { timeout: 60_000 }, async ({ body, looks }) => {
  const prompt = body.prompt === 'SEARCH' ? search : body.prompt;
  const mode = looks ? { permission_mode: 'full' } : { permission_mode: 'ask', on_input: 'ask' };
  const { run_id, workspace_id } = await createRun(scene, { project_id: project, ...mode, ...body, prompt });
  const { body: workspace } = await scene.call('GET', `/v1/workspaces/${workspace_id}`);
  const mine = (name: string) => join(workspace.path, name);
  if (looks) await until('the search', () => read(mine('ready')).length > 0, 40_000);
  else await untilRun(scene, run_id, ['awaiting_input']);

  const { organization_id } = workspace;
  const { runner } = scene.app.runs.find(organization_id, run_id);
  const family = familyOf(runner!.pid);
  const environments = family.map((pid) => read(`/proc/${pid}/environ`));
  // The runner, the walls around the harness if there are some, and the harness: it is seen that these are the right ones.
  expect(environments.filter((one) => one.includes(run_id)).length).toBeGreaterThan(0);
  expect(environments.flatMap(within)).toEqual([]);
  expect(family.flatMap((pid) => within(read(`/proc/${pid}/cmdline`)))).toEqual([]);
  expect(lines(mine('found')).map(nameOf)).toEqual(looks ? ['control'] : []);
  expect(lines(mine('environment')).some((line) => line.startsWith('PATH='))).toBe(looks);
  expect(within(Buffer.concat([read(mine('stolen')), read(mine('environment'))]))).toEqual([]);

  await scene.call('POST', `/v1/runs/${run_id}/cancel`, {});
  await untilRun(scene, run_id, ended);
  for (const path of [`runs/${run_id}`, `runs/${run_id}/events?limit=1000`, `runs/${run_id}/result`])
    expect(within(Buffer.from((await scene.call('GET', `/v1/${path}`)).text))).toEqual([]);
});

const lines = (path: string): string[] => read(path).toString().split('\n').filter(Boolean);
const nameOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1);

test('each secret lies in its own file, if in any', () => {
  writeFileSync(
    join(scene.home.state, 'control'),
    secrets.map(({ value }) => value.toString('latin1')).join(' '),
    'latin1',
  );
  const found = filesIn(dirname(scene.home.data)).map((path) => [path, within(readFileSync(path))] as const);
  const expected = secrets.flatMap(({ name, at }) => at.map((path) => [path, [name]]));
  const control = [join(scene.home.state, 'control'), secrets.map(({ name }) => name)];
  const holders = found.filter(([, names]) => names.length > 0);
  expect(Object.fromEntries(holders)).toEqual(Object.fromEntries([...expected, control]));
});
