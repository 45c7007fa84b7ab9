import { render } from 'ink';
import type { Event } from '../../src/api/client.ts';
import { Fault } from '../../src/api/error.ts';
import type { RunResult } from '../../src/api/runs.ts';
import { type Ending, type Following, statusOf } from '../follow.ts';
import { App } from './app.tsx';
import { type Action, actionOf, type Pressed } from './keys.ts';
import type { Screen } from './live.ts';
import { begin, reduce, type Start, summarised, type View } from './state.ts';

/** What the live view needs of the world; a test gives its own. */
export interface Source {
  start: Start & { workspace: string | null };
  events(options: {
    signal: AbortSignal;
    onConnection: (state: 'open' | 'lost') => void;
    onGap: (gap: { from: number; to: number }) => void;
  }): AsyncIterable<Event>;
  cancel(): Promise<unknown>;
  answer(requestId: string, answer: { option_id: string } | { text: string }): Promise<unknown>;
  result(): Promise<RunResult>;
}

/** How the view is used. */
export interface ViewOptions {
  mode: 'run' | 'attach';
  /** Leave with `waiting` when the run asks something. */
  noInput: boolean;
  stdin: NodeJS.ReadStream;
  stdout: NodeJS.WriteStream;
}

/** Milliseconds between two frames: 30 a second. */
const frame = 33;

/** Shows a run until it ends or is left; the terminal is as before when the promise settles. */
export async function show(source: Source, options: ViewOptions): Promise<{ ending: Ending; cancelledByUs: boolean }> {
  const { mode, noInput, stdin, stdout } = options;
  let view: View = begin(source.start);
  let screen: Omit<Screen, 'width' | 'height'> = {
    thinking: false,
    output: false,
    now: Date.now(),
    tick: 0,
    workspace: source.start.workspace,
    lostSince: null,
    mode,
    cancelling: false,
    confirming: false,
    always: null,
    typing: null,
    notice: null,
  };
  let ending: Ending | undefined;
  let cancelledByUs = false;
  let drawing: NodeJS.Timeout | undefined;
  const abort = new AbortController();

  const onKey = (key: Pressed) => {
    const { confirming, always, cancelling, typing } = screen;
    act(actionOf({ mode, pending: view.pending[0] ?? null, confirming, always, cancelling, typing }, key));
  };
  const frameOf = () => <App view={view} screen={screen} onKey={onKey} />;
  const ink = render(frameOf(), { stdin, stdout, exitOnCtrlC: false, patchConsole: false, interactive: true });
  const draw = () => {
    drawing ??= setTimeout(() => {
      drawing = undefined;
      screen = { ...screen, now: Date.now() };
      ink.rerender(frameOf());
    }, frame);
  };
  const set = (change: Partial<Screen>) => {
    screen = { ...screen, ...change };
    draw();
  };
  const stop = (with_: Ending) => {
    ending ??= with_;
    abort.abort();
  };
  const failed = (error: unknown) =>
    set({ notice: error instanceof Fault || error instanceof Error ? error.message : String(error) });
  const act = (action: Action) => {
    if (screen.notice) set({ notice: null });
    switch (action.do) {
      case 'nothing':
        return;
      case 'leave':
        return stop({ kind: 'left', cancelling: cancelledByUs });
      case 'cancel':
        cancelledByUs = true;
        set({ cancelling: true, confirming: false });
        source.cancel().catch((error: unknown) => {
          failed(error);
          set({ cancelling: false });
        });
        return;
      case 'ask-cancel':
        return set({ confirming: true });
      case 'unask':
        return set({ confirming: false });
      case 'show-always':
        return set({ always: action.request });
      case 'toggle-thinking':
        return set({ thinking: !screen.thinking });
      case 'toggle-output':
        return set({ output: !screen.output });
      case 'type':
        return set({ typing: action.text });
      case 'answer':
        set({ typing: null });
        source.answer(action.request.id, action.answer).catch(failed);
    }
  };

  const beat = setInterval(() => {
    screen = { ...screen, tick: screen.tick + 1 };
    draw();
  }, 120);
  const onInterrupt = () => onKey({ input: 'c', ctrl: true });
  process.on('SIGINT', onInterrupt);
  const note = (text: string) => {
    view = {
      ...view,
      blocks: [...view.blocks, { key: `note${view.blocks.length}`, kind: 'note', level: 'warn', text }],
    };
  };
  try {
    const onConnection = (state: 'open' | 'lost') =>
      set({ lostSince: state === 'open' ? null : (screen.lostSince ?? Date.now()) });
    const onGap = ({ from, to }: { from: number; to: number }) => note(`Events ${from} to ${to} are no longer kept.`);
    for await (const event of source.events({ signal: abort.signal, onConnection, onGap })) {
      view = reduce(view, event);
      if (event.type === 'input.requested') {
        stdout.write('\u0007');
        if (noInput) stop({ kind: 'waiting' });
      }
      draw();
      const status = statusOf(event);
      if (status && view.ended) ending = { kind: 'ended', status, stop_reason: view.ended.data.stop_reason, event };
      if (ending) break;
    }
    if (ending?.kind === 'ended') view = summarised(view, (await source.result().catch(() => null))?.changes ?? null);
  } finally {
    clearInterval(beat);
    clearTimeout(drawing);
    process.off('SIGINT', onInterrupt);
    // The last frame: what has ended stays in the scrollback, what moved is gone.
    view = { ...view, ended: view.ended ?? left(view) };
    ink.rerender(frameOf());
    await ink.waitUntilRenderFlush();
    ink.unmount();
    await ink.waitUntilExit().catch(() => {});
  }
  return { ending: ending ?? { kind: 'left', cancelling: cancelledByUs }, cancelledByUs };
}

/** Stands for an end in the last frame of a run that goes on: nothing moves any more. */
const left = (view: View): View['ended'] => ({
  status: 'completed',
  data: { stop_reason: 'end_turn', error: null, usage: view.usage as never },
});

/** The live view of a run of the daemon. */
export async function liveView(following: Following): Promise<{ ending: Ending; cancelledByUs: boolean }> {
  const { context, client, runId, interrupt } = following;
  const path = { run_id: runId };
  const run = await client.call('getRun', { path });
  const workspace = await client.call('getWorkspace', { path: { workspace_id: run.workspace_id } }).catch(() => null);
  const { harness, model, prompt, limits } = run;
  const source: Source = {
    start: { runId, harness, model, prompt, limits, workspace: workspace?.name ?? null },
    events: (options) => client.follow(runId, options),
    cancel: () => client.insist('cancelRun', { path, body: {} }),
    answer: (request_id, answer) => client.insist('submitRunInput', { path, body: { request_id, ...answer } }),
    result: () => client.call('getRunResult', { path }),
  };
  const mode = interrupt === 'cancel' ? 'run' : 'attach';
  return show(source, { mode, noInput: context.flags.input === false, stdin: context.stdin, stdout: process.stdout });
}
