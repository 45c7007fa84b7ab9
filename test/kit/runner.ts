import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { EventData, EventDraft, EventType } from '../../src/api/events.ts';
import { systemClock } from '../../src/base/clock.ts';
import { socketAddress } from '../../src/runner/address.ts';
import { endRun, tracesIn } from '../../src/runner/ending.ts';
import type { Command, ControlRecord, RunnerIdentity, RunSpec } from '../../src/runner/protocol.ts';
import { protocolVersion, runFiles } from '../../src/runner/protocol.ts';
import { type Frame, readSpool } from '../../src/runner/spool.ts';
import { type Script, scriptedAgent } from './scripted-agent.ts';
import { fromSource } from './source.ts';

const program = fileURLToPath(new URL('../../src/runner/main.ts', import.meta.url));

export type Final = Extract<ControlRecord, { record: 'final' }>;

/** Asks until there is an answer; throws after `ms`. */
export async function until<T>(ask: () => T | undefined | null | false, what: string, ms = 20_000): Promise<T> {
  for (const begin = Date.now(); ;) {
    const answer = ask();
    if (answer !== undefined && answer !== null && answer !== false) return answer;
    const waited = Date.now() - begin;
    if (waited > ms) throw new Error(`There was no ${what} within ${ms} ms.`);
    await new Promise((resolve) => setTimeout(resolve, Math.min(10 + waited / 10, 100)));
  }
}

/** A place for one run, with its workspace; goes with all in it, processes too, when disposed. */
export class Place implements AsyncDisposable {
  readonly root = mkdtempSync(join(tmpdir(), 'agentctl-run-'));
  readonly workspace = join(this.root, 'ws');
  readonly folder: string;
  readonly session: string;
  readonly artifacts: string;
  readonly runners: Runner[] = [];

  constructor(name = 'run') {
    this.folder = join(this.root, name);
    this.session = join(this.root, 'session');
    this.artifacts = join(this.root, 'artifacts');
    for (const path of [this.workspace, this.folder, this.session, this.artifacts])
      mkdirSync(path, { recursive: true, mode: 0o700 });
  }

  /** A spec of a shell run, with what is given instead. */
  spec(prompt: string, changes: Partial<RunSpec> = {}): RunSpec {
    return {
      version: protocolVersion,
      run_id: systemClock.id(),
      nonce: 'a-nonce',
      folder: this.folder,
      session_folder: this.session,
      artifacts_folder: this.artifacts,
      workspace: { path: this.workspace, revision: 1 },
      attempt: 1,
      harness: {
        id: 'shell',
        kind: 'shell',
        version: null,
        command: [],
        env: {},
        files: {},
        auth_method: null,
        managed: null,
        modes: {},
        enclosed_modes: {},
        login: null,
        reports_cost: true,
        capabilities: { resume: true, input: true, mcp: false, usage: true, cost: true, models: true, sandbox: false },
      },
      gateway: null,
      model: null,
      prompt,
      instructions: null,
      native_session_id: null,
      transcript: [],
      env: { PATH: process.env.PATH ?? '/usr/bin:/bin', HOME: this.root, LANG: 'C.UTF-8' },
      limits: { timeout_seconds: 60, max_cost_micro_usd: null, max_turns: null },
      permission_mode: 'full',
      on_input: 'reject',
      input_timeout_seconds: 60,
      grants: [],
      output_schema: null,
      sandbox: null,
      max_output_bytes: 256 * 1_048_576,
      grace_seconds: 2,
      vigil: { stall_seconds: 0, stall_stop: false, repeated_calls: 0, repeated_calls_stop: false },
      ...changes,
    };
  }

  /** A spec of a run with the scripted agent, with what is given instead. */
  agent(script: Script, changes: Partial<RunSpec> = {}): RunSpec {
    const spec = this.spec('do it', changes);
    return { ...spec, harness: { ...spec.harness, id: 'scripted', kind: 'acp', ...scriptedAgent(script) } };
  }

  /** Starts a runner and gives it this spec. */
  start(spec: RunSpec): Runner {
    const runner = new Runner(spec);
    this.runners.push(runner);
    return runner;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const runner of this.runners) await runner.end();
    rmSync(this.root, { recursive: true, force: true });
  }
}

