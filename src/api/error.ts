/** Every failure of the API: its status, its type and whether repeating the request may help (contract section 1). */
interface Failure {
  status: number;
  type:
    | 'invalid_request_error'
    | 'authentication_error'
    | 'permission_error'
    | 'not_found_error'
    | 'conflict_error'
    | 'precondition_error'
    | 'billing_error'
    | 'rate_limit_error'
    | 'unavailable_error'
    | 'internal_error';
  retryable: boolean;
}

const failure = (status: number, type: Failure['type'], retryable = false): Failure => ({ status, type, retryable });

export const failures = {
  invalid_json: failure(400, 'invalid_request_error'),
  unsupported_media_type: failure(415, 'invalid_request_error'),
  invalid_request: failure(400, 'invalid_request_error'),
  invalid_parameter: failure(400, 'invalid_request_error'),
  invalid_cursor: failure(400, 'invalid_request_error'),
  invalid_path: failure(400, 'invalid_request_error'),
  idempotency_key_required: failure(400, 'invalid_request_error'),
  invalid_idempotency_key: failure(400, 'invalid_request_error'),
  organization_required: failure(400, 'invalid_request_error'),
  unauthenticated: failure(401, 'authentication_error'),
  insufficient_credits: failure(402, 'billing_error'),
  insufficient_scope: failure(403, 'permission_error'),
  organization_forbidden: failure(403, 'permission_error'),
  owner_only: failure(403, 'permission_error'),
  origin_not_allowed: failure(403, 'permission_error'),
  not_found: failure(404, 'not_found_error'),
  route_not_found: failure(404, 'not_found_error'),
  method_not_allowed: failure(405, 'invalid_request_error'),
  workspace_busy: failure(409, 'conflict_error', true),
  session_busy: failure(409, 'conflict_error', true),
  project_archived: failure(409, 'conflict_error'),
  invalid_state: failure(409, 'conflict_error'),
  input_already_resolved: failure(409, 'conflict_error'),
  ambiguous_input_request: failure(409, 'conflict_error'),
  sandbox_unavailable: failure(409, 'conflict_error'),
  idempotency_in_progress: failure(409, 'conflict_error', true),
  cursor_expired: failure(410, 'invalid_request_error'),
  etag_mismatch: failure(412, 'precondition_error'),
  payload_too_large: failure(413, 'invalid_request_error'),
  download_required: failure(413, 'invalid_request_error'),
  range_not_satisfiable: failure(416, 'invalid_request_error'),
  host_not_allowed: failure(421, 'permission_error'),
  idempotency_key_reused: failure(422, 'invalid_request_error'),
  precondition_required: failure(428, 'precondition_error'),
  rate_limited: failure(429, 'rate_limit_error', true),
  internal_error: failure(500, 'internal_error', true),
  unavailable: failure(503, 'unavailable_error', true),
  insufficient_storage: failure(507, 'unavailable_error', true),
} satisfies Record<string, Failure>;

export type ErrorCode = keyof typeof failures;

/** What goes over the wire for every failure; `request_id` is added by the server that answers. */
export interface ErrorBody {
  error: {
    code: ErrorCode;
    type: Failure['type'];
    message: string;
    param: string | null;
    details: Record<string, unknown>;
    retryable: boolean;
    request_id: string | null;
  };
}

export interface FaultOptions {
  param?: string;
  details?: Record<string, unknown>;
  /** Extra response headers, such as Retry-After. */
  headers?: Record<string, string>;
  requestId?: string | null;
  cause?: unknown;
}

/** A failure with a code of the contract. Thrown by the domain, answered by the daemon, rebuilt by the client. */
export class Fault extends Error {
  readonly code: ErrorCode;
  readonly param: string | null;
  readonly details: Record<string, unknown>;
  readonly headers: Record<string, string>;
  readonly requestId: string | null;

  constructor(code: ErrorCode, message: string, options: FaultOptions = {}) {
    super(message, { cause: options.cause });
    this.name = 'Fault';
    this.code = code;
    this.param = options.param ?? null;
    this.details = options.details ?? {};
    this.headers = options.headers ?? {};
    this.requestId = options.requestId ?? null;
  }

  /** The HTTP status of this failure. */
  get status(): number {
    return failures[this.code].status;
  }

  /** The body of the answer. */
  body(requestId: string | null = this.requestId): ErrorBody {
    const { type, retryable } = failures[this.code];
    const { code, message, param, details } = this;
    return { error: { code, type, message, param, details, retryable, request_id: requestId } };
  }

  /** The Fault that an answer carries, or undefined when its body is not one of ours. */
  static from(body: unknown, headers: Record<string, string> = {}): Fault | undefined {
    const error = (body as Partial<ErrorBody> | null)?.error;
    if (!error || typeof error.code !== 'string' || !Object.hasOwn(failures, error.code)) return undefined;
    const { param, details, request_id: requestId } = error;
    return new Fault(error.code, error.message, { ...(param ? { param } : {}), details, headers, requestId });
  }
}
