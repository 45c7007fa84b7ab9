import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Context, Flags } from './context.ts';
import { microOf, secondsOf } from './words.ts';

/** What a command does; the answer is the exit code. */
// oxlint-disable-next-line typescript/no-explicit-any -- commander hands over strings and options, each command names its own
export type Action = (context: Context, options: any, ...args: any[]) => Promise<number | void>;
/** Loads a module of commands. */
export type Loader = () => Promise<Record<string, unknown>>;
/** What commander calls for a command; `override` wins over flags of the same name that mean something else there. */
export type Does = (load: Loader, name: string, override?: Partial<Flags>) => (...given: unknown[]) => Promise<void>;

/** US dollars, as micro-dollars. Throws for what is none. */
export const money = (text: string): string => {
  const micro = microOf(text);
  if (micro === undefined) throw new InvalidArgumentError('Give US dollars, such as 0.50.');
  return micro;
};
/** A time such as `90s` or `1h30m`, in seconds. Throws for what is none. */
export const seconds = (text: string): number => {
  const s = secondsOf(text);
  if (s === undefined) throw new InvalidArgumentError('Give a time, such as 90s, 20m or 1h30m.');
  return s;
};
/** A whole number. Throws for what is none. */
export const whole = (text: string): number => {
  if (!/^\d{1,15}$/.test(text)) throw new InvalidArgumentError('Give a whole number.');
  return Number(text);
};
/** `name=value`, added to those before. Throws for what is none. */
export const pairs = (text: string, before: Record<string, string> = {}): Record<string, string> => {
  const at = text.indexOf('=');
  if (at < 1) throw new InvalidArgumentError('Give name=value.');
  return { ...before, [text.slice(0, at)]: text.slice(at + 1) };
};

/** One more of an option that may be repeated. */
export const several = (text: string, before: string[] = []): string[] => [...before, text];

/** `-o table|wide|json|yaml|name` and `--limit`, for commands that list. */
export const listing = (command: Command): Command =>
  shown(command).option('--limit <n>', 'how many, at most', whole, 50);
/** `-o table|wide|json|yaml|name`, for commands that show one thing. */
export const shown = (command: Command): Command =>
  command.addOption(
    new Option('-o, --output <format>', 'how to print').choices(['table', 'wide', 'json', 'yaml', 'name']),
  );
