import { number, record, text } from '../harness/loose.ts';
import type { Outcome, RunError } from './half.ts';

type Failed = Extract<Outcome, { status: 'failed' }>;

/** The harness failed, in words. */
export const failure = (
  message: string,
  details: Record<string, unknown>,
  stop_reason: Failed['stop_reason'] = 'harness_failed',
): Failed => ({ status: 'failed', stop_reason, error: { code: 'harness_failed', message, retryable: false, details } });

/** The agent's process ended before its prompt did. */
export function died(exit: { code: number | null; signal: NodeJS.Signals | null } | null, stderr_tail: string): Failed {
  const how = exit?.signal ? `by ${exit.signal}` : `with exit code ${exit?.code ?? 'unknown'}`;
  const message = exit ? `The agent ended ${how} before it was through.` : 'The agent could not be started.';
  return failure(message, { exit_code: exit?.code ?? null, signal: exit?.signal ?? null, stderr_tail });
}

const provider = (
  code: RunError['code'],
  message: string,
  retryable: boolean,
  details: Record<string, unknown>,
): Failed => ({
  status: 'failed',
  stop_reason: 'provider_error',
  error: { code, message, retryable, details },
});

/** The HTTP status that an error of an agent is about; null when it names none. */
function statusOf(code: number | null, data: unknown): number | null {
  const fields = record(data);
  for (const found of [code, fields?.status, fields?.statusCode, fields?.code, fields?.http_status]) {
    const status = number(found);
    if (status !== null && status >= 400 && status < 600) return status;
  }
  return null;
}

/** What an agent's RPC error, or one of the connection, means for the run. */
export function agentError(error: unknown, stderr_tail: string): Failed {
  const fields = record(error) ?? {};
  const code = error instanceof Error && 'code' in error ? number(error.code) : number(fields.code);
  const data = error instanceof Error && 'data' in error ? error.data : fields.data;
  const words = error instanceof Error ? error.message : (text(fields.message) ?? String(error));
  const more = text(record(data)?.details) ?? text(record(data)?.message) ?? text(data);
  const message = (more && !words.includes(more) ? `${words}: ${more}` : words).slice(0, 2000);
  const details = { rpc_code: code, stderr_tail };
  const status = statusOf(code, data);
  if (
    code === -32000 ||
    status === 401 ||
    status === 403 ||
    /\b401\b|invalid (x-)?api.?key|unauthorized/i.test(message)
  ) {
    return provider('provider_auth', message, false, details);
  }
  if (status === 429) return provider('provider_rate_limited', message, true, details);
  if (status !== null && status >= 500) return provider('provider_error', message, true, details);
  if (status !== null) return provider('provider_error', message, false, details);
  return failure(message, details);
}
