import { RpcError } from './peer.ts';

/** What a failed call of a model was about. */
export interface ModelFailure {
  message: string;
  /** The HTTP status; null when the provider was not reached, or broke off. */
  status: number | null;
  /** Whether the same call may go well a little later. */
  retryable: boolean;
  /** Milliseconds that the provider wants to be left alone; null when it does not say. */
  wait: number | null;
  /** The conversation is longer than the model takes. */
  too_long: boolean;
}

type Loose = Record<string, unknown>;
const record = (value: unknown): Loose => (typeof value === 'object' && value !== null ? (value as Loose) : {});

/** A header's value in milliseconds. */
function waitIn(headers: Loose): number | null {
  const ms = Number(headers['retry-after-ms']);
  if (Number.isFinite(ms) && ms > 0) return ms;
  const seconds = Number(headers['retry-after']);
  return Number.isFinite(seconds) && seconds > 0 ? seconds * 1000 : null;
}

/** An answer that ended before it was whole. */
export const brokenOff: ModelFailure = {
  message: 'The model’s answer broke off.',
  status: null,
  retryable: true,
  wait: null,
  too_long: false,
};

/** What an error of the SDK, or of the network below it, means. */
export function modelFailure(error: unknown): ModelFailure {
  const fields = record(error);
  const status = typeof fields.statusCode === 'number' ? fields.statusCode : statusIn(fields.data);
  const cause = record(fields.cause);
  const words = error instanceof Error ? error.message : (textIn(fields) ?? String(error));
  const more = typeof cause.message === 'string' && !words.includes(cause.message) ? `: ${cause.message}` : '';
  const message = `${words}${more}`.slice(0, 1000);
  // The SDK's own errors are about what we asked, but for a connection, and an answer that was not whole.
  const isOurs = error instanceof Error && error.name.startsWith('AI_');
  const isPassing = fields.isRetryable === true || (error as Error | null)?.name === 'AI_InvalidResponseDataError';
  return {
    message,
    status,
    retryable:
      status === null ? !isOurs || isPassing : status === 408 || status === 409 || status === 429 || status >= 500,
    wait: waitIn(record(fields.responseHeaders)),
    too_long:
      status === 413 ||
      ((status === 400 || status === null) &&
        /context.{0,12}(length|window|limit)|too long|too many (input )?tokens|exceeds the (maximum|max)/i.test(
          message,
        )),
  };
}

/** Errors that come in the middle of a stream are bodies, each dialect's own. */
function statusIn(data: unknown): number | null {
  const error = record(record(data).error);
  const code = error.code ?? error.status;
  return typeof code === 'number' && code >= 400 && code < 600 ? code : null;
}

function textIn(fields: Loose): string | null {
  const inner = record(fields.error);
  const found = fields.message ?? inner.message;
  return typeof found === 'string' ? found : null;
}

/** The same as an error for the client, who reads the status from its data. */
export const rpcFailure = ({ message, status, retryable }: ModelFailure): RpcError =>
  new RpcError(status === 401 || status === 403 ? -32000 : -32603, message, {
    status: status ?? 503,
    retryable,
  });
