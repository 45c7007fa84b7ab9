import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import * as acp from '@agentclientprotocol/sdk/unstable';
import { Peer } from '../../src/agent/peer.ts';
import { createAgent } from '../../src/agent/serve.ts';
import { type Clock, systemClock } from '../../src/base/clock.ts';
import { wire } from '../../src/runner/wire.ts';

type Json = Record<string, unknown>;

/** How a test's person answers a permission request. */
export type Answer = (call: Json) => string | null | Promise<string | null>;

/** A workspace, and a folder that the agent keeps its conversations in. */
export class Desk implements Disposable {
  readonly root = realpathSync(mkdtempSync(join(tmpdir(), 'agentctl-agent-')));
  readonly home = realpathSync(mkdtempSync(join(tmpdir(), 'agentctl-agent-home-')));
  readonly clients: AgentClient[] = [];

  /** Our agent in this process, spoken to by the SDK's own client, which refuses what is no ACP. */
  open(env: Record<string, string>, answer: Answer = () => 'allow', clock: Clock = systemClock): AgentClient {
    const path = process.env.PATH ?? '/usr/bin:/bin';
    const client = new AgentClient(this, { PATH: path, AGENTCTL_AGENT_HOME: this.home, ...env }, answer, clock);
    this.clients.push(client);
    return client;
  }

  [Symbol.dispose](): void {
    for (const client of this.clients) client.close();
    for (const folder of [this.root, this.home]) rmSync(folder, { recursive: true, force: true });
  }
}

/** A client with its agent. */
export class AgentClient {
  readonly updates: Json[] = [];
  readonly permissions: Json[] = [];
  readonly #desk: Desk;
  readonly #connection: acp.ClientConnection;
  readonly #input = new PassThrough();
  readonly #output = new PassThrough();
  readonly #agent: ReturnType<typeof createAgent>;
  #session = '';

  constructor(desk: Desk, env: Record<string, string>, answer: Answer, clock: Clock) {
    this.#desk = desk;
    const peer = new Peer(this.#output);
    this.#agent = createAgent({ peer, clock, env, version: '1.2.3' });
    void peer.listen(this.#input, this.#agent.handle, this.#agent.noticed).catch(() => {});
    const stream = wire(this.#input, this.#output, {
      tap: () => false,
      noise: (line) => this.updates.push({ noise: line }),
      overflow: () => {},
      counted: () => {},
    });
    this.#connection = acp
      .client({ name: 'test' })
      .onNotification(acp.methods.client.session.update, ({ params }) => {
        this.updates.push(params.update as unknown as Json);
      })
      .onRequest(acp.methods.client.session.requestPermission, async ({ params }) => {
        this.permissions.push(params.toolCall as unknown as Json);
        const optionId = await answer(params.toolCall as unknown as Json);
        return { outcome: optionId === null ? { outcome: 'cancelled' } : { outcome: 'selected', optionId } };
      })
      .connect(stream);
  }

  get session(): string {
    return this.#session;
  }

  /** Says hello and begins a session, or takes one up. */
  async begin(how: 'new' | 'load' | 'resume' = 'new', sessionId = ''): Promise<Json> {
    const { agent } = this.#connection;
    await agent.request('initialize', { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} });
    const place = { cwd: this.#desk.root, mcpServers: [] };
    const answer =
      how === 'new'
        ? await agent.request('session/new', place)
        : await agent.request(`session/${how}`, { sessionId, ...place });
    this.#session = (answer as { sessionId?: string }).sessionId ?? sessionId;
    return answer as Json;
  }

  mode(modeId: string): Promise<unknown> {
    return this.#connection.agent.request('session/set_mode', { sessionId: this.#session, modeId });
  }

  async prompt(text: string, meta?: Json): Promise<acp.PromptResponse> {
    const answer = await this.#connection.agent.request('session/prompt', {
      sessionId: this.#session,
      prompt: [{ type: 'text', text }],
      ...(meta ? { _meta: meta } : {}),
    });
    // Updates are handed out by the SDK a moment after they came.
    await new Promise((resolve) => setTimeout(resolve, 5));
    return answer;
  }

  cancel(): Promise<void> {
    return this.#connection.agent.notify('session/cancel', { sessionId: this.#session });
  }

  /** All text of one kind of chunk. */
  said(kind = 'agent_message_chunk'): string {
    return this.updates
      .filter(({ sessionUpdate }) => sessionUpdate === kind)
      .map(({ content }) => (content as { text: string }).text)
      .join('');
  }

  of(kind: string): Json[] {
    return this.updates.filter(({ sessionUpdate }) => sessionUpdate === kind);
  }

  close(): void {
    this.#agent.close();
    this.#connection.close();
    this.#input.destroy();
    this.#output.destroy();
  }
}
