import { existsSync } from 'node:fs';
import { runProcess } from './process.ts';
import { countOf, longestAnswer, textOf, type Tool, ToolError } from './tool.ts';

const usualSeconds = 120;
const mostSeconds = 3600;
const bash = ['/bin/bash', '/usr/bin/bash'].find((path) => existsSync(path));

/** `shell`: a command in the workspace. */
export const shell: Tool = {
  name: 'shell',
  kind: 'execute',
  description: `Run a command with ${bash ? 'bash' : 'sh'} in the workspace's root; each starts anew there. No input, no terminal. Ends after timeout_seconds (120 when left out). Long output is cut in the middle.`,
  schema: {
    properties: {
      command: { type: 'string' },
      timeout_seconds: { type: 'integer', minimum: 1, maximum: mostSeconds },
    },
    required: ['command'],
  },
  title: ({ command }) => String(command).split('\n')[0]?.slice(0, 200) ?? '',
  asks: true,
  async run(input, { root, env, signal, show }) {
    const command = textOf(input, 'command');
    if (command.trim() === '') throw new ToolError('The command is empty.');
    const seconds = Math.min(countOf(input, 'timeout_seconds', usualSeconds), mostSeconds);
    const options = { cwd: root, env, signal, show, timeout: seconds * 1000, most: longestAnswer };
    // One pipe for both streams: what was said first comes first.
    const script = `exec 2>&1\n${command}`;
    const { code, signal: by, output, timed_out } = await runProcess(bash ?? '/bin/sh', ['-c', script], options);
    const end = timed_out
      ? `[ended after ${seconds} s]`
      : by
        ? `[ended by ${by}]`
        : code === 0
          ? ''
          : `[exit code ${code}]`;
    const said = output.trimEnd();
    return { text: [said, end].filter(Boolean).join('\n') || '[no output]', exit_code: code };
  },
};
