import { createReadStream, statSync, watch } from 'node:fs';
import type { Client, Event } from '../../src/api/client.ts';
import type { Context } from '../context.ts';
import { exit, Stop } from '../exit.ts';
import { followRun } from '../follow.ts';
import { idOf } from '../ids.ts';
import { lineOf } from '../lines.ts';
import { clean } from '../text.ts';
import { duration, runLook } from '../words.ts';

/** The options of `agentctl logs`. */
export interface LogOptions {
  follow?: boolean;
  after?: number;
  raw?: boolean;
}

/** `agentctl logs [RUN]`: what a run did, or the daemon's log. */
export async function logs(context: Context, options: LogOptions, text?: string): Promise<number> {
  if (text === undefined) return daemonLog(context, options);
  const client = await context.client();
  const runId = await idOf(client, 'run', text);
  const write = writer(context, options);
  if (!options.follow) {
    await history(client, runId, options.after ?? 0, write);
    return exit.good;
  }
  const { harness } = await client.call('getRun', { path: { run_id: runId } });
  context.out.note(context.out.paint('dim', 'Ctrl-C leaves; the run goes on'));
  await followRun({ context, client, runId, harness, interrupt: 'detach', after: options.after ?? 0 }, write);
  return exit.good;
}

async function history(client: Client, run_id: string, after: number, write: (event: Event) => void): Promise<void> {
  const query = { limit: 1000, after: String(after) };
  for await (const event of client.each('listRunEvents', { path: { run_id }, query })) write(event as unknown as Event);
}

/** Here the log is the result: it goes to standard output. */
function writer({ out }: Context, { raw }: LogOptions): (event: Event) => void {
  const { stdout } = out.streams;
  const safe = (text: string) => (stdout.isTTY ? clean(text) : text);
  return (event) => {
    if (out.isJson) return out.print(JSON.stringify(event));
    if (event.type === 'tool.output') return void stdout.write(safe(event.data.text));
    if (raw) {
      if (event.type === 'log' && event.data.stream !== 'daemon') out.print(safe(event.data.text).trimEnd());
      if (event.type === 'message.completed') out.print(safe(event.data.text));
      return;
    }
    const line = lineOf(event) ?? ending(event);
    if (line)
      out.print(
        out.paint(line.style, `${out.paint('dim', event.created_at.slice(11, 19), 'stdout')} ${line.text}`, 'stdout'),
      );
  };
}

function ending(event: Event): { style: 'green' | 'red' | 'gray'; text: string } | null {
  if (event.type !== 'run.completed' && event.type !== 'run.failed' && event.type !== 'run.cancelled') return null;
  const status = event.type.slice(4) as 'completed' | 'failed' | 'cancelled';
  const { symbol, word, colour } = runLook[status];
  const why = event.data.error ? `: ${clean(event.data.error.message)}` : '';
  return { style: colour as 'green', text: `${symbol} ${word} in ${duration(event.data.usage.duration_ms)}${why}` };
}

/** The last part of the daemon's log file, and what is added to it. */
async function daemonLog({ home, out }: Context, { follow }: LogOptions): Promise<number> {
  const path = newest(home.log);
  const { size } = statSync(path);
  let at = await pipe(path, Math.max(0, size - 64 * 1024), out.streams.stdout);
  if (!follow) return exit.good;
  await new Promise<void>((resolve) => {
    let reading = Promise.resolve();
    const watcher = watch(path, () => {
      reading = reading.then(async () => {
        at = await pipe(path, at, out.streams.stdout);
      });
    });
    process.once('SIGINT', () => {
      watcher.close();
      resolve();
    });
  });
  return exit.good;
}

function newest(path: string): string {
  try {
    statSync(path);
    return path;
  } catch {
    throw new Stop(exit.notFound, `There is no log of the daemon at ${path} yet.`, 'start it with `agentctl up`');
  }
}

async function pipe(path: string, start: number, to: { write(text: string): unknown }): Promise<number> {
  let at = start;
  for await (const chunk of createReadStream(path, { start })) {
    const bytes = chunk as Buffer;
    at += bytes.length;
    to.write(bytes.toString('utf8'));
  }
  return at;
}
