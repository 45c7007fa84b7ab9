import { createApp } from '../src/app.ts';
import { systemClock } from '../src/base/clock.ts';
import { checkConfig } from '../src/base/config.ts';
import { silent } from '../src/base/log.ts';
import { homeIn } from './daemon.ts';
import { now } from './measure.ts';

/**
 * The measured process of P1: the real app on a home whose runs are at work. `node ingesting.ts <root> <events per run>
 * <run id> …` answers, once every event is committed, how many milliseconds that took from the first moment on.
 */
const [root = '', count = '0', ...ids] = process.argv.slice(2);
const app = createApp({
  home: homeIn(root),
  config: checkConfig({ runs: { warm_runners: 0 } }),
  clock: systemClock,
  log: silent,
  env: {},
  runner: ['/bin/false'],
});
const organization = app.db.get<{ id: string }>('SELECT id FROM organizations')!.id;
const keys = ids.map((id) => app.runs.find(organization, id).key);
const open = new Set(keys);

const began = now();
for (const key of keys)
  app.events.follow(key, () => {
    const { last } = app.db.get<{ last: number }>('SELECT last_sequence AS last FROM runs WHERE key = ?', [key])!;
    if (last < Number(count)) return;
    open.delete(key);
    if (open.size > 0) return;
    const ms = now() - began;
    process.send!({ ms }, () => process.exit(0));
  });
app.open();
