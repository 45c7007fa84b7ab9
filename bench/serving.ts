import { createServer } from '../daemon/server.ts';
import { listen } from '../daemon/listen.ts';
import { createApp } from '../src/app.ts';
import { systemClock } from '../src/base/clock.ts';
import { checkConfig } from '../src/base/config.ts';
import { silent } from '../src/base/log.ts';
import { homeIn } from './daemon.ts';
import { liveText, serveAppends } from './live.ts';
import { now } from './measure.ts';

/**
 * The measured process of P2: the product's app and HTTP server, with a door for the bench through which events come, so that
 * the moment of their commit is known. `node serving.ts <root> <run id>` answers `{ url }`, then as `live.ts` says.
 */
const [root = '', id = ''] = process.argv.slice(2);
const app = createApp({
  home: homeIn(root),
  config: checkConfig({ runs: { warm_runners: 0 } }),
  clock: systemClock,
  log: silent,
  env: {},
  runner: ['/bin/false'],
});
const organization = app.db.get<{ id: string }>('SELECT id FROM organizations')!.id;
const server = await createServer(app);
const { url } = await listen(server, 0, null);

serveAppends(() => {
  let at = 0;
  const sequence = app.db.write((tx) => {
    tx.after(() => (at = now()));
    const row = app.runs.find(organization, id);
    const entry = app.runs.open(row);
    entry.texts.push(liveText());
    app.runs.close(tx, entry);
    return row.last_sequence + 1;
  });
  return [sequence, at];
});
process.send!({ url });
