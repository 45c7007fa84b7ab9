import { timingSafeEqual } from 'node:crypto';
import { chmodSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { chdir } from 'node:process';
import { type Command, type CommandLine, runFiles } from './protocol.ts';

/** An answer holds at most 1 MiB of text; in JSON that may be six times as long. */
const longestLine = 8 * 1_048_576;
const mostConnections = 64;
/** Bytes of pongs that a connection may leave unread. */
const unread = 4096;

/** How far a connection has been told: a wake-up is on its way, and the spool has grown since. */
interface Listener {
  waking: boolean;
  stale: boolean;
}

const equal = (one: unknown, other: Buffer): boolean => {
  const bytes = Buffer.from(typeof one === 'string' ? one : '');
  return bytes.length === other.length && timingSafeEqual(bytes, other);
};

/**
 * The socket in the run's folder on which commands come and wake-ups go: newline-delimited JSON. A line that is no command, has
 * the wrong nonce or is too long ends its connection.
 */
export class Control {
  readonly #server: Server;
  readonly #connections = new Map<Socket, Listener>();
  readonly #nonce: Buffer;
  readonly #obey: (command: Command) => void;
  #size = 0;

  private constructor(nonce: string, obey: (command: Command) => void) {
    this.#nonce = Buffer.from(nonce);
    this.#obey = obey;
    this.#server = createServer((socket) => this.#connected(socket));
    this.#server.maxConnections = mostConnections;
  }

  /** Listens in `folder`, which becomes the working directory: a socket's path may be shorter than the folder's. */
  static async listen(folder: string, nonce: string, obey: (command: Command) => void): Promise<Control> {
    chdir(folder);
    const control = new Control(nonce, obey);
    await new Promise<void>((resolve, reject) => {
      control.#server.once('error', reject);
      control.#server.listen(runFiles.socket, () => {
        control.#server.off('error', reject);
        resolve();
      });
    });
    // From here on an error of the socket (too many open files) must not end the run.
    control.#server.on('error', () => {});
    chmodSync(runFiles.socket, 0o600);
    return control;
  }

  #connected(socket: Socket): void {
    const state: Listener = { waking: false, stale: false };
    this.#connections.set(socket, state);
    let parts: Buffer[] = [];
    let length = 0;
    socket.on('error', () => socket.destroy());
    socket.on('close', () => this.#connections.delete(socket));
    socket.on('data', (bytes: Buffer) => {
      for (let from = 0; from < bytes.length;) {
        const end = bytes.indexOf(10, from);
        const part = bytes.subarray(from, end < 0 ? bytes.length : end);
        parts.push(part);
        length += part.length;
        if (length > longestLine) return void socket.destroy();
        if (end < 0) return;
        const line = Buffer.concat(parts).toString('utf8');
        parts = [];
        length = 0;
        from = end + 1;
        if (!this.#line(socket, line)) return void socket.destroy();
      }
    });
    this.#wakeOne(socket, state);
  }

  #line(socket: Socket, line: string): boolean {
    let command: CommandLine;
    try {
      command = JSON.parse(line) as CommandLine;
    } catch {
      return false;
    }
    if (command === null || typeof command !== 'object' || !equal(command.nonce, this.#nonce)) return false;
    if (command.command === 'ping') {
      if (socket.writableLength > unread) return false;
      socket.write('{"pong":true}\n');
    } else this.#obey(command);
    return true;
  }

  /** One wake-up is on its way at a time; what grows meanwhile is told by the next. */
  #wakeOne(socket: Socket, state: Listener): void {
    if (state.waking) {
      state.stale = true;
      return;
    }
    state.waking = true;
    state.stale = false;
    socket.write(`{"wake":${this.#size}}\n`, (error) => {
      state.waking = false;
      if (!error && state.stale) this.#wakeOne(socket, state);
    });
  }

  /** Tells all who listen that the spool has `size` bytes. */
  wake(size: number): void {
    this.#size = size;
    for (const [socket, state] of this.#connections) this.#wakeOne(socket, state);
  }

  /** Ends all connections, after what was written to them, and takes the socket away. Waits at most a quarter second. */
  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const socket of this.#connections.keys()) socket.end();
    const timer = setTimeout(() => {
      for (const socket of this.#connections.keys()) socket.destroy();
    }, 250);
    await closed;
    clearTimeout(timer);
  }
}
