import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv';
import formats from 'ajv-formats';
import type { TSchema } from 'typebox';
import { Fault } from '../src/api/error.ts';

const ajv = new Ajv({ allErrors: true, strict: false, coerceTypes: false, useDefaults: false });
formats.default(ajv, ['date-time']);
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
ajv.addFormat('uuid', uuid);

// Compiled at first use: a daemon must start fast, and most operations are not called.
const compiled = new WeakMap<TSchema, ValidateFunction>();
const validator = (schema: TSchema): ValidateFunction => {
  let validate = compiled.get(schema);
  if (!validate) compiled.set(schema, (validate = ajv.compile(schema)));
  return validate;
};

const maxErrors = 20;

/** An id as it is stored: lower case. Throws `not_found` for what is no id at all. */
export function readId(name: string, value: string): string {
  if (!uuid.test(value)) throw new Fault('not_found', `There is no ${name.replace(/_id$/, '')} ${value.slice(0, 64)}.`);
  return value.toLowerCase();
}

/** Writes the ids among an object's own fields as they are stored. */
function lowerIds(schema: TSchema, value: Record<string, unknown>): void {
  for (const [name, property] of Object.entries((schema as { properties?: Record<string, Property> }).properties ?? {}))
    if (property.format === 'uuid' && typeof value[name] === 'string') value[name] = value[name].toLowerCase();
}

const say = ({ keyword, params, message }: ErrorObject): string => {
  if (keyword === 'additionalProperties') return `there is no field "${String(params.additionalProperty)}"`;
  if (keyword === 'enum')
    return `must be one of ${(params.allowedValues as unknown[]).map((value) => JSON.stringify(value)).join(', ')}`;
  return message ?? 'is not valid';
};

/** Checks a JSON body; nothing is coerced, but ids become lower case. Throws `invalid_request` with every error. */
export function checkBody(schema: TSchema, body: unknown): void {
  const validate = validator(schema);
  if (validate(body)) return lowerIds(schema, body as Record<string, unknown>);
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
  format?: string;
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
  if (validate(query)) {
    lowerIds(schema, query);
    return query;
  }
  const error = validate.errors![0]!;
  const param = error.instancePath.slice(1) || String(error.params.missingProperty ?? '');
  const message = `The query parameter "${param}" ${error.keyword === 'required' ? 'is missing' : say(error)}.`;
  throw new Fault(param === 'after' ? 'invalid_cursor' : 'invalid_parameter', message, { param });
}
