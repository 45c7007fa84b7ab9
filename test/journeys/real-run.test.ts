import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import type { Event } from '../../src/api/client.ts';
import { installed, realAgents } from '../kit/agents.ts';
import { createHome } from '../kit/daemon.ts';
import { startFakeModel } from '../kit/fake-model.ts';
import { harnessConfig } from '../kit/harness-config.ts';

const scripts = [
  // First, as an agent that cannot resume is told the earlier words in the same prompt.
  { when: 'AGAIN', steps: [{ text: 'I remember HELLO.' }] },
  {
    when: 'HELLO',
    steps: [
      {
        text: 'I will write the file.',
        calls: [{ do: 'write' as const, path: 'hello.txt', content: 'hello from the model\n' }],
      },
      { text: 'Done: hello.txt is written.' },
    ],
  },
];

for (const agent of realAgents.filter(({ id }) => id === 'gemini' || id === 'opencode'))
  test(
    `${agent.id}, as a person uses it: agentctl run in a repository, followed, and once more`,
    { timeout: 240_000 },
    async ({ skip }) => {
      const found = await installed(agent);
      if ('missing' in found) {
        console.info(found.missing);
        return skip(found.missing);
      }
      const model = await startFakeModel({ scripts });
      const home = createHome(harnessConfig(agent.id, agent.settings(model.url)));
      home.env.PATH = `${found.path}:${dirname(process.execPath)}:/usr/bin:/bin`;
      const cwd = realpathSync(mkdtempSync(join(tmpdir(), 'agentctl-real-')));
      execFileSync('git', ['init', '-q'], { cwd });
      writeFileSync(join(cwd, 'readme.md'), 'here\n');
      try {
        // The best installed agent is taken without being named; without a sandbox it needs a word.
        const run = await home.cli(
          [
            'run',
            '--model',
            agent.model,
            '--sandbox',
            'none',
            '--permission',
            'accept-edits',
            '--json',
            'HELLO please',
          ],
          { cwd },
        );
        expect(run.stderr.toLowerCase()).toContain(agent.id);
        expect(run).toMatchObject({ code: 0 });
        const events = run.stdout
          .trim()
          .split('\n')
          .map((line) => JSON.parse(line) as Event);
        const types = new Set(events.map(({ type }) => type));
        for (const type of [
          'run.started',
          'message.completed',
          'tool.started',
          'tool.completed',
          'file.changed',
          'usage.updated',
          'run.completed',
        ])
          expect(types).toContain(type);
        expect(readFileSync(join(cwd, 'hello.txt'), 'utf8')).toContain('hello from the model');
        const { run_id } = events[0]!;
        const result = JSON.parse((await home.cli(['runs', 'result', run_id, '--json'])).stdout);
        expect(result).toMatchObject({
          final: true,
          status: 'completed',
          changes: { files: [{ path: 'hello.txt', change: 'added' }] },
        });
        expect(result.text).toContain('hello.txt is written');
        expect(result.usage.input_tokens).toBeGreaterThan(0);

        const next = await home.cli(
          ['run', '-c', '--model', agent.model, '--sandbox', 'none', '--on-input', 'fail', 'AGAIN please'],
          {
            cwd,
          },
        );
        expect(next).toMatchObject({ code: 0, stdout: 'I remember HELLO.\n' });
        // Whether it resumed its own conversation or was told what had been said: the model saw both prompts.
        const asked = JSON.stringify(
          model.requests().findLast(({ body }) => JSON.stringify(body).includes('AGAIN please'))?.body,
        );
        expect(asked).toContain('HELLO please');
      } finally {
        await home.cli(['down']);
        await model.close();
        home.remove();
        rmSync(cwd, { recursive: true, force: true });
      }
    },
  );
