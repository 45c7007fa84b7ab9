import type { Dialect } from '../../api/usage.ts';
import { list, number, record, text, type Loose } from '../../harness/loose.ts';

/** What a path of the gateway is for. */
export interface Target {
  dialect: Dialect;
  /** `generate` is a call that costs; `count` counts tokens. */
  kind: 'generate' | 'count';
  /** Below the version's segment of the provider's address, with its slash. */
  path: string;
  version: 'v1' | 'v1beta';
  /** The model, where the path names it. */
  model: string | null;
  /** Whether the path alone asks for a stream. */
  stream: boolean;
}

const plain: Record<string, Pick<Target, 'dialect' | 'kind'>> = {
  '/v1/messages': { dialect: 'anthropic', kind: 'generate' },
  '/v1/messages/count_tokens': { dialect: 'anthropic', kind: 'count' },
  '/v1/responses': { dialect: 'responses', kind: 'generate' },
  '/v1/chat/completions': { dialect: 'chat', kind: 'generate' },
};

/** What a POST to this path is; undefined when the gateway has nothing there. */
export function targetOf(path: string): Target | undefined {
  const known = plain[path];
  if (known) return { ...known, path: path.slice(3), version: 'v1', model: null, stream: false };
  const [, model, verb] =
    /^\/v1(?:beta)?\/models\/([\w.-]+):(generateContent|streamGenerateContent|countTokens)$/.exec(path) ?? [];
  if (model === undefined || verb === undefined) return undefined;
  return {
    dialect: 'gemini',
    kind: verb === 'countTokens' ? 'count' : 'generate',
    path: `/models/${model}:${verb}`,
    version: 'v1beta',
    model,
    stream: verb === 'streamGenerateContent',
  };
}

/** The dialect in which an error on this path is best understood. */
export const dialectNear = (path: string): Dialect =>
  targetOf(path)?.dialect ??
  (path.startsWith('/v1beta') ? 'gemini' : path.startsWith('/v1/messages') ? 'anthropic' : 'chat');

/** A request as far as it matters here. */
export interface Asked {
  model: string;
  stream: boolean;
  /** Tokens that the answer may have; null when the request sets no bound. */
  most: number | null;
  /** It offers tools: the agent's own turn, and not a title or a summary. */
  main: boolean;
}

/** Reads a request's body. */
export function askedOf(target: Target, body: Loose): Asked {
  const config = record(body.generationConfig);
  const most =
    number(body.max_tokens) ??
    number(body.max_completion_tokens) ??
    number(body.max_output_tokens) ??
    number(config?.maxOutputTokens);
  const isOffered = (item: unknown): boolean => record(item)?.type === 'additional_tools';
  return {
    model: target.model ?? text(body.model) ?? '',
    stream: target.stream || body.stream === true,
    most: most === null ? null : Math.max(0, most),
    main: list(body.tools).length > 0 || list(body.input).some(isOffered),
  };
}

/** Why the gateway refuses. */
export type Refusal = 'unauthenticated' | 'not_found' | 'invalid' | 'too_large' | 'spent' | 'unreachable';

const words: Record<Refusal, { status: number; anthropic: string; openai: string; google: string }> = {
  unauthenticated: {
    status: 401,
    anthropic: 'authentication_error',
    openai: 'invalid_api_key',
    google: 'UNAUTHENTICATED',
  },
  not_found: { status: 404, anthropic: 'not_found_error', openai: 'not_found', google: 'NOT_FOUND' },
  invalid: { status: 400, anthropic: 'invalid_request_error', openai: 'invalid_request', google: 'INVALID_ARGUMENT' },
  too_large: { status: 413, anthropic: 'request_too_large', openai: 'request_too_large', google: 'INVALID_ARGUMENT' },
  spent: { status: 402, anthropic: 'billing_error', openai: 'insufficient_quota', google: 'RESOURCE_EXHAUSTED' },
  unreachable: { status: 502, anthropic: 'api_error', openai: 'server_error', google: 'UNAVAILABLE' },
};

/** A refusal in the dialect's own form. */
export function refusalOf(dialect: Dialect, why: Refusal, message: string): { status: number; body: string } {
  const { status, anthropic, openai, google } = words[why];
  const body =
    dialect === 'anthropic'
      ? { type: 'error', error: { type: anthropic, message } }
      : dialect === 'gemini'
        ? { error: { code: status, message, status: google } }
        : { error: { message, type: openai, code: openai, param: null } };
  return { status, body: JSON.stringify(body) };
}

/** The sentence in a provider's error, whatever its form; null when there is none. */
export function messageIn(body: unknown): string | null {
  const first = record(body) ?? record(list(body)[0]);
  const error = record(first?.error);
  return text(error?.message) ?? text(first?.error) ?? text(first?.message) ?? text(first?.detail);
}
