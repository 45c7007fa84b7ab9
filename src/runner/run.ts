import { closeSync, fsyncSync, openSync, renameSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { type Clock, iso } from '../base/clock.ts';
import type { Usage } from '../api/usage.ts';
import { fileOf } from '../harness/row.ts';
import { Control } from './control.ts';
import { endRun, Lineage, stamp, tracesOf } from './ending.ts';
import { Billing } from './billing.ts';
import type { Cause, Half, Outcome, Stage } from './half.ts';
import { Journal } from './journal.ts';
import { Meter } from './meter.ts';
import { identityOf } from './processes.ts';
import type { Command, HarnessTraces, RunnerIdentity, RunSpec } from './protocol.ts';
import { protocolVersion, runFiles } from './protocol.ts';
import { Enclosure, type Start } from './sandbox/enclosure.ts';
import { type Finding, sentenceOf, Vigil } from './vigil.ts';
import { Watch } from './tree.ts';
import { verdictOf } from './verdict.ts';

/** Milliseconds that leftovers of a run which ended well get between SIGTERM and SIGKILL. */
const leftoverGrace = 2000;

/** Writes a small file so that it is whole or not there: beside it, flushed, renamed. Mode 0600. */
function writeWhole(path: string, text: string): void {
  const file = openSync(`${path}.new`, 'w', 0o600);
  try {
    writeSync(file, text);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  renameSync(`${path}.new`, path);
}

/** One run, from its spec to its final record. */
export class Run implements Stage {
  readonly spec: RunSpec;
  readonly clock: Clock;
  readonly journal: Journal;
  readonly #meter: Meter;
  readonly #vigil: Vigil;
  #control: Control | null = null;
  #watch: Watch | null = null;
  #lineages: Lineage[] = [];
  #enclosure: Enclosure | null = null;
  #billing: Billing | null = null;
  #half: Half | null = null;
  #cause: Cause | null = null;
  #over = false;
  #output = 0;
  #stopped: () => void = () => {};
  readonly #stopping = new Promise<void>((resolve) => (this.#stopped = resolve));

  /** Creates the spool. Throws EEXIST when this folder has had its run. */
  constructor(spec: RunSpec, clock: Clock) {
    this.spec = spec;
    this.clock = clock;
    this.journal = new Journal(join(spec.folder, runFiles.spool), {
      clock,
      grown: (size) => this.#control?.wake(size),
      stuck: (error) => this.stop({ kind: 'disk', message: error.message }),
    });
    this.#vigil = new Vigil({ clock, settings: spec.vigil, found: (...found) => this.#found(...found) });
    this.#meter = new Meter({
      clock,
      limits: spec.limits,
      report: (usage) => this.#usage(usage),
      warn: (limit, percent) => this.journal.event('limit.warning', { limit, percent }, 'daemon'),
      exceeded: (limit, usage) => this.#exceeded(limit, usage),
    });
  }

  /** Carries the run out; resolves when its final record is on the disk and nobody is left of it. */
  async execute(): Promise<void> {
    const { spec, clock } = this;
    this.#control = await Control.listen(spec.folder, spec.nonce, (command) => this.#obey(command));
    this.#control.wake(this.journal.size);
    this.#identify();
    this.#watch = await Watch.start({
      root: spec.workspace.path,
      clock,
      changed: (changes) => this.journal.record({ record: 'changed', at: iso(clock.now()), changes }),
      gaveUp: (reason) =>
        this.journal.event(
          'log',
          { level: 'warn', stream: 'daemon', text: `Changes of files are not watched in this run: ${reason}` },
          'daemon',
        ),
    });
    let outcome: Outcome = { status: 'cancelled' };
    if (!this.#cause) {
      try {
        if (spec.gateway) this.#billing = await Billing.open(this, spec.gateway);
        if (spec.sandbox) this.#enclosure = await Enclosure.open(spec, spec.sandbox, (text) => this.#warn(text));
        const half =
          spec.harness.kind === 'shell'
            ? (await import('./shell.ts')).startShell(this)
            : (await import('./acp.ts')).startAcp(this);
        this.#half = half;
        outcome = await this.#until(half);
      } catch (error) {
        this.stop({ kind: 'internal', message: (error as Error).message });
      }
    }
    await this.#finish(outcome);
  }

  #identify(): void {
    const identity = identityOf(process.pid);
    if (!identity) throw new Error('This process is not in the process table.');
    const contents: RunnerIdentity = {
      version: protocolVersion,
      run_id: this.spec.run_id,
      nonce: this.spec.nonce,
      ...identity,
    };
    writeWhole(join(this.spec.folder, runFiles.identity), JSON.stringify(contents));
  }

  /** The outcome, or `cancelled` when the harness did not come to one after it was told to stop. */
  async #until(half: Half): Promise<Outcome> {
    const early = await Promise.race([half.outcome, this.#stopping]);
    if (early) {
      this.#over = true;
      return early;
    }
    const patience = half.stop();
    const late = await Promise.race([
      half.outcome,
      new Promise<null>((resolve) => this.clock.timer(patience, () => resolve(null))),
    ]);
    return late ?? { status: 'cancelled' };
  }

  async #finish(outcome: Outcome): Promise<void> {
    const { spec, clock, journal } = this;
    this.#over = true;
    this.#meter.stop();
    this.#vigil.pause();
    const graceMs = spec.grace_seconds * 1000;
    const left: number[] = [];
    const traces = this.#lineages.length > 0 ? this.#lineages.map((one) => one.traces) : [];
    for (const one of this.#lineages) one.stop();
    for (const one of traces) {
      const ending = await endRun(one, this.#cause ? graceMs : Math.min(graceMs, leftoverGrace), clock);
      left.push(...ending.left.map(({ pid }) => pid));
    }
    let text: string | null = null;
    try {
      text = (await this.#half?.close()) ?? null;
    } catch (error) {
      this.#cause ??= { kind: 'internal', message: (error as Error).message };
    }
    if (left.length > 0) {
      const sentence = `These processes could not be ended: ${left.join(', ')}.`;
      journal.event('log', { level: 'error', stream: 'daemon', text: sentence }, 'daemon');
    }
    await this.#enclosure?.close();
    const changed = await this.#watch?.end();
    if (changed && changed.left > 0) {
      const sentence = `The list of changes ends after ${changed.changes.length} files; ${changed.left} more changed.`;
      journal.event('log', { level: 'warn', stream: 'daemon', text: sentence }, 'daemon');
    }
    await this.#billing?.close();
    const verdict = verdictOf(this.#cause, outcome, this.#billing?.failure);
    this.#usage(this.#meter.usage);
    await journal.flush();
    journal.record({
      record: 'final',
      at: iso(clock.now()),
      ...verdict,
      usage: this.#meter.usage,
      text,
      structured_output:
        verdict.status === 'completed' && outcome.status === 'completed' ? (outcome.structured_output ?? null) : null,
      changes: changed?.changes ?? [],
    });
    await journal.flush();
    await this.#control?.close();
    journal.close();
  }

  #warn(text: string): void {
    this.journal.event('log', { level: 'warn', stream: 'daemon', text }, 'daemon');
  }

  #obey(command: Command): void {
    if (command.command === 'cancel') this.stop({ kind: 'cancel' });
    else if (command.command === 'grants') this.spec.grants = command.grants;
    else if (command.command === 'answer') this.#half?.answer(command.request_id, command.answer);
  }

  #usage(usage: Usage): void {
    this.journal.record({ record: 'usage', at: iso(this.clock.now()), usage, limit_percent: this.#meter.percent });
  }

  #exceeded(limit: 'cost' | 'time' | 'turns', usage: Usage): void {
    const { timeout_seconds, max_cost_micro_usd, max_turns } = this.spec.limits;
    if (limit === 'time') this.stop({ kind: 'time', seconds: timeout_seconds ?? 0 });
    else if (limit === 'turns') this.stop({ kind: 'turns', limit: max_turns ?? 0 });
    else this.stop({ kind: 'cost', spent: usage.cost_micro_usd ?? '0', limit: max_cost_micro_usd ?? '0' });
  }

  stop(cause: Cause): void {
    if (this.#cause || this.#over) return;
    this.#cause = cause;
    this.#stopped();
  }

  start(command: readonly string[], more: Record<string, string>, files?: readonly string[]): Start {
    const { spec } = this;
    const env = {
      ...spec.env,
      ...more,
      [stamp]: spec.run_id,
      AGENTCTL_WORKSPACE: spec.workspace.path,
      AGENTCTL_ARTIFACTS: spec.artifacts_folder,
    };
    if (this.#enclosure) return this.#enclosure.start(command, env, files);
    const [program = '', ...args] = command;
    return { program, args, cwd: spec.workspace.path, env };
  }

  spawned(pid: number): void {
    const traces = tracesOf(this.spec.run_id, pid, this.#enclosure !== null);
    this.#lineages.push(new Lineage(traces, this.clock));
    const contents: HarnessTraces = {
      version: protocolVersion,
      run_id: this.spec.run_id,
      harness: traces.harness,
      pipes: [...traces.pipes],
      enclosed: traces.enclosed ?? false,
    };
    writeWhole(join(this.spec.folder, runFiles.harness), JSON.stringify(contents));
  }

  started(version: string | null, model: string | null): void {
    const harness_path = fileOf(this.spec.harness.kind === 'shell' ? ['/bin/sh'] : this.spec.harness.command);
    const at = iso(this.clock.now());
    this.journal.record({ record: 'started', at, harness_version: version, harness_path, model });
    void this.journal.flush();
    this.#meter.start();
    this.#vigil.start();
  }

  get gateway(): string | null {
    return this.#billing?.address ?? null;
  }

  used(figures: Partial<Omit<Usage, 'duration_ms'>>): void {
    // What went through the gateway is known better than the harness can tell.
    this.#meter.set(this.#billing ? { tool_calls: figures.tool_calls ?? this.#meter.usage.tool_calls } : figures);
  }

  metered(figures: Partial<Omit<Usage, 'duration_ms'>>): void {
    this.#meter.set(figures);
  }

  counted(bytes: number): void {
    this.#output += bytes;
    this.seen();
    const limit = this.spec.max_output_bytes;
    if (this.#output > limit) this.stop({ kind: 'output', limit });
  }

  waiting(on: boolean): void {
    if (this.#over && !on) return;
    for (const one of [this.#meter, this.#vigil]) {
      if (on) one.pause();
      else one.start();
    }
  }

  seen(): void {
    this.#vigil.touch();
  }

  toolCalled(name: string, input: unknown): void {
    this.#vigil.tool(name, input);
  }

  #found(finding: Finding, isEnd: boolean): void {
    this.journal.event('log', { level: 'warn', stream: 'daemon', text: sentenceOf(finding) }, 'daemon');
    if (isEnd) this.stop({ kind: 'stalled', finding });
  }

  touched(): void {
    this.#watch?.touched();
  }
}
