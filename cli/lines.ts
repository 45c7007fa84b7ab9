import type { Event } from '../src/api/client.ts';
import { Fault } from '../src/api/error.ts';
import type { EventData } from '../src/api/events.ts';
import type { InputRequest } from '../src/api/inputs.ts';
import { type Ending, followRun, type Following } from './follow.ts';
import { alwaysMeans } from './always.ts';
import { clean, cleanLine, lines } from './text.ts';
import { duration, leftLine, money, plural, runLook } from './words.ts';

/** What is wanted of a run that is followed without the live view. */
export interface LineOptions extends Following {
  /** One event a line on standard output, as /events has it. */
  json?: boolean;
  /** Leave with exit code 5 when the run waits for an answer. */
  noInput: boolean;
  /** False keeps the result off standard output: `logs` and `-o FILE`. */
  result?: (text: string) => void;
}

/** Follows a run in plain lines: its result on standard output, all else on standard error. */
export async function followInLines(options: LineOptions): Promise<{ ending: Ending; cancelledByUs: boolean }> {
  const { context, client, runId, harness, json } = options;
  const { out } = context;
  const { stdout, stderr } = out.streams;
  const shell = harness === 'shell';
  const print = options.result ?? ((text: string) => out.streams.stdout.write(text));
  // A script's output goes on byte for byte into a pipe; a terminal gets it without control sequences.
  const onTerminal = lines((line) => print(`${line}\n`));
  const toStdout = stdout.isTTY && !options.result ? onTerminal : { push: print, end: () => {} };
  const errors = lines((line) => out.note(line));
  const toStderr = stderr.isTTY ? errors : { push: (text: string) => stderr.write(text), end: () => {} };
  const asked = new AbortController();
  let open: string | null = null;
  const left: EventData['artifact.created'][] = [];

  const result = await followRun(options, (event, { stop }) => {
    if (json) out.print(JSON.stringify(event));
    else if (shell && event.type === 'tool.output') {
      (event.data.stream === 'stderr' ? toStderr : toStdout).push(event.data.text);
      if (event.data.truncated)
        out.note('There is more output than events may hold; the rest is not shown. An artifact will have all of it.');
    } else if (!(shell && (event.type === 'tool.started' || event.type === 'tool.completed'))) {
      const line = lineOf(event);
      if (line) out.note(out.paint(line.style, line.text));
    }
    // Its own are there for every run; whoever wants to see them, too, asks for more words.
    if (event.type === 'artifact.created' && (context.flags.debug || isAsked(event.data))) left.push(event.data);
    if (event.type === 'input.resolved' && event.data.request_id === open) open = null;
    if (event.type !== 'input.requested') return;
    open = event.data.id;
    if (options.noInput) return stop({ kind: 'waiting' });
    const hint = `  answer it: agentctl answer ${event.data.id} --allow | --reject`;
    if (json || !context.canAsk) return out.note(hint);
    void ask(event.data, options, asked.signal);
  });
  asked.abort();
  toStdout.end();
  toStderr.end();
  const { ending } = result;
  if (json || ending.kind !== 'ended') return result;
  if (!shell) {
    const { text: said, structured_output } = await client.call('getRunResult', { path: { run_id: runId } });
    const text = (structured_output ?? null) === null ? said : JSON.stringify(structured_output, null, 2);
    if (text) print(stdout.isTTY && !options.result ? `${clean(text)}\n` : text.endsWith('\n') ? text : `${text}\n`);
  }
  if (!shell || ending.status !== 'completed')
    out.note(
      verdict(ending, runId, shell)
        .map((line) => out.paint(line.style, line.text))
        .join('\n'),
    );
  const artifacts = leftLine(left, runId);
  if (artifacts) out.note(out.paint('dim', artifacts));
  return result;
}

/** Whether an artifact is one that a person may look for: not the daemon's own two. */
export const isAsked = ({ kind }: EventData['artifact.created']): boolean => kind === 'file' || kind === 'output';

type Style = 'dim' | 'yellow' | 'red' | 'green' | 'gray' | 'cyan';
interface Line {
  style: Style;
  text: string;
}

