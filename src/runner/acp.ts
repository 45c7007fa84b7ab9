import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import * as acp from '@agentclientprotocol/sdk/unstable';
import { AcpMapping } from '../harness/acp.ts';
import { addedTokens, costOf, tokensOf } from '../harness/acp-usage.ts';
import { list, type Loose, record, text } from '../harness/loose.ts';
import { agentError, died, failure } from './acp-error.ts';
import {
  type Begun,
  optionsIn,
  outcomeOf,
  promptFor,
  systemPrompt,
  untilQuiet,
  withBeginning,
  within,
} from './acp-session.ts';
import { answering } from './answering.ts';
import { Chatter } from './chatter.ts';
import type { Half, Outcome, Stage } from './half.ts';
import { Launch } from './launch.ts';
import {
  formContent,
  formDraft,
  grantable,
  longestForm,
  optionsOf,
  ownOption,
  permissionDraft,
  rejecting,
  unasked,
} from './permission.ts';
import type { InputAnswer } from '../api/inputs.ts';
import { Questions } from './questions.ts';
import { Spend } from './spend.ts';
import { subjectOf } from './subject.ts';
import { Telling } from './telling.ts';
import { wire } from './wire.ts';

/** Milliseconds in which an agent must have answered `initialize`, and set its session up. */
const startWithin = 180_000;
/** Milliseconds that a cancelled prompt gets to return. */
const cancelWithin = 3000;

/** The conversation with an agent for one prompt. */
class Conversation implements Half {
  readonly outcome: Promise<Outcome>;
  readonly #stage: Stage;
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #mapping: AcpMapping;
  readonly #telling: Telling;
  readonly #questions: Questions;
  readonly #errors: Chatter;
  readonly #noise: Chatter;
  readonly #connection: acp.ClientConnection;
  readonly #exited: Promise<void>;
  readonly #launch: Launch;
  #exit: { code: number | null; signal: NodeJS.Signals | null } | null = null;
  #session: string | null = null;
  #spend: Spend | null = null;
  #prompting = false;
  #closed = false;
  #held = false;
  #settling: (() => void) | null = null;
  #lastUpdate = 0;
  #overflow: () => void = () => {};
  #closing: Promise<string | null> | null = null;

