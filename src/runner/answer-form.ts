import { Ajv, type ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import { jsonIn } from '../base/json-in.ts';

/** What does not fit, and where: `path` is a JSON pointer. */
export interface Misfit {
  path: string;
  message: string;
}

/** JSON Schemas of 2020-12 are taken, and of draft-07 where `$schema` says so; at most so long and so deep. */
export const longestSchema = 65_536;
const deepest = 32;
const mostMisfits = 20;

function depthOf(value: unknown, most: number): number {
  if (typeof value !== 'object' || value === null) return 0;
  if (most === 0) return 1;
  let depth = 0;
  for (const inner of Object.values(value)) depth = Math.max(depth, depthOf(inner, most - 1));
  return depth + 1;
}

function compilerFor(schema: object): Ajv {
  const { $schema } = schema as { $schema?: unknown };
  const options = { allErrors: true, strict: false, validateFormats: true };
  const old = typeof $schema === 'string' && /draft-0[67]/.test($schema);
  const ajv = old ? new Ajv(options) : new Ajv2020(options);
  formats.default(ajv);
  return ajv;
}

const misfitsOf = (validate: Pick<ValidateFunction, 'errors'>): Misfit[] =>
  (validate.errors ?? []).slice(0, mostMisfits).map(({ instancePath, message = 'does not fit', keyword, params }) => ({
    path: instancePath,
    message: keyword === 'additionalProperties' ? `has no place for "${String(params.additionalProperty)}"` : message,
  }));

/** What is wrong with a JSON Schema for an answer; an empty list for a good one. */
export function schemaFaults(schema: object): Misfit[] {
  const { length } = JSON.stringify(schema);
  if (length > longestSchema) return [{ path: '', message: `is longer than ${longestSchema} characters` }];
  if (depthOf(schema, deepest) > deepest) return [{ path: '', message: `is deeper than ${deepest} levels` }];
  try {
    const ajv = compilerFor(schema);
    if (!ajv.validateSchema(schema)) return misfitsOf(ajv);
    ajv.compile(schema);
    return [];
  } catch (error) {
    return [{ path: '', message: (error as Error).message.slice(0, 500) }];
  }
}

/** The form that a run's final answer must have. */
export class AnswerForm {
  readonly #schema: object;
  readonly #validate: ValidateFunction;

  /** Throws for what is no schema. */
  constructor(schema: object) {
    this.#schema = schema;
    this.#validate = compilerFor(schema).compile(schema);
  }

  /** The form in words, to stand after the prompt. */
  get words(): string {
    return `When everything is done, end with a message that is nothing but one JSON value, without a fence and without other words, that fits this JSON Schema:\n\n${JSON.stringify(this.#schema)}`;
  }

  /** What to say to an agent whose answer did not fit. */
  again(misfits: readonly Misfit[]): string {
    const list = misfits.map(({ path, message }) => `- ${path || 'the whole answer'}: ${message}`).join('\n');
    return `Your final answer does not fit the JSON Schema:\n${list}\n\nAnswer once more with nothing but one JSON value that fits it. Change no files.\n\n${JSON.stringify(this.#schema)}`;
  }

  /** The value of an answer, or what is wrong with it. */
  read(text: string | null): { value: unknown } | { misfits: Misfit[] } {
    const found = jsonIn(text ?? '');
    if (!found) return { misfits: [{ path: '', message: 'is no JSON' }] };
    try {
      if (this.#validate(found.value)) return found;
      return { misfits: misfitsOf(this.#validate) };
    } catch (error) {
      // A schema that refers to itself without end.
      return { misfits: [{ path: '', message: `could not be checked: ${(error as Error).message}` }] };
    }
  }
}
