import type { StopReason, TerminalStatus } from '../api/runs.ts';
import { sentenceOf } from './vigil.ts';
import type { Cause, Outcome, RunError } from './half.ts';

/** How a run ended. */
export interface Verdict {
  status: TerminalStatus;
  stop_reason: StopReason;
  error: RunError | null;
}

const failed = (
  stop_reason: StopReason,
  code: RunError['code'],
  message: string,
  details: Record<string, unknown> = {},
  retryable = false,
): Verdict => ({ status: 'failed', stop_reason, error: { code, message, retryable, details } });

/** The verdict when the runner ended the run. */
function ofCause(cause: Cause): Verdict {
  switch (cause.kind) {
    case 'cancel':
      return { status: 'cancelled', stop_reason: 'cancelled', error: null };
    case 'time':
      return failed('time_limit', 'time_limit_exceeded', `The run took longer than its limit of ${cause.seconds} s.`, {
        timeout_seconds: cause.seconds,
      });
    case 'cost':
      return failed(
        'cost_limit',
        'cost_limit_exceeded',
        `The run cost more than its limit of ${cause.limit} micro-USD.`,
        {
          cost_micro_usd: cause.spent,
          max_cost_micro_usd: cause.limit,
        },
      );
    case 'turns':
      return failed('turn_limit', 'harness_failed', `The run took more than its limit of ${cause.limit} turns.`, {
        reason: 'turn_limit',
        max_turns: cause.limit,
      });
    case 'unpriced':
      return failed(
        'provider_error',
        'provider_error',
        `No price is known for the model "${cause.model}", so the run's cost limit cannot be kept. Name its price in the configuration (providers.<id>.models), or leave the limit out.`,
        { reason: 'unpriced_model', model: cause.model },
      );
    case 'stalled':
      return failed('harness_stalled', 'harness_stalled', sentenceOf(cause.finding), { ...cause.finding }, true);
    case 'key':
      return failed('provider_error', 'provider_auth', cause.message);
    case 'output':
      return failed('harness_failed', 'harness_failed', `The harness wrote more than ${cause.limit} bytes.`, {
        reason: 'output_limit',
        max_output_bytes: cause.limit,
      });
    case 'question':
      return failed(
        'input_rejected',
        'harness_failed',
        `The harness asked "${cause.title}", and this run must not ask.`,
        {
          reason: 'input_required',
        },
      );
    case 'expired':
      return failed('input_expired', 'input_expired', 'Nobody answered the question of the harness in time.', {
        request_id: cause.request_id,
      });
    case 'disk':
      return failed(
        'harness_failed',
        'internal_error',
        `The history could not be written: ${cause.message}`,
        { reason: 'disk' },
        true,
      );
    case 'internal':
      return failed('harness_failed', 'internal_error', `The runner failed: ${cause.message}`, {}, true);
  }
}

/** How the last of the agent's own calls of a model failed; no status when the provider could not be reached or broke off. */
export interface ModelFailure {
  http_status: number | null;
  message: string;
}

function ofModel({ http_status, message }: ModelFailure): Verdict {
  const details = { http_status };
  if (http_status === 401 || http_status === 403) return failed('provider_error', 'provider_auth', message, details);
  if (http_status === 429) return failed('provider_error', 'provider_rate_limited', message, details, true);
  const isPassing = http_status === null || http_status < 300 || http_status >= 500;
  return failed('provider_error', 'provider_error', message, details, isPassing);
}

/**
 * The verdict is ours: what the runner did comes first; then a model that failed last, whatever the harness says of it (some
 * call that a good end); then what the harness says.
 */
export function verdictOf(cause: Cause | null, outcome: Outcome, model: ModelFailure | null = null): Verdict {
  if (cause) return ofCause(cause);
  if (model) return ofModel(model);
  switch (outcome.status) {
    case 'completed':
      return { status: 'completed', stop_reason: 'end_turn', error: null };
    case 'failed':
      return { status: 'failed', stop_reason: outcome.stop_reason, error: outcome.error };
    case 'cancelled':
      // Nobody on our side cancelled: a turn that was given up after a refused permission, and no failure.
      return { status: 'completed', stop_reason: 'end_turn', error: null };
  }
}
