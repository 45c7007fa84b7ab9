import { join } from 'node:path';
import { Daemon } from './daemon.ts';
import { type Line, line, median, now } from './measure.ts';
import { type Bench, Place } from './place.ts';

/** P8: how long a command of the CLI takes, from its start to its end. */
export default async function cli(bench: Bench): Promise<Line[]> {
  await using place = new Place();
  const root = place.at('home');
  const daemon = await Daemon.start(bench, place, root);
  const { id: project_id } = await daemon.json<{ id: string }>('POST', '/v1/projects', { name: 'bench' });
  const { id } = await daemon.json<{ id: string }>('POST', '/v1/runs', {
    project_id,
    harness: 'shell',
    prompt: 'true',
  });
  await daemon.ended(id);

  const took = async (args: string[]): Promise<number> => {
    const began = now();
    const child = place.node({
      args,
      env: { AGENTCTL_HOME: root, NO_COLOR: '1' },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const code = await child.ended();
    const ms = now() - began;
    if (code !== 0) throw new Error(`${args.join(' ')} ended with ${String(code)}.`);
    return ms;
  };
  const program = join(bench.package, 'bin/agentctl.js');
  const commands = [
    [join(import.meta.dirname, 'floors/empty.js')],
    [program, '--version'],
    [program, 'ps'],
    [program, '--help'],
  ];
  const times = commands.map((): number[] => []);
  // The first round fills the compile cache.
  for (let round = -1; round < (bench.quick ? 9 : 25); round++)
    for (const [index, command] of commands.entries()) {
      const ms = await took(command);
      if (round >= 0) times[index]!.push(ms);
    }
  await daemon.stop();
  const [empty = [], version = [], ps = [], help = []] = times;
  const floor = median(empty);
  return [
    line({
      id: 'P8',
      what: 'agentctl --version | empty node',
      unit: 'ms',
      product: version,
      floor,
      goals: [{ of: 'ratio', most: 2 }],
    }),
    line({
      id: 'P8',
      what: 'agentctl ps against a live daemon | empty node',
      unit: 'ms',
      product: ps,
      floor,
      goals: [{ of: 'ratio', most: 3.5 }],
    }),
    line({ id: 'P8', what: 'agentctl --help | empty node', unit: 'ms', product: help, floor }),
  ];
}
