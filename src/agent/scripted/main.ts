import { systemClock } from '../../base/clock.ts';
import { version } from '../../base/root.ts';
import { Peer } from '../peer.ts';
import { createScripted } from './serve.ts';

/** The program of the harness `scripted`: ACP on standard input and output, until the input ends. */
const peer = new Peer(process.stdout);
const agent = createScripted({
  peer,
  clock: systemClock,
  home: process.env.AGENTCTL_AGENT_HOME ?? '/nonexistent',
  version,
  log: (line) => process.stderr.write(`${line}\n`),
  crash: (code) => process.exit(code),
});
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => process.exit(0));
// The clock's timers do not keep a process alive; its input does.
await peer.listen(process.stdin, agent.handle, agent.noticed);
process.exit(0);
