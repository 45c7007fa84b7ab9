import { writeFileSync } from 'node:fs';
import type { Event, ReplyOf } from '../../src/api/client.ts';
import type { Context } from '../context.ts';
import { exit, Stop } from '../exit.ts';
import { idOf } from '../ids.ts';
import { clean, cleanLine } from '../text.ts';
import { duration, money } from '../words.ts';

/** `agentctl export RUN`: the run, what happened and what came of it as one file. */
export async function exportRun(
  context: Context,
  { format, output }: { format?: 'json' | 'markdown'; output?: string },
  text: string,
): Promise<void> {
  const client = await context.client();
  const path = { run_id: await idOf(client, 'run', text) };
  const run = await client.call('getRun', { path });
  const events: Event[] = [];
  for await (const event of client.each('listRunEvents', { path, query: { limit: 1000 } }))
    events.push(event as unknown as Event);
  const result = await client.call('getRunResult', { path });
  const wanted = format ?? (output?.endsWith('.json') || context.out.isJson ? 'json' : 'markdown');
  const said = wanted === 'json' ? JSON.stringify({ run, events, result }, null, 2) : markdown(run, events, result);
  if (output === undefined || output === '-') return context.out.print(said);
  try {
    writeFileSync(output, `${said}\n`);
  } catch (error) {
    throw new Stop(exit.failed, `The file cannot be written: ${(error as Error).message}`);
  }
}

/** A block that nothing in the text can end. */
function fenced(text: string, language = ''): string {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([ticks]) => ticks.length));
  const fence = '`'.repeat(longest + 1);
  return `${fence}${language}\n${clean(text).trimEnd()}\n${fence}`;
}

function markdown(run: ReplyOf<'getRun'>, events: Event[], { changes }: ReplyOf<'getRunResult'>): string {
  const { harness, model, status, stop_reason, usage, queued_at } = run;
  const cost = usage.cost_micro_usd === null ? '' : ` · ${money(usage.cost_micro_usd)}`;
  const parts = [
    `# Run ${run.id}`,
    `${harness}${model ? ` · ${cleanLine(model)}` : ''} · ${status}${stop_reason ? ` (${stop_reason})` : ''} · ${queued_at} · ${duration(usage.duration_ms)}${cost}`,
    '## Prompt',
    fenced(run.prompt),
    '## Transcript',
  ];
  const titles = new Map<string, string>();
  for (const { type, data } of events) {
    switch (type) {
      case 'message.completed':
        if (data.role !== 'user') parts.push(clean(data.text).trim());
        break;
      case 'tool.started':
        titles.set(data.tool_call_id, data.title || data.name);
        break;
      case 'tool.completed': {
        const how = data.status === 'completed' ? '' : `: ${data.status}`;
        parts.push(`**${cleanLine(titles.get(data.tool_call_id) ?? 'A tool')}**${how}`);
        if (data.output) parts.push(fenced(data.output));
        break;
      }
      case 'input.requested':
        parts.push(`**Asked:** ${cleanLine(data.title)}`);
        break;
      case 'input.resolved':
        parts.push(`**Answer:** ${data.status}`);
        break;
      case 'log':
        if (data.level !== 'debug') parts.push(`*${cleanLine(data.text)}*`);
        break;
      default:
        break;
    }
  }
  if (run.error) parts.push(`**${run.error.code}:** ${clean(run.error.message)}`);
  if (changes.files.length > 0)
    parts.push('## Changes', changes.files.map(({ path, change }) => `- ${change}: ${cleanLine(path)}`).join('\n'));
  return parts.join('\n\n');
}