  constructor(stage: Stage) {
    const { spec, clock } = stage;
    this.#stage = stage;
    this.#mapping = new AcpMapping(() => clock.id());
    this.#telling = new Telling(stage);
    this.#questions = new Questions(stage);
    this.#errors = new Chatter(stage, 'stderr');
    this.#noise = new Chatter(stage, 'stdout');
    this.#launch = Launch.prepare(spec, stage.gateway);
    const { program, args, cwd, env } = stage.start(this.#launch.command(), this.#launch.environment());
    const child = spawn(program, args, {
      cwd,
      env,
      detached: true,
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    this.#child = child;
    if (child.pid !== undefined) stage.spawned(child.pid);
    const { promise: exited, resolve: exit } = Promise.withResolvers<void>();
    this.#exited = exited;
    const { promise: drained, resolve: drain } = Promise.withResolvers<void>();
    child.once('close', () => drain());
    child.once('error', (error) => {
      this.#errors.push(Buffer.from(`${error.message}\n`));
      exit();
    });
    child.once('exit', (code, signal) => {
      this.#exit = { code, signal };
      exit();
    });
    child.stderr.on('data', (bytes: Buffer) => {
      stage.counted(bytes.length);
      this.#errors.push(bytes);
      this.#hold();
    });
    child.stderr.on('error', () => {});
    const { promise: overflow, resolve: overflowed } = Promise.withResolvers<void>();
    this.#overflow = overflowed;
    this.#connection = this.#connect();
    // What an agent said before it died counts: its last lines are read before its end is judged.
    const gone = exited
      .then(() => Promise.race([drained, this.#pause(250)]))
      .then(() => this.#pause(0))
      .then(() => died(this.#exit, this.#errors.tail()));
    const broken = overflow.then(() =>
      failure('The agent sent a line of more than 32 MiB.', { reason: 'protocol_error' }),
    );
    const through = this.#converse().catch(async (error: unknown) => {
      // The connection breaks when the process dies: then that is the reason.
      if (this.#connection.signal.aborted) await Promise.race([exited, this.#pause(1000)]);
      if (this.#exit) return died(this.#exit, this.#errors.tail());
      return agentError(error, this.#errors.tail());
    });
    this.outcome = Promise.race([through, gone, broken]);
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => this.#stage.clock.timer(ms, resolve));
  }

  #log(level: 'info' | 'warn', sentence: string): void {
    this.#stage.journal.event('log', { level, stream: 'daemon', text: sentence }, 'daemon');
  }

  #connect(): acp.ClientConnection {
    const stream = wire(this.#child.stdin, this.#child.stdout, {
      tap: (message) => this.#tap(message),
      noise: (line) => this.#noise.push(Buffer.from(`${line.slice(0, 65_536)}\n`)),
      overflow: () => this.#overflow(),
      counted: (bytes) => this.#stage.counted(bytes),
    });
    return acp
      .client({ name: 'agentctl' })
      .onRequest(acp.methods.client.session.requestPermission, ({ params, signal }) => this.#permission(params, signal))
      .onRequest(acp.methods.client.elicitation.create, ({ params, signal }) => this.#elicitation(params, signal))
      .connect(stream);
  }

  /** Lets the agent wait while the journal is behind. */
  #hold(): void {
    const { journal } = this.#stage;
    if (!journal.full || this.#held) return;
    this.#held = true;
    this.#child.stdout.pause();
    this.#child.stderr.pause();
    void journal.relieved().then(() => {
      this.#held = false;
      this.#child.stdout.resume();
      this.#child.stderr.resume();
    });
  }

  /** Notifications are taken in here, as they were sent: the SDK would drop what its schema does not know. */
  #tap(message: Record<string, unknown>): boolean {
    if (message.id !== undefined || typeof message.method !== 'string') return false;
    if (message.method !== acp.methods.client.session.update) return !message.method.startsWith('$/');
    const params = record(message.params);
    if (this.#session === null || params?.sessionId === this.#session) this.#update(params?.update);
    return true;
  }

  #update(update: unknown): void {
    const { clock } = this.#stage;
    this.#lastUpdate = clock.monotonic();
    const cost = costOf(update);
    if (!this.#prompting) {
      if (cost !== null) this.#spend?.baseline(cost);
      return;
    }
    if (this.#closed) return;
    this.#telling.tell(this.#mapping.update(update, this.#lastUpdate));
    this.#figures(cost);
    this.#settleLater();
    this.#hold();
  }

  #figures(cost: number | null = null): void {
    const figures: Parameters<Stage['used']>[0] = this.#mapping.counts;
    const micro = cost === null || !this.#stage.spec.harness.reports_cost ? null : (this.#spend?.total(cost) ?? null);
    if (micro !== null) Object.assign(figures, { cost_micro_usd: micro, cost_source: 'reported' });
    this.#stage.used(figures);
  }

  #settleLater(): void {
    if (this.#settling || !this.#mapping.holding) return;
    this.#settling = this.#stage.clock.timer(250, () => {
      this.#settling = null;
      if (this.#closed) return;
      this.#telling.tell(this.#mapping.settle(this.#stage.clock.monotonic()));
      this.#settleLater();
    });
  }

  async #permission(raw: unknown, signal: AbortSignal): Promise<acp.RequestPermissionResponse> {
    const { spec, clock } = this.#stage;
    const cancelled: acp.RequestPermissionResponse = { outcome: { outcome: 'cancelled' } };
    const params = record(raw);
    const call = record(params?.toolCall);
    const id = text(call?.toolCallId) ?? '';
    if (this.#closed) return cancelled;
    this.#telling.tell(this.#mapping.permission(call, clock.monotonic()));
    this.#figures();
    const options = optionsOf(params?.options);
    const choose = (optionId: string | undefined): acp.RequestPermissionResponse => {
      const chosen = options.find((option) => option.id === optionId);
      if (!chosen || chosen.kind.startsWith('reject')) this.#mapping.rejected(id);
      return chosen ? { outcome: { outcome: 'selected', optionId: chosen.id } } : cancelled;
    };
    const category = text(call?.kind) ?? this.#mapping.kindOf(id);
    const subject = subjectOf(call, category, spec.workspace.path);
    const yes = unasked(this.#stage, options, category, subject);
    if (yes) return choose(yes.id);
    if (spec.on_input === 'reject') return choose(rejecting(options)?.id);
    const draft = grantable(permissionDraft(call, options), subject);
    if (spec.on_input === 'fail') {
      this.#stage.stop({ kind: 'question', title: draft.title });
      return choose(undefined);
    }
    const reply = await this.#questions.ask(draft, signal);
    if (typeof reply === 'string' || !('option_id' in reply.answer)) return choose(undefined);
    return choose(ownOption(reply.answer.option_id, options));
  }

  async #elicitation(raw: unknown, signal: AbortSignal): Promise<acp.CreateElicitationResponse> {
    const decline: acp.CreateElicitationResponse = { action: 'decline' };
    const params = record(raw);
    const { spec } = this.#stage;
    if (this.#closed || !params || text(params.mode) !== 'form' || spec.on_input === 'reject') return decline;
    if (JSON.stringify(params).length > longestForm) {
      this.#log('warn', 'The agent asked with a form that is too long; it was declined.');
      return decline;
    }
    const draft = formDraft(params);
    if (spec.on_input === 'fail') {
      this.#stage.stop({ kind: 'question', title: draft.title });
      return { action: 'cancel' };
    }
    const reply = await this.#questions.ask(draft, signal);
    if (typeof reply === 'string') return { action: 'cancel' };
    const content = formContent(params, reply.answer);
    return content ? ({ action: 'accept', content } as acp.CreateElicitationResponse) : decline;
  }

  #within<T>(promise: Promise<T>, what: string): Promise<T> {
    return within(this.#stage.clock, startWithin, promise, `The agent did not answer ${what} in time.`);
  }

  async #converse(): Promise<Outcome> {
    const { spec, journal } = this.#stage;
    const agent = this.#connection.agent;
    const hello = await this.#within(
      agent.request('initialize', {
        protocolVersion: acp.PROTOCOL_VERSION,
        clientCapabilities: { elicitation: { form: {} } },
        clientInfo: { name: 'agentctl', version: '0.1.0' },
      }),
      'initialize',
    );
    const method = this.#launch.authMethod;
    if (method !== null) await this.#within(agent.request('authenticate', { methodId: method }), 'authenticate');
    const { session, resumed, loaded, told } = await this.#begin(record(hello.agentCapabilities) ?? {});
    const id = text(session.sessionId) ?? spec.native_session_id ?? '';
    this.#session = id;
    this.#spend ??= new Spend(spec.session_folder, id, resumed);
    journal.record({ record: 'session', native_session_id: id });
    const model = await this.#choose(id, session);
    this.#lastUpdate = this.#stage.clock.monotonic();
    if (loaded) await untilQuiet(this.#stage.clock, () => this.#lastUpdate);
    this.#stage.started(text(hello.agentInfo?.version) ?? spec.harness.version, model);
    this.#prompting = true;
    let tokens: ReturnType<typeof tokensOf> = {};
    let begun = resumed;
    return answering(spec.output_schema, spec.prompt, {
      ask: async (first = '', ...more) => {
        const said = begun ? first : withBeginning(first, spec, told);
        begun = true;
        const result = await agent.request('session/prompt', promptFor(spec, id, [said, ...more]));
        this.#telling.tell(this.#mapping.end(this.#stage.clock.monotonic()));
        tokens = addedTokens(tokens, tokensOf(result));
        this.#stage.used({ ...this.#mapping.counts, ...tokens });
        return outcomeOf(result.stopReason);
      },
      text: () => this.#mapping.text,
      log: (sentence) => this.#log('warn', sentence),
    });
  }

  /** Goes on with the conversation of before where it can, otherwise begins one. */
  async #begin(capabilities: Loose): Promise<Begun> {
    const { spec } = this.#stage;
    const agent = this.#connection.agent;
    const system = systemPrompt(capabilities, spec.instructions);
    const told = system !== null;
    const place = { cwd: spec.workspace.path, mcpServers: [], ...system };
    const native = spec.harness.capabilities.resume ? spec.native_session_id : null;
    if (native !== null) {
      const how = record(record(capabilities.sessionCapabilities)?.resume)
        ? 'session/resume'
        : capabilities.loadSession === true
          ? 'session/load'
          : null;
      this.#spend = new Spend(spec.session_folder, native, true);
      try {
        if (how === null) throw new Error('the agent cannot');
        const session = record(await this.#within(agent.request(how, { sessionId: native, ...place }), how)) ?? {};
        return { session: { ...session, sessionId: native }, resumed: true, loaded: how === 'session/load', told };
      } catch (error) {
        if (this.#connection.signal.aborted) throw error;
        this.#spend = null;
        const reason = error instanceof Error ? error.message : String(error);
        this.#log(
          'warn',
          `The conversation could not be taken up again (${reason}); a new one begins with what was said before.`,
        );
      }
    }
    const session = record(await this.#within(agent.request('session/new', place), 'session/new')) ?? {};
    return { session, resumed: false, loaded: false, told };
  }

  /** Sets model and mode where the agent offers them; the answer is the model's name as far as it is known. */
  async #choose(sessionId: string, session: Loose): Promise<string | null> {
    const { spec } = this.#stage;
    const agent = this.#connection.agent;
    const options = optionsIn(session.configOptions);
    const offered = options.find((option) => option.category === 'model');
    const set = async (configId: string, value: string): Promise<void> => {
      try {
        await this.#within(
          agent.request('session/set_config_option', { sessionId, configId, value }),
          'session/set_config_option',
        );
      } catch (error) {
        this.#log('warn', `The agent did not take ${value} as ${configId}: ${(error as Error).message}`);
      }
    };
    if (spec.model !== null && !spec.gateway && offered && offered.current !== spec.model) {
      if (offered.values.includes(spec.model)) await set(offered.id, spec.model);
      else
        this.#log(
          'info',
          `The agent does not offer the model ${spec.model} as an option; its start environment decides.`,
        );
    }
    const mode = { ...spec.harness.modes, ...(spec.sandbox && spec.harness.enclosed_modes) }[spec.permission_mode];
    const modes = options.find((option) => option.category === 'mode');
    if (mode !== undefined && modes?.values.includes(mode)) {
      if (modes.current !== mode) await set(modes.id, mode);
    } else if (mode !== undefined) {
      const plain = list(record(session.modes)?.availableModes).map((entry) => text(record(entry)?.id));
      if (plain.includes(mode))
        await this.#within(agent.request('session/set_mode', { sessionId, modeId: mode }), 'session/set_mode');
    }
    return spec.model ?? offered?.current ?? text(record(session.models)?.currentModelId);
  }

  stop(): number {
    this.#questions.end();
    if (this.#session === null || !this.#prompting) return 0;
    this.#connection.agent.notify('session/cancel', { sessionId: this.#session }).catch(() => {});
    return cancelWithin;
  }

  answer(request_id: string, answer: InputAnswer): void {
    this.#questions.answer(request_id, answer);
  }

  close(): Promise<string | null> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<string | null> {
    this.#questions.end();
    await Promise.race([this.#exited, this.#pause(250)]);
    this.#closed = true;
    this.#settling?.();
    this.#telling.tell(this.#mapping.end(this.#stage.clock.monotonic()));
    this.#errors.end();
    this.#noise.end();
    this.#spend?.keep();
    this.#connection.close();
    this.#child.stdin.destroy();
    this.#child.stdout.destroy();
    this.#child.stderr.destroy();
    return this.#mapping.text;
  }
}

/** Starts an ACP agent and gives it the prompt. Throws when it cannot even be tried. */
export function startAcp(stage: Stage): Half {
  return new Conversation(stage);
}
