// Loaded into a measured process with --import (plain JavaScript: stripping types would cost memory). It answers over the
// channel to its parent, leaves the signals alone, and does not keep the process alive.
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

const resolution = 1;
const delay = monitorEventLoopDelay({ resolution });

process.on('message', (question) => {
  if (question?.probe === 'begin') {
    delay.reset();
    delay.enable();
    process.send({});
  } else if (question?.probe === 'end') {
    delay.disable();
    const ms = (value) => Math.max(0, value / 1e6 - resolution);
    process.send({
      p50: ms(delay.percentile(50)),
      p99: ms(delay.percentile(99)),
      p999: ms(delay.percentile(99.9)),
      most: ms(delay.max),
    });
  } else if (question?.probe === 'collect') {
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc');
    collect();
    collect();
    process.send(process.memoryUsage());
  }
});
process.channel?.unref();
