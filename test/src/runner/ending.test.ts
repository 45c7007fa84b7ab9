import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { systemClock } from '../../../src/base/clock.ts';
import { endRun, findRun, tracesIn, tracesOf } from '../../../src/runner/ending.ts';
import { identityOf, isAlive, parsePs, parseStat, processTable, signal } from '../../../src/runner/processes.ts';
import { Place, until, warmRunner } from '../../kit/runner.ts';

/** Ways to get away. Each leaves at least one process behind that nobody waits for. */
const escapes: Record<string, string> = {
  'a background child': 'sleep 300 &',
  'a session of its own': 'setsid sleep 300 &',
  'a double fork': '(setsid sh -c "sleep 300 & sleep 300 &" &)',
  'no environment': 'env -i setsid sleep 300 &',
  'no environment, other streams': 'env -i setsid sleep 300 </dev/null >/dev/null 2>&1 &',
  'deaf to SIGTERM': `sh -c 'trap "" TERM; while :; do sleep 1; done' &`,
  'deaf, in a session of its own, without environment': `env -i setsid sh -c 'trap "" TERM; while :; do sleep 1; done' &`,
  'no environment, forked twice': `env -i setsid sh -c 'sleep 300 & sleep 300' &`,
  stopped: 'sh -c "kill -STOP \\$\\$; sleep 300" &',
  'forking on and on': `sh -c 'while :; do sleep 0.05 & wait; done' &`,
};

const commandOf = (pid: number): string => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1');
  } catch {
    return '';
  }
};

test.each(Object.keys(escapes))('after a cancel nothing is left of: %s', async (name) => {
  await using place = new Place();
  const runner = place.start(place.spec(`${escapes[name]}\necho up; wait; sleep 300`, { grace_seconds: 0 }));
  await until(() => runner.events('tool.output').length > 0, 'output');
  const traces = tracesIn(place.folder, runner.spec.run_id);
  const before = findRun(traces);
  expect(before.length).toBeGreaterThanOrEqual(2);
  await runner.say({ command: 'cancel' });
  expect(await runner.final()).toMatchObject({ status: 'cancelled' });
  expect(before.filter(isAlive)).toEqual([]);
  expect(findRun(traces)).toEqual([]);
});

test('fifty mixed rounds leave nobody', { timeout: 120_000 }, async () => {
  const names = Object.keys(escapes);
  // Seconds that nobody else sleeps: a look of its own, without the code under test.
  const mark = `300.${process.pid}`;
  let survivors = 0;
  let seen = 0;
  const round = async (n: number): Promise<void> => {
    await using place = new Place();
    const script = [n, n * 3 + 1, n * 7 + 2]
      .map((one) => escapes[names[one % names.length] ?? ''] ?? '')
      .join('\n')
      .replaceAll('sleep 300', `sleep ${mark}`);
    // A third ends well, a third is cancelled, a third has its runner killed.
    const how = n % 3;
    const end = how === 0 ? 'echo up; sleep 0.1' : 'echo up; sleep 300';
    const runner = place.start(place.spec(`${script}\n${end}`, { grace_seconds: 0 }));
    await until(() => runner.events('tool.output').length > 0, `output in round ${n}`);
    const traces = tracesIn(place.folder, runner.spec.run_id);
    const before = findRun(traces);
    seen += before.length;
    if (how === 1) await runner.say({ command: 'cancel' });
    if (how === 2) {
      runner.child.kill('SIGKILL');
      await runner.exited;
      await endRun(traces, 0, systemClock);
    } else await runner.final();
    survivors += new Set([...before.filter(isAlive), ...findRun(traces)]).size;
  };
  const sleepers = (): number => [...processTable().keys()].filter((pid) => commandOf(pid).includes(mark)).length;
  for (let n = 0; n < 50; n += 5) await Promise.all([0, 1, 2, 3, 4].map((more) => round(n + more)));
  console.log(`50 rounds: ${seen} processes seen, ${survivors} left`);
  expect(seen).toBeGreaterThan(200);
  expect(survivors).toBe(0);
  expect(sleepers()).toBe(0);
});

test('a run that ends well lets its leftovers go in peace', async () => {
  await using place = new Place();
  const tidy = `sh -c 'trap "sleep 0.2; echo tidy > tidy; exit" TERM; echo ready; while :; do sleep 0.05; done' &`;
  const runner = place.start(place.spec(`${tidy}\nsleep 0.2`));
  expect(await runner.final()).toMatchObject({ status: 'completed', changes: [{ path: 'tidy', change: 'added' }] });
});

test('a stranger is never signalled', async () => {
  const child = spawn('sleep', ['300'], { detached: true, stdio: 'ignore' });
  const pid = child.pid ?? 0;
  try {
    const identity = identityOf(pid);
    if (!identity) throw new Error('There is no such process.');
    expect(isAlive(identity)).toBe(true);
    // The same number, another life.
    const before = { ...identity, started: String(Number(identity.started) - 1) };
    expect(isAlive(before)).toBe(false);
    expect(signal(before, 'SIGKILL')).toBe(false);
    expect(findRun({ run_id: 'none', harness: before, pipes: [], seen: [before] })).toEqual([]);
    // The same number, on another boot.
    const boot = { ...identity, boot_id: 'another' };
    expect(isAlive(boot)).toBe(false);
    expect(await endRun({ run_id: 'none', harness: boot, pipes: [], seen: [boot] }, 0, systemClock)).toMatchObject({
      killed: 0,
    });
    expect(isAlive(identity)).toBe(true);
    expect(findRun(tracesOf('none', pid)).map((one) => one.pid)).toEqual([pid]);
  } finally {
    child.kill('SIGKILL');
  }
});

test('neither this process nor those above it are ever part of a run', () => {
  const traces = { run_id: 'none', harness: null, pipes: [], seen: [] };
  for (let pid = process.ppid; pid > 0; pid = processTable().get(pid)?.parent ?? 0) {
    const seen = [identityOf(pid)].filter((one) => one !== null);
    expect(findRun({ ...traces, seen }).map((one) => one.pid)).not.toContain(pid);
  }
  const own = identityOf(process.pid);
  expect(own && findRun({ ...traces, seen: [own] }).map((one) => one.pid)).not.toContain(process.pid);
});

test('a waiting runner is found by nobody’s stamp', async () => {
  const child = warmRunner();
  await until(() => processTable().has(child.pid ?? 0), 'process');
  expect(findRun({ run_id: 'none', harness: null, pipes: [], seen: [] })).toEqual([]);
  child.stdin?.end();
  await new Promise((resolve) => child.once('exit', resolve));
});

test('the process table is read right, whatever a process calls itself', () => {
  const rest = '1 10 11 0 -1 4194560 100 0 0 0 0 0 0 0 20 0 1 0 987654 1 1';
  expect(parseStat(`42 (a) S) (b ) R ${rest}\n`)).toEqual({
    pid: 42,
    state: 'R',
    parent: 1,
    group: 10,
    session: 11,
    started: '987654',
  });
  expect(parseStat('42 (x')).toBeNull();
  expect(parseStat('')).toBeNull();
  expect(parsePs('  42     1    42      0 Ss   Sat Nov 21 09:00:00 2026    \nnonsense\n')).toEqual([
    { pid: 42, parent: 1, group: 42, session: 42, state: 'S', started: 'Sat Nov 21 09:00:00 2026' },
  ]);
  expect(processTable().get(process.pid)).toMatchObject({ parent: process.ppid });
  expect(identityOf(2 ** 30)).toBeNull();
});
