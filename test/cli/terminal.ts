import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { spawn } from '@lydell/node-pty';
import xterm from '@xterm/headless';
import { rolldown } from 'rolldown';

/** Bundles an entry of ours into a temporary folder; gives the file. */
export async function bundle(entry: string): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'agentctl-cli-'));
  const built = await rolldown({
    input: { program: entry },
    platform: 'node',
    external: [/^react-devtools-core/, /^better-sqlite3/],
    transform: { define: { 'process.env.NODE_ENV': '"production"', 'process.env.AGENTCTL_VERSION': '"0.0.0-test"' } },
  });
  await built.write({
    dir: folder,
    format: 'esm',
    entryFileNames: '[name].mjs',
    chunkFileNames: 'chunks/[name]-[hash].mjs',
  });
  await built.close();
  return join(folder, 'program.mjs');
}

/** A program in a real terminal whose screen can be read. */
export interface Terminal {
  screen(): string[];
  /** Everything that has scrolled by, and the screen. */
  history(): string[];
  write(keys: string): void;
  resize(columns: number, rows: number): void;
  kill(signal: string): void;
  /** Waits until the text of screen and history fits. */
  until(fits: RegExp | ((text: string) => boolean), ms?: number): Promise<string>;
  exited: Promise<number>;
  readonly raw: string;
  readonly emulator: InstanceType<typeof xterm.Terminal>;
}

/** Starts `node file` in a pseudo terminal. */
export function open(
  file: string,
  args: string[],
  env: Record<string, string>,
  columns = 80,
  rows = 24,
  cwd = process.cwd(),
): Terminal {
  const emulator = new xterm.Terminal({ cols: columns, rows, scrollback: 5000, allowProposedApi: true });
  const base = { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '', TERM: 'xterm-256color', LANG: 'C.UTF-8' };
  const child = spawn(process.execPath, [file, ...args], {
    name: 'xterm-256color',
    cols: columns,
    rows,
    cwd,
    env: { ...base, ...env },
  });
  let raw = '';
  const waiting = new Set<() => void>();
  child.onData((data) => {
    raw += data;
    emulator.write(data, () => {
      for (const look of waiting) look();
    });
  });
  // What the program asks of the terminal is answered, as a real one would.
  emulator.onData((data) => child.write(data));
  const lines = (from: number, to: number) =>
    Array.from(
      { length: to - from },
      (_, n) => emulator.buffer.active.getLine(from + n)?.translateToString(true) ?? '',
    );
  const screen = () => lines(emulator.buffer.active.baseY, emulator.buffer.active.baseY + emulator.rows);
  const history = () => lines(0, emulator.buffer.active.baseY + emulator.rows);
  const exited = new Promise<number>((resolve) =>
    child.onExit(({ exitCode }) => setTimeout(() => resolve(exitCode), 20)),
  );
  return {
    screen,
    history,
    exited,
    emulator,
    get raw() {
      return raw;
    },
    write: (keys) => child.write(keys),
    resize(cols, height) {
      emulator.resize(cols, height);
      child.resize(cols, height);
    },
    kill: (signal) => child.kill(signal),
    until: (fits, ms = 15_000) =>
      new Promise((resolve, reject) => {
        const test = typeof fits === 'function' ? fits : (text: string) => fits.test(text);
        const done = (end: () => void) => {
          clearTimeout(timer);
          waiting.delete(look);
          end();
        };
        const look = () => {
          const text = history().join('\n');
          if (test(text)) done(() => resolve(text));
        };
        const timer = setTimeout(
          () => done(() => reject(new Error(`Not seen: ${String(fits)}\n${history().join('\n')}`))),
          ms,
        );
        waiting.add(look);
        look();
      }),
  };
}
