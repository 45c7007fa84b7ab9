import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv';
import formats from 'ajv-formats';
import type { TSchema } from 'typebox';
import { Fault } from '../src/api/error.ts';

const ajv = new Ajv({ allErrors: true, strict: false, coerceTypes: false, useDefaults: false });
formats.default(ajv, ['uuid', 'date-time']);

// Compiled at first use: a daemon must start fast, and most operations are not called.
const compiled = new WeakMap<TSchema, ValidateFunction>();
const validator = (schema: TSchema): ValidateFunction => {
  let validate = compiled.get(schema);
  if (!validate) compiled.set(schema, (validate = ajv.compile(schema)));
  return validate;
};

const maxErrors = 20;

const say = ({ keyword, params, message }: ErrorObject): string => {
  if (keyword === 'additionalProperties') return `there is no field "${String(params.additionalProperty)}"`;
  if (keyword === 'enum')
    return `must be one of ${(params.allowedValues as unknown[]).map((value) => JSON.stringify(value)).join(', ')}`;
  return message ?? 'is not valid';
};

/** Checks a JSON body; nothing is coerced. Throws `invalid_request` with every error. */
export function checkBody(schema: TSchema, body: unknown): void {
  const validate = validator(schema);
  if (validate(body)) return;
  const errors = (validate.errors ?? [])
    .slice(0, maxErrors)
    .map((error) => ({ path: error.instancePath, message: say(error) }));
  const [first] = errors;
  throw new Fault(
    'invalid_request',
    `The body is not valid: ${first?.path ? `${first.path} ` : ''}${first?.message}.`,
    {
      ...(first?.path ? { param: first.path.slice(1).replaceAll('/', '.') } : {}),
      details: { errors },
    },
  );
}

interface Property {
  type?: string;
  default?: unknown;
}

/**
 * Reads a query as its schema has it: unknown names are ignored, numbers and booleans are taken only in their plain form,
 * defaults are filled in. Throws `invalid_parameter` naming the parameter, `invalid_cursor` for a stream cursor.
 */
export function readQuery(schema: TSchema, given: Record<string, unknown>): Record<string, unknown> {
  const query: Record<string, unknown> = {};
  for (const [name, property] of Object.entries(
    (schema as { properties?: Record<string, Property> }).properties ?? {},
  )) {
    const value = given[name];
    if (value === undefined) {
      if (property.default !== undefined) query[name] = property.default;
    } else if (property.type === 'integer' && typeof value === 'string' && /^-?\d{1,15}$/.test(value))
      query[name] = Number(value);
    else if (property.type === 'boolean' && (value === 'true' || value === 'false')) query[name] = value === 'true';
    else query[name] = value;
  }
  const validate = validator(schema);
  if (validate(query)) return query;
  const error = validate.errors![0]!;
  const param = error.instancePath.slice(1) || String(error.params.missingProperty ?? '');
  const message = `The query parameter "${param}" ${error.keyword === 'required' ? 'is missing' : say(error)}.`;
  throw new Fault(param === 'after' ? 'invalid_cursor' : 'invalid_parameter', message, { param });
}
