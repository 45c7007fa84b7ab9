import { mkdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Script } from '../../api/script.ts';
import type { Clock } from '../../base/clock.ts';
import { type Peer, RpcError } from '../peer.ts';
import { placeOf } from '../tools/place.ts';
import { ToolError } from '../tools/tool.ts';
import { Player } from './player.ts';

type Json = Record<string, unknown>;

interface Options {
  peer: Peer;
  clock: Clock;
  /** The session's private folder: what was spent stands there. */
  home: string;
  version: string;
  log(line: string): void;
  crash(code: number): void;
}

/** An agent that does what its prompt says, and nothing else: for trying webhooks, limits and clients. */
export function createScripted({ peer, clock, home, version, log, crash }: Options) {
  const file = join(home, 'scripted.json');
  let root = '';
  let running: AbortController | null = null;
  let script: Script | null = null;

  const spent = (): bigint => {
    try {
      return BigInt((JSON.parse(readFileSync(file, 'utf8')) as { cost_micro_usd: string }).cost_micro_usd);
    } catch {
      return 0n;
    }
  };
  const wait = (ms: number, signal: AbortSignal): Promise<void> =>
    new Promise((resolve) => {
      const cancel = clock.timer(ms, resolve);
      const stop = () => {
        cancel();
        resolve();
      };
      if (signal.aborted) stop();
      else signal.addEventListener('abort', stop, { once: true });
    });

  /** The script that a prompt is, or names. */
  const scriptOf = async (prompt: string): Promise<Script> => {
    const { readScript } = await import('./script.ts');
    const text = prompt.trim();
    if (text.startsWith('{')) return readScript(text);
    if (text.includes('\n') || text === '')
      throw new RpcError(-32602, 'The prompt must be a script, a JSON object, or the path of one in the workspace.');
    let source = '';
    try {
      source = readFileSync(placeOf(root, text), 'utf8');
    } catch (error) {
      const why = error instanceof ToolError ? error.message : `There is no script ${text} in the workspace.`;
      throw new RpcError(-32602, why);
    }
    return readScript(source);
  };

  const open = (params: Json, sessionId: string): Json => {
    root = realpathSync(String(params.cwd));
    return { sessionId };
  };

  async function prompt(params: Json): Promise<unknown> {
    const sessionId = String(params.sessionId);
    const [first] = params.prompt as { text?: string }[];
    // In one process, a second prompt asks once more for an answer that did not fit.
    const steps = script ? (script.repair ?? []) : null;
    script ??= await scriptOf(first?.text ?? '');
    const controller = new AbortController();
    running = controller;
    const spend = (micro: bigint): bigint => {
      const sum = spent() + micro;
      mkdirSync(home, { recursive: true });
      writeFileSync(file, JSON.stringify({ cost_micro_usd: String(sum) }), { mode: 0o600 });
      return sum;
    };
    const id = () => clock.id();
    const player = new Player({ peer, sessionId, root, signal: controller.signal, id, wait, log, crash, spend });
    return player.play(steps ?? script.steps);
  }

  return {
    async handle(method: string, params: Json): Promise<unknown> {
      switch (method) {
        case 'initialize':
          return {
            protocolVersion: 1,
            agentInfo: { name: 'scripted', version },
            // Instructions are taken, and mean nothing to it.
            agentCapabilities: { sessionCapabilities: { resume: {}, systemPrompt: {} } },
            authMethods: [],
          };
        case 'session/new':
          return open(params, clock.id());
        case 'session/resume': {
          const sessionId = String(params.sessionId);
          // What was spent before this prompt is told first, so that the sum is understood.
          const cost = { amount: Number(spent()) / 1e6, currency: 'USD' };
          const update = { sessionUpdate: 'usage_update', used: 0, size: 0, cost };
          peer.notify('session/update', { sessionId, update });
          return open(params, sessionId);
        }
        case 'session/prompt':
          return prompt(params);
        default:
          throw new RpcError(-32601, `There is no method ${method}.`);
      }
    },
    noticed(method: string): void {
      if (method === 'session/cancel') running?.abort();
    },
  };
}