/** A runner, as the daemon would see it. */
export class Runner {
  readonly spec: RunSpec;
  readonly child: ChildProcess;
  readonly exited: Promise<number | null>;
  errors = '';
  #socket: Socket | null = null;
  #heard = '';

  constructor(spec: RunSpec, warm?: ChildProcess) {
    this.spec = spec;
    this.child = warm ?? warmRunner();
    this.exited = new Promise((resolve) => this.child.once('exit', (code) => resolve(code)));
    this.child.stderr?.on('data', (text: Buffer) => (this.errors += text.toString()));
    this.child.stdin?.end(`${JSON.stringify(spec)}\n`);
  }

  get spool(): string {
    return join(this.spec.folder, runFiles.spool);
  }

  frames(): Frame[] {
    const frames: Frame[] = [];
    for (let more = readSpool(this.spool, 0); more.length > 0; more = readSpool(this.spool, more.at(-1)?.end ?? 0)) {
      frames.push(...more);
    }
    return frames;
  }

  /** All events so far. */
  drafts(): EventDraft[] {
    return this.frames().flatMap(({ kind, text }) => (kind === 'e' ? [JSON.parse(text) as EventDraft] : []));
  }

  /** The data of all events of one type so far. */
  events<T extends EventType>(type: T): EventData[T][] {
    return this.drafts().flatMap((draft) => (draft.type === type ? [draft.data as EventData[T]] : []));
  }

  records(): ControlRecord[] {
    return this.frames().flatMap(({ kind, text }) => (kind === 'c' ? [JSON.parse(text) as ControlRecord] : []));
  }

  find<R extends ControlRecord['record']>(record: R): Extract<ControlRecord, { record: R }> | undefined {
    return this.records().find((one): one is Extract<ControlRecord, { record: R }> => one.record === record);
  }

  /** Waits for such a record. */
  seen<R extends ControlRecord['record']>(record: R, ms?: number): Promise<Extract<ControlRecord, { record: R }>> {
    return until(() => this.find(record), `record ${record} (${this.errors})`, ms);
  }

  /** Waits for the end; the last record must be `final`. */
  async final(ms = 30_000): Promise<Final> {
    const gone = new Promise<'late'>((resolve) => setTimeout(() => resolve('late'), ms).unref());
    if ((await Promise.race([this.exited, gone])) === 'late')
      throw new Error(`The runner did not end in ${ms} ms. ${this.errors}`);
    const last = this.records().at(-1);
    if (last?.record !== 'final') throw new Error(`The last record is ${JSON.stringify(last)}. ${this.errors}`);
    return last;
  }

  identity(): RunnerIdentity | null {
    const path = join(this.spec.folder, runFiles.identity);
    return existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as RunnerIdentity) : null;
  }

  /** Connects to the control socket. */
  async connect(): Promise<Socket> {
    await until(() => existsSync(join(this.spec.folder, runFiles.identity)), `runner.json ${this.errors}`);
    const address = socketAddress(this.spec.folder);
    const socket = connect(address.path);
    await new Promise<void>((resolve, reject) => socket.once('connect', () => resolve()).once('error', reject));
    address.release();
    socket.on('error', () => {});
    return socket;
  }

  /** Sends a command. */
  async say(command: Command): Promise<void> {
    if (!this.#socket) {
      this.#socket = await this.connect();
      this.#socket.on('data', (bytes: Buffer) => (this.#heard += bytes.toString()));
    }
    this.#socket.write(`${JSON.stringify({ nonce: this.spec.nonce, ...command })}\n`);
  }

  /** What came over the socket. */
  heard(): string {
    return this.#heard;
  }

  /** Ends the runner and all of its run, whatever state they are in. */
  async end(): Promise<void> {
    this.#socket?.destroy();
    if (this.child.exitCode === null && this.child.signalCode === null) this.child.kill('SIGKILL');
    await this.exited;
    await endRun(tracesIn(this.spec.folder, this.spec.run_id), 0, systemClock);
  }
}

/** A runner that waits for its spec. */
export function warmRunner(): ChildProcess {
  const [node, ...args] = fromSource(program);
  return spawn(node, args, {
    detached: true,
    stdio: ['pipe', 'ignore', 'pipe'],
    env: { PATH: process.env.PATH ?? '' },
  });
}
