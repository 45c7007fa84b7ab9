import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

/**
 * An ACP agent that plays a script: `node scripted-agent.ts <script.json>`, or the script's JSON in `AGENTCTL_SCRIPT`. Plain
 * newline-delimited JSON-RPC without the SDK: it starts fast, and must be able to misbehave.
 */
export interface Script {
  /** What to do for a prompt: the first, the second, …; the last list is used again. */
  prompts: Action[][];
  load?: boolean;
  resume?: boolean;
  /** Takes instructions in its own place for them. */
  system_prompt?: boolean;
  /** Replays a loaded session after the answer to session/load, as Gemini does. */
  replay_late?: boolean;
  /** Does not react to session/cancel. */
  ignore_cancel?: boolean;
  /** Does not react to SIGTERM. */
  ignore_term?: boolean;
  /** Values of its config option `model`. */
  models?: string[];
  /** Answers `initialize` (or another method) with this error. */
  refuse?: { method: string; code: number; message: string };
}

type Json = Record<string, unknown>;

/** One thing to do. */
export type Action =
  | { say: string; id?: string }
  | { think: string }
  /** A session/update as it is. */
  | { update: Json }
  | {
      tool: {
        id: string;
        title?: string;
        kind?: string;
        status?: string;
        rawInput?: Json;
        locations?: { path: string }[];
      };
    }
  | { tool_update: Json & { id: string } }
  /** Writes a file of the workspace. */
  | { write: { path: string; text: string } }
  /** Asks for permission; `denied` is done when it is refused, `allowed` otherwise. */
  | {
      ask: { id: string; title: string; kind?: string; rawInput?: Json; only_once?: true };
      allowed?: Action[];
      denied?: Action[];
    }
  /** Asks the person, and says the answer. */
  | { form: { message: string; schema: Json } }
  | { cost: number }
  /** Says all prompts of this session so far. */
  | { recall: true }
  /** Says what it was told in its own place for instructions. */
  | { system: true }
  /** `count` messages' chunks `<n>;`, with a pause in milliseconds between two. */
  | { numbered: { count: number; pause_ms: number } }
  /** Starts a command in the background. */
  | { spawn: string }
  | { stderr: string }
  /** A line on standard output that is no message. */
  | { garbage: string }
  /** A message with so many bytes of text; without the newline when `open`. */
  | { huge: number; open?: boolean }
  /** Output without an end, a chunk every so many milliseconds. */
  | { forever: number }
  | { wait: number }
  | { hang: true }
  | { crash: number }
  | { error: { code: number; message: string; data?: unknown } }
  | { end: string; usage?: Json };

/** argv and environment that start this agent with a script. */
export const scriptedAgent = (script: Script): { command: string[]; env: Record<string, string> } => ({
  command: [process.execPath, fileURLToPath(import.meta.url)],
  env: { AGENTCTL_SCRIPT: JSON.stringify(script), AGENTCTL_SCRIPT_STATE: '{{home}}' },
});

class Refusal extends Error {
  readonly code: number;
  readonly data: unknown;
  constructor(code: number, message: string, data?: unknown) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

function play(script: Script, state: string): void {
  let session = '';
  let system: unknown = null;
  let cancelled = false;
  let wake = (): void => {};
  let asked = 0;
  const waiting = new Map<number, (result: Json) => void>();

  const write = (text: string): Promise<void> =>
    new Promise((done) => (process.stdout.write(text) ? done() : void process.stdout.once('drain', done)));
  const send = (message: Json): Promise<void> => write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  const update = (sessionUpdate: string, fields: Json): Promise<void> =>
    send({ method: 'session/update', params: { sessionId: session, update: { sessionUpdate, ...fields } } });
  const say = (text: string, id?: string): Promise<void> =>
    update('agent_message_chunk', { content: { type: 'text', text }, ...(id ? { messageId: id } : {}) });
  const ask = async (method: string, params: Json): Promise<Json> => {
    asked += 1;
    const id = asked;
    const answer = new Promise<Json>((done) => waiting.set(id, done));
    await send({ id, method, params: { sessionId: session, ...params } });
    return answer;
  };
  const pause = async (ms: number): Promise<void> => {
    const controller = new AbortController();
    wake = () => controller.abort();
    if (!cancelled) await sleep(ms, undefined, { signal: controller.signal }).catch(() => {});
  };

  const file = (id: string): string => join(state, `scripted-${id}.json`);
  const history = (id: string): string[] =>
    existsSync(file(id)) ? (JSON.parse(readFileSync(file(id), 'utf8')) as string[]) : [];

  async function one(action: Action): Promise<Json | null> {
    if ('say' in action) await say(action.say, action.id);
    else if ('think' in action) await update('agent_thought_chunk', { content: { type: 'text', text: action.think } });
    else if ('update' in action) await update(String(action.update.sessionUpdate), action.update);
    else if ('tool' in action) {
      const { id, ...rest } = action.tool;
      await update('tool_call', { toolCallId: id, title: id, kind: 'other', status: 'in_progress', ...rest });
    } else if ('tool_update' in action) {
      const { id, ...rest } = action.tool_update;
      await update('tool_call_update', { toolCallId: id, ...rest });
    } else if ('write' in action) {
      const path = resolve(action.write.path);
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, action.write.text);
    } else if ('ask' in action) {
      const { id, only_once, ...rest } = action.ask;
      const result = await ask('session/request_permission', {
        toolCall: { toolCallId: id, status: 'pending', kind: 'edit', ...rest },
        options: [
          ...(only_once ? [] : [{ optionId: 'always', name: 'Always', kind: 'allow_always' }]),
          { optionId: 'once', name: 'Once', kind: 'allow_once' },
          { optionId: 'no', name: 'No', kind: 'reject_once' },
        ],
      });
      const outcome = (result.outcome ?? {}) as Json;
      if (outcome.outcome === 'cancelled') cancelled = true;
      return all((outcome.optionId === 'once' || outcome.optionId === 'always' ? action.allowed : action.denied) ?? []);
    } else if ('form' in action) {
      const { message, schema } = action.form;
      await say(JSON.stringify(await ask('elicitation/create', { mode: 'form', message, requestedSchema: schema })));
    } else if ('cost' in action)
      await update('usage_update', { used: 1, size: 2, cost: { amount: action.cost, currency: 'USD' } });
    else if ('recall' in action) await say(history(session).join('|'));
    else if ('system' in action) await say(JSON.stringify(system));
    else if ('numbered' in action) {
      for (let n = 0; n < action.numbered.count && !cancelled; n++) {
        await say(`${n};`);
        if (action.numbered.pause_ms > 0) await pause(action.numbered.pause_ms);
      }
    } else if ('spawn' in action) spawn('/bin/sh', ['-c', action.spawn], { stdio: 'ignore' });
    else if ('stderr' in action) process.stderr.write(action.stderr);
    else if ('garbage' in action) await write(`${action.garbage}\n`);
    else if ('huge' in action) {
      const block = 'x'.repeat(1_048_576);
      await write(
        '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"","update":{"sessionUpdate":"x","text":"',
      );
      for (let left = action.huge; left > 0; left -= block.length) await write(block.slice(0, left));
      if (!action.open) await write('"}}}\n');
    } else if ('forever' in action) {
      for (let n = 0; !cancelled; n++) {
        await say(`${n};`);
        await pause(action.forever);
      }
    } else if ('wait' in action) await pause(action.wait);
    else if ('hang' in action) while (!cancelled) await pause(1000);
    else if ('crash' in action) process.exit(action.crash);
    else if ('error' in action) throw new Refusal(action.error.code, action.error.message, action.error.data);
    else return { stopReason: action.end, ...(action.usage ? { usage: action.usage } : {}) };
    return null;
  }

