import { Fault } from '../src/api/error.ts';

const maxDepth = 32;
const decoder = new TextDecoder('utf-8', { fatal: true });

/**
 * Parses a JSON body strictly: UTF-8 without errors, at most 32 levels deep, no `__proto__`, no lone surrogates. Throws
 * `invalid_json`.
 */
export function parseJson(bytes: Buffer): unknown {
  const refuse = (message: string, cause?: unknown) => new Fault('invalid_json', message, { cause });
  let text: string;
  try {
    text = decoder.decode(bytes);
  } catch (cause) {
    throw refuse('The body is not UTF-8.', cause);
  }
  if (text.trim() === '') throw refuse('This needs a JSON body.');
  if (depthOf(text) > maxDepth) throw refuse(`The body is nested deeper than ${maxDepth} levels.`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw refuse(`The body is not JSON: ${(cause as Error).message}`, cause);
  }
  assertSane(value, refuse);
  return value;
}

/** How deep brackets are nested, found in one pass, before a parser recurses into them. */
function depthOf(text: string): number {
  let depth = 0;
  let deepest = 0;
  let inString = false;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (inString) {
      if (code === 0x5c) at++;
      else if (code === 0x22) inString = false;
    } else if (code === 0x22) inString = true;
    else if (code === 0x7b || code === 0x5b) deepest = Math.max(deepest, ++depth);
    else if (code === 0x7d || code === 0x5d) depth--;
  }
  return deepest;
}

function assertSane(value: unknown, refuse: (message: string) => Fault): void {
  if (typeof value === 'string') {
    if (!value.isWellFormed()) throw refuse('The body holds half of a surrogate pair, which is no character.');
  } else if (typeof value === 'object' && value !== null) {
    for (const [key, inner] of Object.entries(value)) {
      if (key === '__proto__') throw refuse('The body holds a key named __proto__.');
      if (!key.isWellFormed()) throw refuse('The body holds half of a surrogate pair, which is no character.');
      assertSane(inner, refuse);
    }
  }
}
