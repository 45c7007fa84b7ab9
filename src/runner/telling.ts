import type { Step } from '../harness/acp.ts';
import type { Stage } from './half.ts';
import { Joiner } from './joiner.ts';
import { ToolOutput } from './output.ts';

type Delta = 'message.delta' | 'reasoning.delta';

/** Puts the steps of a conversation into the journal: deltas and output joined, output bounded, all in their order. */
export class Telling {
  readonly #stage: Stage;
  readonly #outputs = new Map<string, ToolOutput>();
  #speech: { type: Delta; id: string; joiner: Joiner } | null = null;

  constructor(stage: Stage) {
    this.#stage = stage;
  }

  tell(steps: readonly Step[]): void {
    for (const step of steps) this.#one(step);
  }

  #one(step: Step): void {
    const { journal } = this.#stage;
    switch (step.type) {
      case 'message.delta':
      case 'reasoning.delta':
        return this.#delta(step.type, step.data.message_id, step.data.text);
      case 'tool.output':
        return this.#output(step.data.tool_call_id).push(null, Buffer.from(step.data.text));
      case 'tool.completed': {
        this.#fallSilent();
        const output = this.#outputs.get(step.data.tool_call_id);
        this.#outputs.delete(step.data.tool_call_id);
        journal.event('tool.completed', { ...step.data, output: output?.end() ?? null });
        return this.#stage.touched();
      }
      default:
        this.#fallSilent();
        if (step.type === 'tool.started') this.#stage.toolCalled(step.data.name, step.data.input);
        journal.event(step.type, step.data, step.type === 'log' ? 'daemon' : 'harness');
    }
  }

  #delta(type: Delta, id: string, text: string): void {
    if (this.#speech?.type !== type || this.#speech.id !== id) {
      this.#fallSilent();
      const { clock, journal } = this.#stage;
      const joiner = new Joiner(clock, (piece) => journal.event(type, { message_id: id, text: piece }));
      this.#speech = { type, id, joiner };
    }
    this.#speech?.joiner.push(text);
  }

  #fallSilent(): void {
    this.#speech?.joiner.flush();
    this.#speech = null;
  }

  #output(id: string): ToolOutput {
    let output = this.#outputs.get(id);
    if (!output) {
      const { clock, journal, spec } = this.#stage;
      output = new ToolOutput({ id, folder: spec.folder, clock, emit: (data) => journal.event('tool.output', data) });
      this.#outputs.set(id, output);
    }
    return output;
  }
}