  async function all(actions: readonly Action[]): Promise<Json | null> {
    for (const action of actions) {
      const result = await one(action);
      if (result) return result;
      if (cancelled) return { stopReason: 'cancelled' };
    }
    return null;
  }

  const options = (): Json =>
    script.models
      ? {
          configOptions: [
            {
              id: 'model',
              category: 'model',
              currentValue: script.models[0],
              options: script.models.map((value) => ({ value })),
            },
          ],
        }
      : {};

  async function handle(method: string, params: Json): Promise<Json> {
    if (script.refuse?.method === method) throw new Refusal(script.refuse.code, script.refuse.message);
    switch (method) {
      case 'initialize':
        return {
          protocolVersion: 1,
          agentInfo: { name: 'scripted', version: '1.2.3' },
          agentCapabilities: {
            loadSession: script.load ?? false,
            sessionCapabilities: {
              ...(script.resume ? { resume: {} } : {}),
              ...(script.system_prompt ? { systemPrompt: {} } : {}),
            },
          },
        };
      case 'session/new':
        session = `s-${process.pid}`;
        system = params.systemPrompt;
        return { sessionId: session, ...options() };
      case 'session/load':
      case 'session/resume': {
        const id = String(params.sessionId);
        if (!existsSync(file(id))) throw new Refusal(-32002, 'There is no such session.');
        session = id;
        system = params.systemPrompt;
        if (method === 'session/resume') return options();
        const replay = async (): Promise<void> => {
          for (const prompt of history(id)) {
            await update('user_message_chunk', { content: { type: 'text', text: prompt } });
            await say('replayed');
          }
        };
        if (script.replay_late) setTimeout(() => void replay(), 50);
        else await replay();
        return options();
      }
      case 'session/prompt': {
        const prompt = (params.prompt as { text?: string }[]).map(({ text = '' }) => text).join('');
        const before = history(session);
        writeFileSync(file(session), JSON.stringify([...before, prompt]));
        cancelled = false;
        const actions = script.prompts[Math.min(before.length, script.prompts.length - 1)] ?? [];
        return (await all(actions)) ?? { stopReason: 'end_turn' };
      }
      case 'authenticate':
      case 'session/set_config_option':
      case 'session/set_mode':
        return options();
      default:
        throw new Refusal(-32601, `There is no ${method}.`);
    }
  }

  if (script.ignore_term) process.on('SIGTERM', () => {});
  const lines = createInterface({ input: process.stdin });
  lines.on('close', () => {
    if (!script.ignore_term) process.exit(0);
  });
  lines.on('line', (line) => {
    const message = JSON.parse(line) as { id?: number; method?: string; params?: Json; result?: Json };
    if (message.method === undefined) {
      waiting.get(message.id ?? 0)?.(message.result ?? {});
      waiting.delete(message.id ?? 0);
      return;
    }
    if (message.method === 'session/cancel' && !script.ignore_cancel) {
      cancelled = true;
      wake();
    }
    if (message.id === undefined) return;
    const { id } = message;
    handle(message.method, message.params ?? {})
      .then(
        (result) => send({ id, result }),
        (error: unknown) => {
          const { code = -32603, data } = error as Partial<Refusal>;
          return send({ id, error: { code, message: (error as Error).message, data } });
        },
      )
      .catch(() => {});
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const source = process.argv[2]
    ? readFileSync(process.argv[2], 'utf8')
    : (process.env.AGENTCTL_SCRIPT ?? '{"prompts":[[]]}');
  play(JSON.parse(source) as Script, process.env.AGENTCTL_SCRIPT_STATE ?? process.cwd());
}
