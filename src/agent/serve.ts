import { realpathSync } from 'node:fs';
import { join } from 'node:path';
import { type Clock, iso } from '../base/clock.ts';
import { Conversation } from './conversation.ts';
import { instructionsFor } from './instructions.ts';
import { type Choice, chooseModel, openModel, secretVariables } from './model.ts';
import { type Peer, RpcError } from './peer.ts';
import { modes, Stage } from './stage.ts';
import { plan } from './tools/plan.ts';
import { edit, read, write } from './tools/files.ts';
import { glob, grep } from './tools/search.ts';
import { shell } from './tools/shell.ts';
import type { Tool } from './tools/tool.ts';

const tools: readonly Tool[] = [read, write, edit, glob, grep, shell, plan];

type Json = Record<string, unknown>;

interface Options {
  peer: Peer;
  clock: Clock;
  /** The agent's own environment. */
  env: Record<string, string | undefined>;
  version: string;
}

interface Session {
  conversation: Conversation;
  root: string;
  /** What the client wants it to know beside its own instructions; null for nothing. */
  guidance: string | null;
  /** Ends the turn that is going on. */
  running: AbortController | null;
  stage: Stage;
}

const textOf = (value: unknown, name: string): string => {
  if (typeof value !== 'string' || value === '') throw new RpcError(-32602, `"${name}" must be a string.`);
  return value;
};

const numberIn = (value: string | undefined, other: number): number => {
  const number = Number(value);
  return value !== undefined && Number.isInteger(number) && number > 0 ? number : other;
};

/** The words of a prompt; what is linked to is named. */
const promptOf = (blocks: unknown): string => {
  if (!Array.isArray(blocks)) throw new RpcError(-32602, '"prompt" must be a list.');
  return blocks
    .map((block: Json) => {
      if (block.type === 'text') return String(block.text);
      if (block.type === 'resource_link') return String(block.uri);
      throw new RpcError(-32602, `A prompt with ${String(block.type)} is not understood.`);
    })
    .join('\n\n');
};

/** The words of ACP's `systemPrompt`, which come after the agent's own; null for none. */
const guidanceIn = (systemPrompt: unknown): string | null => {
  const { content } = (systemPrompt ?? {}) as { content?: unknown };
  if (!Array.isArray(content)) return null;
  const words = content.map((block: Json) => (block.type === 'text' ? String(block.text) : ''));
  return words.join('\n\n') || null;
};

/** Our own agent as ACP sees it: the methods, over the sessions that this process knows. */
export function createAgent({ peer, clock, env, version }: Options) {
  const folder = join(env.AGENTCTL_AGENT_HOME ?? '/nonexistent', 'conversations');
  const sessions = new Map<string, Session>();
  let chosen: Choice | null = null;

  const commandEnv = Object.fromEntries(
    Object.entries(env).filter(
      (entry): entry is [string, string] => entry[1] !== undefined && !secretVariables.includes(entry[0]),
    ),
  );

  const choose = (): Choice => (chosen ??= chooseModel(env));

  const open = (conversation: Conversation, { cwd, systemPrompt }: Json): Json => {
    let root = '';
    try {
      root = realpathSync(textOf(cwd, 'cwd'));
    } catch (error) {
      throw error instanceof RpcError ? error : new RpcError(-32602, 'The folder of the workspace is not there.');
    }
    const { name } = choose();
    const { id } = conversation;
    sessions.set(id, {
      conversation,
      root,
      guidance: guidanceIn(systemPrompt),
      running: null,
      stage: new Stage(peer, id, root),
    });
    // What the first prompt needs is loaded while the client makes up its mind.
    void import('./turn.ts').catch(() => {});
    return {
      sessionId: id,
      modes: { currentModeId: 'ask', availableModes: modes.map((mode) => ({ id: mode, name: mode })) },
      models: { currentModelId: name, availableModels: [{ modelId: name, name }] },
    };
  };

  const stored = (params: Json): Conversation => {
    const id = textOf(params.sessionId, 'sessionId');
    const found = Conversation.find(folder, id);
    if (!found) throw new RpcError(-32002, `There is no session ${id}.`);
    return found;
  };

  const sessionOf = (params: Json): Session => {
    const session = sessions.get(textOf(params.sessionId, 'sessionId'));
    if (!session) throw new RpcError(-32002, 'This session is not open.');
    return session;
  };

  async function prompt(params: Json): Promise<unknown> {
    const session = sessionOf(params);
    if (session.running) throw new RpcError(-32600, 'A prompt of this session is being worked on.');
    const words = promptOf(params.prompt);
    const schema = ((params._meta as Json | undefined)?.agentctl as Json | undefined)?.output_schema;
    const controller = new AbortController();
    session.running = controller;
    try {
      const { Turn } = await import('./turn.ts');
      const choice = choose();
      const model = await openModel(choice, env);
      const { conversation, root, guidance, stage } = session;
      stage.begin(controller.signal);
      const turn = new Turn({
        clock,
        choice,
        model,
        conversation,
        instructions: instructionsFor(root, iso(clock.now()).slice(0, 10), process.platform, guidance),
        tools,
        bench: { root, env: { ...commandEnv, PWD: root }, signal: controller.signal },
        audience: stage,
        max_steps: numberIn(env.AGENTCTL_AGENT_MAX_STEPS, 200),
        room: numberIn(env.AGENTCTL_AGENT_CONTEXT_TOKENS, 150_000),
      });
      const stopReason = await turn.run(words, typeof schema === 'object' && schema ? schema : undefined);
      return { stopReason, usage: turn.usage };
    } finally {
      session.running = null;
    }
  }

  return {
    async handle(method: string, params: Json): Promise<unknown> {
      switch (method) {
        case 'initialize':
          return {
            protocolVersion: 1,
            agentInfo: { name: 'agentctl', title: 'agentctl', version },
            agentCapabilities: { loadSession: true, sessionCapabilities: { resume: {}, systemPrompt: {} } },
            authMethods: [],
          };
        case 'session/new':
          return open(Conversation.begin(folder, clock.id()), params);
        case 'session/resume':
          return open(stored(params), params);
        case 'session/load': {
          const conversation = stored(params);
          const answer = open(conversation, params);
          for (const { role, text } of conversation.said()) {
            const sessionUpdate = role === 'user' ? 'user_message_chunk' : 'agent_message_chunk';
            peer.notify('session/update', {
              sessionId: conversation.id,
              update: { sessionUpdate, content: { type: 'text', text } },
            });
          }
          return answer;
        }
        case 'session/set_mode': {
          const mode = modes.find((one) => one === params.modeId);
          if (!mode) throw new RpcError(-32602, `There is no mode ${String(params.modeId)}.`);
          sessionOf(params).stage.mode = mode;
          return {};
        }
        case 'session/prompt':
          return prompt(params);
        default:
          throw new RpcError(-32601, `There is no method ${method}.`);
      }
    },

    noticed(method: string, params: Json): void {
      if (method === 'session/cancel') sessions.get(String(params.sessionId))?.running?.abort();
    },

    /** Ends what is going on. */
    close(): void {
      for (const { running } of sessions.values()) running?.abort();
    },
  };
}