/** What a line of progress says of an event; null for those that say nothing to a person. */
export function lineOf(event: Event): Line | null {
  const { type, data } = event;
  switch (type) {
    case 'run.queued':
      return data.blocked_by
        ? { style: 'dim', text: `○ queued behind ${data.blocked_by.kind} ${data.blocked_by.id ?? ''}`.trimEnd() }
        : null;
    case 'run.started': {
      const sandbox = data.isolation.level === 'none' ? 'no sandbox' : data.isolation.level;
      const model = data.model ? ` · ${cleanLine(data.model)}` : '';
      return { style: 'dim', text: `● ${cleanLine(data.harness)}${model} · ${sandbox}` };
    }
    case 'message.completed':
      return data.role === 'user' || !data.text.trim()
        ? null
        : { style: 'gray', text: `  ${clean(data.text).trim().replaceAll('\n', '\n  ')}` };
    case 'tool.started':
      return { style: 'cyan', text: `▸ ${bare(cleanLine(data.title || data.name))}` };
    case 'tool.completed':
      if (data.status === 'completed') return null;
      return {
        style: 'yellow',
        text: `✗ ${data.status}${data.exit_code === null ? '' : ` with exit code ${data.exit_code}`}`,
      };
    case 'plan.updated': {
      const done = data.items.filter(({ status }) => status === 'completed').length;
      const now = data.items.find(({ status }) => status === 'in_progress');
      return { style: 'dim', text: `  plan ${done}/${data.items.length}${now ? `: ${cleanLine(now.text)}` : ''}` };
    }
    case 'file.changed': {
      const mark = { added: '+', modified: '~', deleted: '-' } as const;
      return {
        style: 'dim',
        text: data.changes.map(({ path, change }) => `  ${mark[change]} ${cleanLine(path)}`).join('\n'),
      };
    }
    case 'limit.warning':
      return { style: 'yellow', text: `! ${data.percent} % of the ${data.limit} limit is used` };
    case 'input.requested':
      return { style: 'yellow', text: question(data) };
    case 'input.resolved':
      return { style: 'dim', text: `  ${data.status}` };
    case 'retry.scheduled':
      return {
        style: 'yellow',
        text: `! attempt ${data.attempt} of ${data.max_attempts} at ${data.at}: ${cleanLine(data.reason)}`,
      };
    case 'log':
      return data.level === 'debug'
        ? null
        : { style: data.level === 'error' ? 'red' : 'dim', text: `  ${clean(data.text).trimEnd()}` };
    case 'run.status_changed':
    case 'artifact.created':
    case 'checkpoint.created':
    case 'message.started':
    case 'message.delta':
    case 'reasoning.delta':
    case 'reasoning.completed':
    case 'tool.output':
    case 'usage.updated':
    case 'run.completed':
    case 'run.failed':
    case 'run.cancelled':
      return null;
  }
}

/** A title without the backticks that agents put around a command. */
export const bare = (title: string): string => title.replace(/^`(.+)`$/s, '$1');

/** A question of the agent, as text. */
export function question({ title, message, options }: Pick<InputRequest, 'title' | 'message' | 'options'>): string {
  const more = message && message !== bare(title) ? `\n  ${clean(message).replaceAll('\n', '\n  ')}` : '';
  const choices = options.length
    ? `\n  ${options.map(({ id, label }) => `[${cleanLine(id)}] ${cleanLine(label)}`).join('  ')}`
    : '';
  return `? ${bare(cleanLine(title))}${more}${choices}`;
}

/** The last lines of a followed run: how it ended, why, and where to look. */
function verdict({ status, event }: Extract<Ending, { kind: 'ended' }>, runId: string, shell: boolean): Line[] {
  const { symbol, word, colour } = runLook[status];
  const { error, usage, stop_reason } = event.data as Extract<Event, { type: 'run.failed' }>['data'];
  const cost = shell || usage.cost_micro_usd === null ? '' : ` · ${money(usage.cost_micro_usd)}`;
  const turns = usage.turns > 0 ? ` · ${plural(usage.turns, 'turn')}` : '';
  const head: Line = {
    style: colour as Style,
    text: `${symbol} ${word} in ${duration(usage.duration_ms)}${turns}${cost}`,
  };
  if (status === 'completed') return [head];
  const why = error ? clean(error.message) : stop_reason;
  // A script's errors have been shown as they came.
  const tail = !shell && typeof error?.details.stderr_tail === 'string' ? error.details.stderr_tail.trimEnd() : '';
  const said: Line[] =
    tail && status === 'failed' ? [{ style: 'dim', text: `  ${clean(tail).split('\n').slice(-5).join('\n  ')}` }] : [];
  return [head, ...said, { style: 'red', text: `  ${why}` }, { style: 'dim', text: `  agentctl logs ${runId}` }];
}

/** Asks on standard error and sends the answer; ends quietly when somebody else answers first. */
async function ask(request: InputRequest, { client, context, runId }: LineOptions, signal: AbortSignal): Promise<void> {
  const { createInterface } = await import('node:readline/promises');
  const reader = createInterface({ input: context.stdin, output: process.stderr });
  try {
    const option = (kind: string) => request.options.find((item) => item.kind === kind)?.id;
    const keys: [string, string | undefined, string][] = [
      ['y', option('allow_once'), 'once'],
      ['a', option('allow_always'), 'always'],
      ['r', option('reject_once') ?? option('reject_always'), 'reject'],
    ];
    const offered = keys.filter(([, id]) => id !== undefined);
    const prompt = offered.length ? offered.map(([key, , word]) => `${key} ${word}`).join(', ') : 'your answer';
    let shown = false;
    for (;;) {
      const said = (await reader.question(`  ${prompt}: `, { signal })).trim();
      const choice =
        keys.find(([key]) => key === said.toLowerCase())?.[1] ?? request.options.find(({ id }) => id === said)?.id;
      const answer = choice ? { option_id: choice } : request.allow_text && said ? { text: said } : undefined;
      if (!answer) continue;
      if (choice !== undefined && choice === option('allow_always') && !shown) {
        shown = true;
        for (const sentence of alwaysMeans(request)) context.out.note(`  ${sentence}`);
        context.out.note('  The same again allows it.');
        continue;
      }
      await client.insist('submitRunInput', { path: { run_id: runId }, body: { request_id: request.id, ...answer } });
      return;
    }
  } catch (error) {
    if (error instanceof Fault) context.out.note(error.message);
  } finally {
    reader.close();
  }
}
