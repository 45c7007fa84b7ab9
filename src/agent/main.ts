import { systemClock } from '../base/clock.ts';
import { version } from '../base/root.ts';
import { Peer } from './peer.ts';
import { createAgent } from './serve.ts';

/** The program of our own agent: ACP on standard input and output, until the input ends. */
const peer = new Peer(process.stdout);
const agent = createAgent({ peer, clock: systemClock, env: process.env, version });
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => process.exit(0));
process.on('SIGTERM', () => {
  agent.close();
  process.exit(0);
});
await peer.listen(process.stdin, agent.handle, agent.noticed);
agent.close();
process.exit(0);
