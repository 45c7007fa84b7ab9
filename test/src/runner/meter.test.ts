import { expect, test } from 'vitest';
import { type Clock, systemClock } from '../../../src/base/clock.ts';
import { Meter, type MeterOptions } from '../../../src/runner/meter.ts';

function setup(limits: Partial<MeterOptions['limits']>) {
  let now = 0;
  const timers = new Set<{ at: number; fn: () => void }>();
  const clock: Clock = {
    ...systemClock,
    monotonic: () => now,
    timer(ms, fn) {
      const timer = { at: now + ms, fn };
      timers.add(timer);
      return () => timers.delete(timer);
    },
  };
  const said: unknown[] = [];
  const meter = new Meter({
    clock,
    limits: { timeout_seconds: null, max_cost_micro_usd: null, max_turns: null, ...limits },
    report: (usage, percent) => said.push({ report: usage.cost_micro_usd, percent }),
    warn: (limit, percent) => said.push({ warn: limit, percent }),
    exceeded: (limit) => said.push({ exceeded: limit }),
  });
  const turn = (ms: number): void => {
    for (const end = now + ms; now < end;) {
      now += 1;
      for (const timer of timers) if (timer.at <= now && timers.delete(timer)) timer.fn();
    }
  };
  return { meter, said, turn };
}

test('time: a warning at 80 %, the end at 100 %, once each', () => {
  const { meter, said, turn } = setup({ timeout_seconds: 10 });
  meter.start();
  turn(7999);
  expect(said).toEqual([]);
  turn(1);
  expect(said).toEqual([{ warn: 'time', percent: 80 }]);
  turn(2000);
  expect(said).toEqual([{ warn: 'time', percent: 80 }, { exceeded: 'time' }]);
  turn(20_000);
  expect(said).toHaveLength(2);
});

test('time stands still while somebody is asked', () => {
  const { meter, said, turn } = setup({ timeout_seconds: 10 });
  meter.start();
  turn(5000);
  meter.pause();
  turn(100_000);
  expect(meter.usage.duration_ms).toBe(5000);
  meter.start();
  turn(4999);
  expect(said).toEqual([{ warn: 'time', percent: 80 }]);
  turn(1);
  expect(said).toContainEqual({ exceeded: 'time' });
});

test('cost: a warning once, the end when more than the limit was spent', () => {
  const { meter, said } = setup({ max_cost_micro_usd: '1000' });
  meter.set({ cost_micro_usd: '799' });
  expect(said).toEqual([]);
  meter.set({ cost_micro_usd: '800' });
  meter.set({ cost_micro_usd: '1000' });
  expect(said).toEqual([{ warn: 'cost', percent: 80 }]);
  meter.set({ cost_micro_usd: '1001' });
  expect(said).toEqual([{ warn: 'cost', percent: 80 }, { exceeded: 'cost' }]);
});

test('an unknown cost is neither nothing nor too much', () => {
  const { meter, said } = setup({ max_cost_micro_usd: '0' });
  meter.set({ input_tokens: 5 });
  expect(said).toEqual([]);
  expect(meter.usage).toMatchObject({ cost_micro_usd: null, cost_source: 'unknown', input_tokens: 5 });
});

test('figures are told about once a second', () => {
  const { meter, said, turn } = setup({ max_cost_micro_usd: '1000000' });
  for (let n = 1; n <= 50; n++) {
    meter.set({ cost_micro_usd: String(n) });
    turn(100);
  }
  expect(said.length).toBeGreaterThanOrEqual(4);
  expect(said.length).toBeLessThanOrEqual(5);
  meter.stop();
  turn(5000);
  expect(said.length).toBeLessThanOrEqual(5);
});
