import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { systemClock } from '../../../src/base/clock.ts';
import { endRun, findRun, tracesIn } from '../../../src/runner/ending.ts';
import { Place, until } from '../../kit/runner.ts';

test('a script runs: events in order, result, usage, changes', async () => {
  await using place = new Place();
  writeFileSync(join(place.workspace, 'old.txt'), 'old');
  const runner = place.start(place.spec('\necho out; echo err >&2; echo new > new.txt; rm old.txt; cat'));
  const final = await runner.final();
  expect(final).toMatchObject({
    status: 'completed',
    stop_reason: 'end_turn',
    error: null,
    text: 'out\n',
    changes: [
      { path: 'new.txt', change: 'added' },
      { path: 'old.txt', change: 'deleted' },
    ],
    usage: { tool_calls: 1, cost_micro_usd: '0', cost_source: 'reported', input_tokens: 0 },
  });
  expect(runner.records().map(({ record }) => record)).toEqual(['started', 'changed', 'usage', 'final']);
  const drafts = runner.drafts();
  expect(drafts[0]).toMatchObject({
    type: 'tool.started',
    source: 'harness',
    data: { tool_call_id: 'shell', name: 'shell', category: 'execute', locations: [], connection_id: null },
  });
  expect(runner.events('tool.started')[0]?.title).toMatch(/^echo out/);
  const outputs = runner.events('tool.output');
  expect(outputs.find(({ stream }) => stream === 'stdout')?.text).toBe('out\n');
  expect(outputs.find(({ stream }) => stream === 'stderr')?.text).toBe('err\n');
  expect(drafts.at(-1)).toMatchObject({ type: 'tool.completed', data: { status: 'completed', exit_code: 0 } });
  expect(statSync(join(place.folder, 'spool')).mode & 0o777).toBe(0o600);
  expect(runner.identity()).toMatchObject({ run_id: runner.spec.run_id, pid: runner.child.pid });
});

test('a script with a first line of its own is executed by that', async () => {
  await using place = new Place();
  const runner = place.start(
    place.spec(`#!${process.execPath}\nconsole.log(process.argv.length, process.env.AGENTCTL_RUN_ID)`),
  );
  const final = await runner.final();
  expect(final.text).toBe(`2 ${runner.spec.run_id}\n`);
});

test('the environment is what was given, and the stamp', async () => {
  await using place = new Place();
  const runner = place.start(place.spec('env', { env: { A: '1', PATH: '/usr/bin:/bin' } }));
  const names = (await runner.final()).text?.split('\n').map((line) => line.split('=')[0]);
  expect(names?.filter((name) => name && !['PWD', 'OLDPWD', '_', 'SHLVL'].includes(name)).toSorted()).toEqual([
    'A',
    'AGENTCTL_ARTIFACTS',
    'AGENTCTL_RUN_ID',
    'AGENTCTL_WORKSPACE',
    'PATH',
  ]);
});

test('an exit code fails the run and is told', async () => {
  await using place = new Place();
  const runner = place.start(place.spec('echo why >&2; exit 3'));
  expect(await runner.final()).toMatchObject({
    status: 'failed',
    stop_reason: 'harness_failed',
    error: { code: 'harness_failed', details: { exit_code: 3, signal: null, stderr_tail: 'why\n' } },
  });
  expect(runner.events('tool.completed')[0]).toMatchObject({ status: 'failed', exit_code: 3 });
});

test('a signal fails the run and is told', async () => {
  await using place = new Place();
  const runner = place.start(place.spec('kill -SEGV $$'));
  expect(await runner.final()).toMatchObject({
    status: 'failed',
    error: { details: { exit_code: null, signal: 'SIGSEGV' } },
  });
});

test('a script that cannot be started fails the run', async () => {
  await using place = new Place();
  const runner = place.start(place.spec('#!/there/is/no/such/program'));
  expect(await runner.final()).toMatchObject({ status: 'failed', error: { code: 'harness_failed' } });
});

test('a workspace that is gone fails the run', async () => {
  await using place = new Place();
  const runner = place.start(place.spec('true', { workspace: { path: join(place.root, 'gone'), revision: 1 } }));
  expect(await runner.final()).toMatchObject({ status: 'failed', error: { code: 'workspace_failed' } });
});

test('the time limit warns at 80 % and ends the run', async () => {
  await using place = new Place();
  const limits = { timeout_seconds: 1, max_cost_micro_usd: null, max_turns: null };
  const runner = place.start(place.spec('sleep 60', { limits }));
  const final = await runner.final();
  expect(final).toMatchObject({ status: 'failed', stop_reason: 'time_limit', error: { code: 'time_limit_exceeded' } });
  expect(final.usage.duration_ms).toBeGreaterThanOrEqual(1000);
  expect(final.usage.duration_ms).toBeLessThan(3000);
  expect(runner.events('limit.warning')).toEqual([{ limit: 'time', percent: 80 }]);
});

test('a cancel ends the script, and may come twice', async () => {
  await using place = new Place();
  const runner = place.start(place.spec('echo begun; sleep 60'));
  await until(() => runner.events('tool.output').length > 0, 'output');
  await runner.say({ command: 'ping' });
  await until(() => runner.heard().includes('{"pong":true}'), 'pong');
  await runner.say({ command: 'cancel' });
  await runner.say({ command: 'cancel' });
  expect(await runner.final()).toMatchObject({
    status: 'cancelled',
    stop_reason: 'cancelled',
    error: null,
    text: 'begun\n',
  });
  expect(runner.heard()).toMatch(/\{"wake":\d+\}/);
});

