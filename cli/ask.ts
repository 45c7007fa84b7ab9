import type { Context } from './context.ts';
import { exit, Stop } from './exit.ts';

/** Asks before something is removed; --yes answers. Throws Stop when the answer is no or nobody can be asked. */
export async function confirmed({ flags, canAsk, stdin }: Context, question: string): Promise<void> {
  if (flags.yes) return;
  if (!canAsk) throw new Stop(exit.usage, `${question} Nobody can be asked here.`, 'repeat with --yes');
  const { createInterface } = await import('node:readline/promises');
  const reader = createInterface({ input: stdin, output: process.stderr });
  try {
    if (/^y(es)?$/i.test((await reader.question(`${question} [y/N] `)).trim())) return;
  } finally {
    reader.close();
  }
  throw new Stop(exit.failed, 'Nothing was changed.');
}
