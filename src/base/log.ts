import type { Logger as Pino } from 'pino';

/** What the rooms may say: structured, by level. pino satisfies it; tests hand in `silent`. */
export type Logger = Pick<Pino, 'debug' | 'info' | 'warn' | 'error' | 'fatal'>;

const nothing = () => {};
export const silent: Logger = {
  debug: nothing,
  info: nothing,
  warn: nothing,
  error: nothing,
  fatal: nothing,
} as Logger;

/** Keys whose values never reach a log line, at any depth that we log. */
export const redacted = ['authorization', 'token', 'secret', 'secrets', 'password', 'api_key', 'prompt', 'env'];
