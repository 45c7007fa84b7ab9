import { type ErrorCode, Fault } from '../src/api/error.ts';
import type { RunStatus, StopReason } from '../src/api/runs.ts';

/** What a process ends with. */
export const exit = {
  good: 0,
  failed: 1,
  usage: 2,
  notFound: 3,
  notAllowed: 4,
  waiting: 5,
  limit: 6,
  conflict: 7,
  daemon: 8,
  waitedOut: 124,
  interrupted: 130,
} as const;

/** A failure that the CLI itself found: its cause, what to do about it, and the exit code. */
export class Stop extends Error {
  readonly code: number;
  readonly remedy: string | null;
  constructor(code: number, message: string, remedy: string | null = null) {
    super(message);
    this.name = 'Stop';
    this.code = code;
    this.remedy = remedy;
  }
}

const byCode: Partial<Record<ErrorCode, number>> = {
  invalid_json: exit.usage,
  unsupported_media_type: exit.usage,
  invalid_request: exit.usage,
  invalid_parameter: exit.usage,
  invalid_cursor: exit.usage,
  invalid_path: exit.usage,
  idempotency_key_required: exit.usage,
  invalid_idempotency_key: exit.usage,
  organization_required: exit.usage,
  method_not_allowed: exit.usage,
  payload_too_large: exit.usage,
  download_required: exit.usage,
  range_not_satisfiable: exit.usage,
  not_found: exit.notFound,
  route_not_found: exit.notFound,
  unauthenticated: exit.notAllowed,
  insufficient_scope: exit.notAllowed,
  organization_forbidden: exit.notAllowed,
  owner_only: exit.notAllowed,
  origin_not_allowed: exit.notAllowed,
  host_not_allowed: exit.notAllowed,
  sandbox_unavailable: exit.notAllowed,
  insufficient_credits: exit.limit,
  workspace_busy: exit.conflict,
  session_busy: exit.conflict,
  project_archived: exit.conflict,
  invalid_state: exit.conflict,
  input_already_resolved: exit.conflict,
  ambiguous_input_request: exit.conflict,
  idempotency_in_progress: exit.conflict,
  idempotency_key_reused: exit.conflict,
  cursor_expired: exit.conflict,
  etag_mismatch: exit.conflict,
  precondition_required: exit.conflict,
  unavailable: exit.daemon,
};

const remedies: Partial<Record<ErrorCode, string>> = {
  unauthenticated:
    'check AGENTCTL_TOKEN or --token-file; without them the token of this machine is used (`agentctl doctor`)',
  insufficient_scope: 'use a credential with that scope; the local session has all of them',
  organization_required: '`agentctl orgs ls` lists them; --org names one, `agentctl orgs use` chooses one for good',
  organization_forbidden: '`agentctl orgs ls` lists yours, `agentctl orgs use` chooses one',
  owner_only: 'do this on the daemon’s own machine with its local session',
  route_not_found: 'this daemon does not know that path; `agentctl openapi` lists what it does',
  not_found:
    'list what there is: `agentctl ps -a`, `agentctl sessions ls`, `agentctl projects ls`, `agentctl workspaces ls`',
  etag_mismatch: 'somebody changed the file meanwhile: look at it (`agentctl files cat`) and try again',
  workspace_busy:
    'wait for the writer (`agentctl ps`), cancel it, or work in a copy of your own: `agentctl run --worktree …`',
  session_busy: 'wait for the running one (`agentctl ps`) or cancel it',
  project_archived: 'take it out of the archive: `agentctl api PATCH /v1/projects/ID -f archived=false`',
  ambiguous_input_request: 'name the question: `agentctl inbox` shows their ids',
  input_already_resolved: 'somebody was faster; `agentctl inbox` shows what is still open',
  insufficient_credits: 'grant credits, lower --max-cost, or run with the harness’s own account',
  idempotency_key_reused: 'use another --idempotency-key for another request',
  rate_limited: 'wait a little and try again',
  unavailable: 'the daemon is starting or stopping: try again in a moment, `agentctl status` tells',
  insufficient_storage: 'free some disk space; `agentctl doctor` shows where',
  internal_error: 'this is a defect of agentctl; `agentctl logs` has more under the request id',
  host_not_allowed: 'use a loopback address, or allow the host in config.toml (`agentctl config path`)',
  sandbox_unavailable:
    'repeat with `--sandbox none` to run without one (the agent can then read and write whatever you can)',
};

/** What is said of a failure: cause, remedy, request id, and the code to end with. */
export interface Report {
  message: string;
  remedy: string | null;
  requestId: string | null;
  code: number;
}

/** Turns whatever was thrown into words and an exit code. */
export function report(error: unknown): Report {
  if (error instanceof Fault) {
    const own = typeof error.details.remedy === 'string' ? error.details.remedy : null;
    const { message, code, requestId } = error;
    return {
      message: withDetails(error, message),
      // Where a sandbox was asked for, going without is no remedy to offer.
      remedy: error.details.sandbox === 'required' ? own : (remedies[code] ?? own),
      requestId,
      code: exitOfFault(code),
    };
  }
  if (error instanceof Stop) return { message: error.message, remedy: error.remedy, requestId: null, code: error.code };
  const { name, message, requestId } = Object(error) as { name?: string; message?: string; requestId?: string | null };
  if (name === 'Unreachable') {
    const remedy = 'start it with `agentctl up`, or see why it stopped with `agentctl logs`';
    return { message: message ?? '', remedy, requestId: null, code: exit.daemon };
  }
  return { message: message ?? String(error), remedy: null, requestId: requestId ?? null, code: exit.failed };
}

/** The exit code of an error code of the contract. */
export const exitOfFault = (code: ErrorCode): number => byCode[code] ?? exit.failed;

function withDetails(error: Fault, message: string): string {
  const errors = error.details.errors;
  if (!Array.isArray(errors)) return message;
  const each = errors
    .filter((item: { message?: unknown }) => item.message !== message)
    .map((item: { path?: unknown; message?: unknown }) => `\n  ${String(item.path)}: ${String(item.message)}`);
  return message + each.join('');
}

const limits: readonly (StopReason | null)[] = ['time_limit', 'cost_limit', 'credits_exhausted', 'turn_limit'];
const unanswered: readonly (StopReason | null)[] = ['input_rejected', 'input_expired'];

/** The exit code of a run that has ended. `byUs`: this process asked for the cancellation. */
export function exitOfRun(
  { status, stop_reason }: { status: RunStatus; stop_reason: StopReason | null },
  byUs = false,
): number {
  if (status === 'completed') return exit.good;
  if (status === 'cancelled') return byUs ? exit.interrupted : exit.failed;
  if (limits.includes(stop_reason)) return exit.limit;
  if (unanswered.includes(stop_reason)) return exit.waiting;
  return exit.failed;
}
