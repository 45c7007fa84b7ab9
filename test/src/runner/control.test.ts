import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { socketAddress } from '../../../src/runner/address.ts';
import { Control } from '../../../src/runner/control.ts';
import type { Command } from '../../../src/runner/protocol.ts';
import { until } from '../../kit/runner.ts';

const before = process.cwd();
let folder = '';
let control: Control;
let commands: Command[] = [];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'agentctl-control-'));
  commands = [];
  control = await Control.listen(folder, 'right', (command) => commands.push(command));
});
afterEach(async () => {
  await control.close();
  process.chdir(before);
  rmSync(folder, { recursive: true, force: true });
});

async function client(): Promise<Socket & { text: () => string }> {
  const address = socketAddress(folder);
  const socket = connect(address.path);
  await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject));
  address.release();
  socket.on('error', () => {});
  let text = '';
  socket.on('data', (bytes: Buffer) => (text += bytes.toString()));
  return Object.assign(socket, { text: () => text });
}
const closed = (socket: Socket): Promise<unknown> => new Promise((resolve) => socket.once('close', resolve));

test('commands in pieces and in heaps', async () => {
  expect(statSync(join(folder, 'ctl.sock')).mode & 0o777).toBe(0o600);
  const socket = await client();
  const answer = { command: 'answer', request_id: 'r', answer: { text: 'é'.repeat(100_000) } };
  const line = `${JSON.stringify({ nonce: 'right', ...answer })}\n`;
  const bytes = Buffer.from(`${line}{"nonce":"right","command":"ping"}\n{"nonce":"right","command":"cancel"}\n`);
  for (let at = 0; at < bytes.length; at += 7777) socket.write(bytes.subarray(at, at + 7777));
  await until(() => commands.length === 2, 'commands');
  expect(commands).toMatchObject([answer, { command: 'cancel' }]);
  expect(socket.text()).toContain('{"pong":true}\n');
  socket.destroy();
});

test.each([
  'nonsense\n',
  '{"nonce":"wrong","command":"cancel"}\n',
  '{"command":"cancel"}\n',
  'null\n',
  '[]\n',
  '{"nonce":5}\n',
])('a line that is no command ends the connection: %j', async (line) => {
  const socket = await client();
  socket.write(line);
  await closed(socket);
  expect(commands).toEqual([]);
});

test('a line without an end is cut off', async () => {
  const socket = await client();
  const gone = closed(socket);
  const block = Buffer.alloc(1_048_576, 'x');
  for (let n = 0; n < 12 && !socket.destroyed; n++) await new Promise((resolve) => socket.write(block, resolve));
  await gone;
  expect(commands).toEqual([]);
});

test('who does not read costs nothing, and hears the latest when it does', async () => {
  const socket = await client();
  await until(() => socket.text().length > 0, 'first wake-up');
  socket.pause();
  const start = process.memoryUsage().heapUsed;
  for (let size = 1; size <= 300_000; size++) {
    control.wake(size);
    if (size % 10_000 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  expect(process.memoryUsage().heapUsed - start).toBeLessThan(64 * 1_048_576);
  socket.resume();
  await until(() => socket.text().includes('{"wake":300000}\n'), 'last wake-up');
  socket.destroy();
});
