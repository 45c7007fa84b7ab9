import { isatty } from 'node:tty';
import { basename, dirname } from 'node:path';
import { type Logger, pino } from 'pino';
import { createStream } from 'rotating-file-stream';
import type { Config } from '../src/base/config.ts';
import { redacted } from '../src/base/log.ts';

/** The daemon's log: JSON lines in a file that is rotated by size; nothing secret in it. In a terminal, warnings are shown too. */
export function openLog(
  path: string,
  { level, max_megabytes, keep }: Config['log'],
): { log: Logger; close(): Promise<void> } {
  const file = createStream((_time, index) => (index === undefined ? basename(path) : `${basename(path)}.${index}`), {
    path: dirname(path),
    size: `${max_megabytes}M`,
    rotate: keep,
    mode: 0o600,
  });
  const streams: { level: string; stream: { write(line: string): unknown } }[] = [{ level, stream: file }];
  if (isatty(2)) streams.push({ level: 'warn', stream: process.stderr });
  const log = pino(
    {
      level,
      base: { pid: process.pid },
      redact: { paths: redacted.flatMap((key) => [key, `*.${key}`, `*.*.${key}`]), censor: '[redacted]' },
      timestamp: pino.stdTimeFunctions.isoTime,
    },
    pino.multistream(streams as never),
  );
  return { log, close: () => new Promise((resolve) => file.end(() => resolve())) };
}
