import { expect, test } from 'vitest';
import { type Clock, systemClock } from '../../../src/base/clock.ts';
import { Vigil, type VigilSettings } from '../../../src/runner/vigil.ts';

function setup(settings: Partial<VigilSettings>) {
  let now = 0;
  let timers: { at: number; fn: () => void }[] = [];
  const clock: Clock = {
    ...systemClock,
    monotonic: () => now,
    timer(ms, fn) {
      const timer = { at: now + ms, fn };
      timers.push(timer);
      return () => (timers = timers.filter((one) => one !== timer));
    },
  };
  const said: unknown[] = [];
  const vigil = new Vigil({
    clock,
    settings: { stall_seconds: 10, stall_stop: false, repeated_calls: 3, repeated_calls_stop: true, ...settings },
    found: (...found) => said.push(found),
  });
  const turn = (seconds: number): void => {
    for (const end = now + seconds * 1000; now < end; now += 500) {
      const due = timers.filter(({ at }) => at <= now);
      timers = timers.filter(({ at }) => at > now);
      for (const { fn } of due) fn();
    }
  };
  return { vigil, said, turn };
}

test('silence is told once, and again after a sign of life; none of it counts while somebody is asked', () => {
  const { vigil, said, turn } = setup({});
  turn(100);
  vigil.start();
  turn(8);
  vigil.touch();
  turn(8);
  vigil.pause();
  turn(100);
  vigil.start();
  turn(9);
  expect(said).toEqual([]);
  turn(50);
  expect(said).toEqual([[{ kind: 'stalled', seconds: 10 }, false]]);
  vigil.touch();
  turn(50);
  expect(said).toHaveLength(2);
});

test('the same call again and again; another one in between begins anew', () => {
  const { vigil, said } = setup({ stall_seconds: 0 });
  for (const input of ['a', 'a', 'b', 'a', 'a']) vigil.tool('shell', { command: input });
  vigil.tool('read', { command: 'a' });
  expect(said).toEqual([]);
  for (let times = 0; times < 5; times++) vigil.tool('shell', { command: 'a' });
  expect(said).toEqual([[{ kind: 'repeated', tool: 'shell', times: 3 }, true]]);
});