test('SIGTERM cancels, SIGHUP and SIGINT do nothing', async () => {
  await using place = new Place();
  const runner = place.start(place.spec('echo begun; sleep 60'));
  await until(() => runner.events('tool.output').length > 0, 'output');
  runner.child.kill('SIGHUP');
  runner.child.kill('SIGINT');
  await runner.say({ command: 'ping' });
  await until(() => runner.heard().includes('pong'), 'pong');
  runner.child.kill('SIGTERM');
  expect(await runner.final()).toMatchObject({ status: 'cancelled' });
});

test('a wrong nonce is not obeyed', async () => {
  await using place = new Place();
  const runner = place.start(place.spec('sleep 0.3; echo through'));
  const socket = await runner.connect();
  const closed = new Promise((resolve) => socket.once('close', resolve));
  socket.write('{"nonce":"another","command":"cancel"}\n');
  socket.resume();
  await closed;
  expect(await runner.final()).toMatchObject({ status: 'completed', text: 'through\n' });
});

test('the socket works where the folder’s path is long', async () => {
  await using place = new Place(`${'long'.repeat(30)}/${'longer'.repeat(20)}`);
  const runner = place.start(place.spec('sleep 60'));
  await runner.seen('started');
  await runner.say({ command: 'cancel' });
  expect(await runner.final()).toMatchObject({ status: 'cancelled' });
});

test('background children do not hold a run up, and do not outlive it', async () => {
  await using place = new Place();
  const runner = place.start(place.spec('sleep 300 & setsid sleep 300 & echo done'));
  expect(await runner.final()).toMatchObject({ status: 'completed', text: 'done\n' });
  expect(findRun(tracesIn(place.folder, runner.spec.run_id))).toEqual([]);
});

test('bytes that are no UTF-8, and no newline', async () => {
  await using place = new Place();
  const runner = place.start(
    place.spec(`printf 'a\\377b\\303'; printf '\\251'; printf '\\360\\237\\230\\200'; printf '\\360\\237'`),
  );
  const final = await runner.final();
  expect(final.text).toBe('a\uFFFDbé😀\uFFFD');
  const output = runner.events('tool.output').map(({ text }) => text);
  expect(output.join('')).toBe('a\uFFFDbé😀\uFFFD');
});

test('64 MiB without a newline: bounded events, bounded memory, the whole in a file', async () => {
  await using place = new Place();
  const size = 64 * 1_048_576;
  const runner = place.start(place.spec(`head -c ${size} /dev/zero | tr '\\0' x; echo; sleep 0.5`));
  await runner.seen('started');
  let peak = 0;
  const rss = (): number =>
    Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${runner.child.pid}/status`, 'utf8'))?.[1] ?? 0) / 1024;
  const timer = setInterval(() => {
    try {
      peak = Math.max(peak, rss());
    } catch {
      // It has ended.
    }
  }, 50);
  const final = await runner.final(60_000);
  clearInterval(timer);
  console.log(`64 MiB of output: peak RSS of the runner ${peak.toFixed(0)} MiB`);
  expect(final.text).toHaveLength(1_048_576);
  const outputs = runner.events('tool.output');
  expect(outputs.every(({ text }) => text.length <= 65_536)).toBe(true);
  expect(outputs.reduce((sum, { text }) => sum + text.length, 0)).toBe(1_048_576);
  expect(outputs.map(({ truncated }) => truncated)).toEqual([...outputs.slice(1).map(() => false), true]);
  expect(statSync(join(place.folder, 'output', 'shell')).size).toBe(size + 1);
  expect(peak).toBeLessThan(160);
});

test('too much output fails the run', async () => {
  await using place = new Place();
  const runner = place.start(place.spec('yes', { max_output_bytes: 3_000_000 }));
  expect(await runner.final()).toMatchObject({
    status: 'failed',
    error: { code: 'harness_failed', details: { reason: 'output_limit' } },
  });
});

test('short output leaves no file', async () => {
  await using place = new Place();
  await place.start(place.spec('echo x')).final();
  expect(existsSync(join(place.folder, 'output'))).toBe(false);
});

test('without a spec it goes away', async () => {
  const { warmRunner } = await import('../../kit/runner.ts');
  const child = warmRunner();
  child.stdin?.end();
  expect(await new Promise((resolve) => child.once('exit', resolve))).toBe(0);
});

test('a killed runner leaves processes that are found by what is known', async () => {
  await using place = new Place();
  const script = `trap '' TERM; setsid sh -c "trap '' TERM; sleep 300" & (setsid sleep 300 &) ; sleep 300 & echo up; wait; sleep 300`;
  const runner = place.start(place.spec(script));
  await until(() => runner.events('tool.output').length > 0, 'output');
  runner.child.kill('SIGKILL');
  await runner.exited;
  const traces = tracesIn(place.folder, runner.spec.run_id);
  expect(findRun(traces).length).toBeGreaterThanOrEqual(4);
  // By the stamp alone, too.
  expect(findRun({ ...traces, harness: null, pipes: [] }).length).toBeGreaterThanOrEqual(4);
  const ending = await endRun(traces, 100, systemClock);
  expect(ending.left).toEqual([]);
  expect(ending.killed).toBeGreaterThan(0);
  expect(findRun(traces)).toEqual([]);
});
