import { spawn } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { answered } from './answering.ts';
import type { Half, Outcome, Stage } from './half.ts';
import { cut } from './joiner.ts';
import { Tail, ToolOutput } from './output.ts';

const resultBytes = 1_048_576;
const call = 'shell';
/** Milliseconds that background children may hold the pipes after the script has ended. */
const linger = 250;

const title = (script: string): string => {
  const lines = script.split('\n').map((line) => line.trim());
  const first = lines.find((line) => line !== '' && !line.startsWith('#!')) ?? lines.find((line) => line !== '') ?? '';
  return Array.from(first).slice(0, 200).join('');
};

const settled = (promise: Promise<unknown>, ms: number): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    void promise.then(() => {
      clearTimeout(timer);
      resolve();
    });
  });

/** Starts the prompt as a script: directly when it begins with `#!`, otherwise by /bin/sh; never as text in the arguments. */
export function startShell(stage: Stage): Half {
  const { spec, clock, journal } = stage;
  const failed = (message: string, details: Record<string, unknown>): Outcome => ({
    status: 'failed',
    stop_reason: 'harness_failed',
    error: { code: 'harness_failed', message, retryable: false, details },
  });
  if (!existsSync(spec.workspace.path)) {
    const error = {
      code: 'workspace_failed',
      message: 'The folder of the workspace is gone.',
      retryable: false,
      details: {},
    } as const;
    const outcome = Promise.resolve<Outcome>({ status: 'failed', stop_reason: 'harness_failed', error });
    return { outcome, stop: () => 0, answer: () => {}, close: () => Promise.resolve(null) };
  }

  const file = join(spec.folder, 'script');
  writeFileSync(file, spec.prompt, { mode: 0o700 });
  const { program, args, cwd, env } = stage.start(
    spec.prompt.startsWith('#!') ? [file] : ['/bin/sh', file],
    spec.harness.env,
    [file],
  );
  const began = clock.monotonic();
  const output = new ToolOutput({
    id: call,
    folder: spec.folder,
    clock,
    emit: (data) => journal.event('tool.output', data),
  });
  const result = new Tail(resultBytes);
  const errors = new Tail(4096);

  const child = spawn(program, args, {
    cwd,
    env,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  if (child.pid !== undefined) stage.spawned(child.pid);
  stage.started(spec.harness.version, null);
  stage.used({ tool_calls: 1, cost_micro_usd: '0', cost_source: 'reported' });
  journal.event('tool.started', {
    tool_call_id: call,
    name: 'shell',
    title: title(spec.prompt),
    category: 'execute',
    input: { script: cut(spec.prompt)[0] },
    locations: [],
    connection_id: null,
  });

  const pipes: [Readable, 'stdout' | 'stderr', Tail][] = [
    [child.stdout, 'stdout', result],
    [child.stderr, 'stderr', errors],
  ];
  let held = false;
  for (const [pipe, stream, tail] of pipes) {
    pipe.on('error', () => {});
    pipe.on('data', (bytes: Buffer) => {
      stage.counted(bytes.length);
      tail.push(bytes);
      output.push(stream, bytes);
      if (!journal.full || held) return;
      held = true;
      for (const [one] of pipes) one.pause();
      void journal.relieved().then(() => {
        held = false;
        for (const [one] of pipes) one.resume();
      });
    });
  }
  let end: { code: number | null; signal: NodeJS.Signals | null } | { error: Error } | null = null;
  const closed = new Promise<void>((resolve) => child.once('close', () => resolve()));
  const ended = new Promise<void>((resolve) => {
    child.once('error', (error) => {
      end ??= { error };
      resolve();
    });
    child.once('exit', (code, signal) => {
      end ??= { code, signal };
      resolve();
    });
  });

  const verdict = (): Outcome => {
    if (!end) return { status: 'cancelled' };
    if ('error' in end)
      return failed(`The script could not be started: ${end.error.message}`, { exit_code: null, signal: null });
    const { code, signal } = end;
    if (code === 0) return { status: 'completed' };
    const message = signal ? `The script was ended by ${signal}.` : `The script ended with exit code ${code}.`;
    return failed(message, { exit_code: code, signal, stderr_tail: errors.text() });
  };

  return {
    outcome: ended
      .then(() => settled(closed, linger))
      .then(() => answered(spec.output_schema, verdict(), result.text())),
    stop: () => 0,
    answer: () => {},
    async close() {
      await settled(ended, linger);
      if (end && !('error' in end)) await settled(closed, linger * 4);
      for (const [pipe] of pipes) pipe.destroy();
      const exit_code = end && 'code' in end ? end.code : null;
      journal.event('tool.completed', {
        tool_call_id: call,
        status: exit_code === 0 ? 'completed' : 'failed',
        exit_code,
        output: output.end(),
        duration_ms: Math.round(clock.monotonic() - began),
      });
      return result.text();
    },
  };
}
